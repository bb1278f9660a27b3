"""Runs every query of the Grafana dashboards against a Prometheus: `grafana.py PROMETHEUS PAGE..`.

A query must have no error, and a result once its variables are filled in. So must each of its
selectors alone, since `or` hides an empty side. Each label that a legend names is on some series.
Every family on the pages must be on a dashboard, or among those left out. Exits with code 1 and the
list of what is wrong if that does not change within `--wait` seconds.
"""

import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "deploy/grafana"
sys.path.insert(0, str(GRAFANA))

from generator import coverage  # noqa: E402
from generator.panels import SELECTOR  # noqa: E402

BUILT_IN = {"$__rate_interval": "15s", "$__range": "5m"}
BY_NAME = re.compile(r'\{__name__=~"[^{}]*\}')


@dataclass(frozen=True)
class Asked:
    """A query of a panel, of the annotations, or of a variable."""

    where: str
    expr: str
    legend: str = ""


def dashboards() -> Iterator[tuple[str, dict]]:
    """Name and content of each committed dashboard."""
    for path in sorted((GRAFANA / "dashboards").glob("*.json")):
        yield path.stem, json.loads(path.read_text())


def panels(dashboard: dict) -> Iterator[dict]:
    """All panels, those inside of collapsed rows too, without the rows."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def queries(name: str, dashboard: dict) -> Iterator[Asked]:
    """All queries of a dashboard but those of its variables."""
    for of in dashboard["annotations"]["list"]:
        yield Asked(f"{name}: annotation {of['name']}", of["expr"], of["titleFormat"])
    for panel in panels(dashboard):
        for target in panel["targets"]:
            where = f"{name}: {panel['title']}: {target['refId']}"
            yield Asked(where, target["expr"], target["legendFormat"])


class Prometheus:
    """Its HTTP API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _get(self, path: str, **parameters: str) -> list:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                answered = json.load(answer)
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from error
        return answered["data"]

    def series(self, expr: str) -> list[dict]:
        """Labels of the series that an instant query returns; an error is a `ValueError`."""
        return [row["metric"] for row in self._get("query", query=expr)["result"]]

    def label_values(self, definition: str) -> list[str]:
        """Values of a variable's `label_values(SELECTOR, LABEL)`."""
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", definition).groups()
        return self._get(f"label/{label}/values", **{"match[]": selector})


def fills(prometheus: Prometheus, dashboard: dict) -> tuple[list[dict[str, str]], list[str]]:
    """Values of all variables, once for each value of the one without `All`; and what is wrong."""
    chosen: list[dict[str, str]] = [dict(BUILT_IN)]
    wrong = []
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        key = f"${variable['name']}"
        values = prometheus.label_values(filled(variable["definition"], chosen[0]))
        if not values and variable["name"] != "mesh":
            wrong.append(f"{dashboard['uid']}: variable {key} has no values")
        if variable["includeAll"]:
            values = [variable["allValue"]]
        chosen = [one | {key: value} for one in chosen for value in values]
        if not chosen:
            # Nothing was scraped yet: the variables after it depend on it.
            return chosen, [f"{dashboard['uid']}: variable {key} has no values"]
    return chosen, wrong


def filled(expr: str, values: dict[str, str]) -> str:
    """The expression without variables."""
    for key, value in values.items():
        expr = expr.replace(key, value)
    return expr


def selectors(expr: str) -> list[str]:
    """The selectors of an expression, without their ranges."""
    return [found[0] for found in SELECTOR.finditer(expr)] + BY_NAME.findall(expr)


def wrong_query(prometheus: Prometheus, asked: Asked, chosen: list[dict[str, str]]) -> list[str]:
    """What is wrong with one query: with the best of the choices."""
    found: list[dict] = []
    empty = set(selectors(asked.expr))
    try:
        for values in chosen:
            found += prometheus.series(filled(asked.expr, values))
            empty = {one for one in empty if not prometheus.series(filled(one, values))}
            if found and not empty:
                break
    except ValueError as error:
        return [f"{asked.where}: {error} in {asked.expr}"]
    excused = {one for one in empty if (asked.where, one.split("{")[0]) in coverage.MAY_BE_EMPTY}
    wrong = [f"{asked.where}: no series of {one}" for one in sorted(empty - excused)]
    if not found and not excused:
        wrong.append(f"{asked.where}: no result of {asked.expr}")
    named = set(re.findall(r"\{\{(\w+)\}\}", asked.legend))
    lacking = named - {label for series in found for label in series}
    if found and lacking:
        wrong.append(f"{asked.where}: the legend names {lacking}, which no series has")
    return wrong


def exported(pages: list[str]) -> set[str]:
    """The families of pages, each with the suffix of its type where queries need one."""
    families = set()
    for page in pages:
        with urllib.request.urlopen(page, timeout=30) as answer:
            text = answer.read().decode()
        families |= set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    return families


def unshown(families: set[str]) -> list[str]:
    """Families that are neither on a dashboard nor left out."""
    known = shown() | coverage.names()
    ours = {coverage.of_job(name) for name in families if name.startswith(coverage.PREFIXES)}
    return [f"{name} is on no dashboard and not left out" for name in sorted(ours - known)]


def shown() -> set[str]:
    """The families that the dashboards query."""
    names = set()
    for name, dashboard in dashboards():
        for asked in queries(name, dashboard):
            names |= {found[1].removesuffix("_bucket") for found in SELECTOR.finditer(asked.expr)}
            names |= {
                coverage.of_job(found) for found in re.findall(r'"(plimsoll_job_\w+)', asked.expr)
            }
            if '"plimsoll_node_$sensor"' in asked.expr:
                names |= sensors()
    return names


def sensors() -> set[str]:
    """The families of all sensors, from the catalogue."""
    catalogue = (ROOT / "schemas/src/hardware/catalogue.rs").read_text()
    row = r'^ +[A-Z0-9_]+ (?:gauge|gauge_low|counter) "(\w+)"'
    return {f"plimsoll_node_{name}" for name in re.findall(row, catalogue, re.MULTILINE)}


def check(prometheus: Prometheus, pages: list[str]) -> list[str]:
    """Everything that is wrong."""
    wrong = unshown(exported(pages))
    for name, dashboard in dashboards():
        chosen, unfilled = fills(prometheus, dashboard)
        wrong += unfilled
        for asked in queries(name, dashboard):
            wrong += wrong_query(prometheus, asked, chosen)
    return wrong


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prometheus")
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--wait", type=float, default=0)
    given = parser.parse_args()
    deadline = time.monotonic() + given.wait
    while True:
        wrong = check(Prometheus(given.prometheus), given.pages)
        if not wrong or time.monotonic() >= deadline:
            break
        time.sleep(1)
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
