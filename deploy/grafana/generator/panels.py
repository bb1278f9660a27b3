"""Kinds of panels, variables, and the frame of a dashboard, as the JSON of Grafana 10 to 12.

An expression names families without the matchers that all of them have; `scoped` adds these. What
an alert or a budget limits is drawn as a dashed line whose legend begins with `limit` or `rule`.
"""

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

Json = dict[str, Any]

# Schema of Grafana 10.0; later versions convert it when they load it.
SCHEMA = 38
COLUMNS = 24
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
# A family with or without matchers. Names of labels never begin like this.
SELECTOR = re.compile(r"(?<!\")\b((?:plimsoll|process)_[a-z0-9_]+)\b(?:\{([^{}]*)\})?")
# Lines that come from settings: limits of budgets, thresholds of rules.
LIMITS = "/^(limit|rule) /"


@dataclass(frozen=True)
class Query:
    """An expression in PromQL, and the name of each of its series."""

    expr: str
    legend: str = "__auto"


@dataclass
class Panel:
    """One panel; `body` is its JSON without place, number and queries."""

    title: str
    description: str
    queries: list[Query]
    width: int
    height: int
    instant: bool = False
    format: str = "time_series"
    body: Json = field(default_factory=dict)


@dataclass
class Row:
    """A heading with its panels, which a collapsed row loads when it is opened."""

    title: str
    panels: list[Panel]
    collapsed: bool = False


def rule(metric: str) -> Query:
    """The thresholds of the rules on a metric."""
    return Query(f'max by (rule) (plimsoll_rule_threshold{{metric="{metric}"}})', "rule {{rule}}")


def _defaults(unit: str, minimum: float | None, steps: list[tuple[str, float | None]]) -> Json:
    thresholds = {
        "mode": "absolute",
        "steps": [{"color": color, "value": value} for color, value in steps],
    }
    defaults: Json = {"unit": unit, "thresholds": thresholds, "mappings": []}
    if minimum is not None:
        defaults["min"] = minimum
    return defaults


def lines(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 8,
    minimum: float | None = 0,
    stacked: bool = False,
    repeat: str | None = None,
) -> Panel:
    """Values over time."""
    defaults = _defaults(unit, minimum, [("green", None)])
    defaults["color"] = {"mode": "palette-classic"}
    defaults["custom"] = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    dashed = [
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
        {"id": "custom.stacking", "value": {"mode": "none", "group": "limits"}},
        {"id": "custom.fillOpacity", "value": 0},
        {"id": "color", "value": {"mode": "fixed", "fixedColor": "red"}},
    ]
    limits = {"matcher": {"id": "byRegexp", "options": LIMITS}, "properties": dashed}
    body: Json = {
        "type": "timeseries",
        "fieldConfig": {"defaults": defaults, "overrides": [limits]},
        "options": {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }
    if repeat:
        body |= _repeated(repeat)
        # Copies fill rows of their own.
        width = COLUMNS
    return Panel(title, description, list(queries), width, 8, body=body)


def _repeated(name: str) -> Json:
    return {"repeat": name, "repeatDirection": "h", "maxPerRow": 2}


def number(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    red_from: float | None = None,
    text: str = "auto",
    words: dict[int, str] | None = None,
) -> Panel:
    """The value at the end of the chosen time, red from a bound on; the bound is a natural one, such
    as one lost sample. A query of one instant: the latest of a range would stay after its series has
    ended. With the text `name` that of the series in place of its value; `words` stand for values.
    """
    steps: list[tuple[str, float | None]] = [("green", None)]
    if red_from is not None:
        steps.append(("red", red_from))
    options = {
        "colorMode": "value" if red_from is not None else "none",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": text,
    }
    defaults = _defaults(unit, None, steps) | {"noValue": "no data"}
    if words:
        named = {str(value): {"text": word} for value, word in words.items()}
        defaults["mappings"] = [{"type": "value", "options": named}]
    config = {"defaults": defaults, "overrides": []}
    body = {"type": "stat", "fieldConfig": config, "options": options}
    return Panel(title, description, list(queries), 4, 4, instant=True, body=body)


@dataclass(frozen=True)
class Column:
    """A column of a table: a query's value, or a label."""

    name: str
    unit: str = "none"
    query: Query | None = None
    label: str | None = None
    red_below: float | None = None
    link: str | None = None


def table(title: str, description: str, columns: list[Column], width: int = 24) -> Panel:
    """The latest values, one row for each set of the labels that are columns."""
    queries = [column.query for column in columns if column.query]
    labels = {column.label: column.name for column in columns if column.label}
    names = dict(labels)
    overrides = []
    number = 0
    for column in columns:
        properties: list[Json] = [{"id": "unit", "value": column.unit}]
        if column.query:
            # Grafana names the only value of a table without the letter of its query.
            source = "Value" if len(queries) == 1 else f"Value #{chr(ord('A') + number)}"
            names[source] = column.name
            number += 1
        if column.red_below is not None:
            steps = [{"color": "red", "value": None}, {"color": "green", "value": column.red_below}]
            properties += [
                {"id": "thresholds", "value": {"mode": "absolute", "steps": steps}},
                {"id": "custom.cellOptions", "value": {"type": "color-text"}},
            ]
        if column.link:
            link = {"title": "Open", "url": column.link, "targetBlank": False}
            properties.append({"id": "links", "value": [link]})
        matcher = {"id": "byName", "options": column.name}
        overrides.append({"matcher": matcher, "properties": properties})
    order = {name: place for place, name in enumerate(sorted(names, key=_order(names, columns)))}
    hidden = {"Time": True} | {name: True for name in names if names[name].startswith("_")}
    organize = {"excludeByName": hidden, "indexByName": order, "renameByName": names}
    defaults = _defaults("none", None, [("text", None)]) | {"custom": {"align": "auto"}}
    body: Json = {
        "type": "table",
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        "options": {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}},
        "transformations": [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": organize},
        ],
    }
    return Panel(title, description, queries, width, 8, instant=True, format="table", body=body)


def _order(names: dict[str, str], columns: list[Column]) -> Any:
    places = {column.name: place for place, column in enumerate(columns)}
    return lambda source: places[names[source]]


def heatmap(title: str, description: str, query: Query, repeat: str) -> Panel:
    """Counts by bucket over time."""
    options: Json = {
        "calculate": False,
        "cellGap": 1,
        "cellValues": {"unit": "short"},
        "color": {"mode": "scheme", "scheme": "Viridis", "steps": 64, "reverse": False},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "show": True, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
    }
    defaults = _defaults("short", None, [("green", None)])
    body = {
        "type": "heatmap",
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }
    body |= _repeated(repeat)
    return Panel(title, description, [query], COLUMNS, 8, format="heatmap", body=body)


def variable(name: str, label: str, query: str, *, every: bool = False) -> Json:
    """A choice from the values of a label; with `every` several, and all to begin with."""
    all_of_it = {"selected": True, "text": ["All"], "value": ["$__all"]}
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "includeAll": every,
        "multi": every,
        # Also of series without the label.
        "allValue": ".*" if every else None,
        "current": all_of_it if every else {},
        "refresh": 2,
        "sort": 1,
        "regex": "",
        "hide": 0,
        "options": [],
        "skipUrlSync": False,
    }


def common_variables() -> list[Json]:
    """Data source, mesh and aggregator, which all dashboards have."""
    source: Json = {
        "type": "datasource",
        "name": "datasource",
        "label": "Prometheus",
        "query": "prometheus",
        "current": {},
        "includeAll": False,
        "multi": False,
        "refresh": 1,
        "regex": "",
        "hide": 0,
        "options": [],
        "skipUrlSync": False,
    }
    ready = 'plimsoll_aggregator_ready{mesh=~"$mesh"}'
    return [
        source,
        variable("mesh", "Mesh", "label_values(plimsoll_aggregator_ready, mesh)", every=True),
        variable("aggregator", "Aggregator", f"label_values({ready}, instance)"),
    ]


def scoped(expr: str, matchers: dict[str, str], without: dict[str, set[str]]) -> str:
    """Adds a matcher for each label to each family, except to families that lack the label."""

    def add(found: re.Match[str]) -> str:
        name, own = found[1], found[2]
        added = [f"{key}{of}" for key, of in matchers.items() if not _lacks(name, key, without)]
        return f"{name}{{{','.join(added + ([own] if own else []))}}}"

    return SELECTOR.sub(add, expr)


def _lacks(name: str, key: str, without: dict[str, set[str]]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in without.get(key, ()))


@dataclass
class Dashboard:
    """A dashboard before it is laid out."""

    uid: str
    title: str
    description: str
    variables: list[Json]
    rows: list[Row]
    # Matchers that every family has, and families without the label.
    matchers: dict[str, str]
    without: dict[str, set[str]] = field(default_factory=dict)
    # Alerts that are drawn over all panels.
    alerts: str = "plimsoll_alert_firing"

    def json(self) -> Json:
        """The dashboard as Grafana imports it."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["plimsoll"],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timepicker": {},
            "timezone": "browser",
            "links": self._links(),
            "annotations": {"list": [self._alerts()]},
            "templating": {"list": common_variables() + self.variables},
            "panels": self._panels(),
        }

    def _scoped(self, expr: str) -> str:
        return scoped(expr, self.matchers, self.without)

    def _links(self) -> list[Json]:
        common: Json = {"icon": "external link", "tooltip": "", "tags": [], "url": ""}
        others = {
            "title": "Plimsoll",
            "type": "dashboards",
            "tags": ["plimsoll"],
            "asDropdown": False,
            "includeVars": True,
            "keepTime": True,
            "targetBlank": False,
        }
        page = {
            "title": "Aggregator's page",
            "type": "link",
            "url": "http://${aggregator}/",
            "asDropdown": False,
            "includeVars": False,
            "keepTime": False,
            "targetBlank": True,
        }
        return [common | others, common | page]

    def _alerts(self) -> Json:
        return {
            "name": "Firing alerts",
            "datasource": DATASOURCE,
            "enable": True,
            "hide": False,
            "iconColor": "red",
            "expr": self._scoped(f"max by (rule, node, operation) ({self.alerts}) == 1"),
            "step": "10s",
            "titleFormat": "{{rule}}",
            "textFormat": "{{node}} {{operation}}",
            "tagKeys": "rule,node",
        }

    def _panels(self) -> list[Json]:
        placed: list[Json] = []
        top = 0
        number = 1
        for row in self.rows:
            heading: Json = {
                "type": "row",
                "id": number,
                "title": row.title,
                "collapsed": row.collapsed,
                "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": top},
                "panels": [],
            }
            number += 1
            top += 1
            placed.append(heading)
            left = height = 0
            inside = heading["panels"] if row.collapsed else placed
            for panel in row.panels:
                if left + panel.width > COLUMNS:
                    top, left, height = top + height, 0, 0
                place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
                inside.append(self._panel(panel, number, place))
                number += 1
                left, height = left + panel.width, max(height, panel.height)
            top += height
        return placed

    def _panel(self, panel: Panel, number: int, place: Json) -> Json:
        targets = [
            {
                "refId": chr(ord("A") + at),
                "datasource": DATASOURCE,
                "expr": self._scoped(query.expr),
                "legendFormat": query.legend,
                "format": panel.format,
                "instant": panel.instant,
                "range": not panel.instant,
                "editorMode": "code",
            }
            for at, query in enumerate(panel.queries)
        ]
        frame = {
            "id": number,
            "title": panel.title,
            "description": panel.description,
            "datasource": DATASOURCE,
            "gridPos": place,
            "targets": targets,
        }
        return frame | panel.body
