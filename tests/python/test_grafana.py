"""The Grafana dashboards as files: reproduced, complete, and laid out as Grafana wants them.

The queries run against a real Prometheus in `tests/live/prometheus/grafana.rs`.
"""

import json
import re
import subprocess
import unittest
from unittest import mock

import grafana
from generator.panels import DATASOURCE
from grafana import ROOT

GENERATE = ROOT / "deploy/grafana/generate"
# Variables of Grafana itself, beside those of a dashboard.
OF_GRAFANA = {"__all", "__rate_interval", "__range", "__data", "__url_time_range"}
EXCEPTIONS_MAX = 5


def families() -> set[str]:
    """Every family of a mesh, from the sources: what only a fault or a device exports too."""
    names: set[str] = set()
    for folder in ("aggregator/src/exposition/families", "node/src/io/http"):
        for path in (ROOT / folder).glob("*.rs"):
            production = path.read_text().split("#[cfg(test)]")[0]
            names |= set(re.findall(r'"(plimsoll_[a-z0-9_]+)"', production))
    return names | grafana.sensors()


def unknown(shown: set[str]) -> set[str]:
    """Shown families of ours that no program exports. Those of the process come from a library."""
    of_jobs = {"plimsoll_job_count_", "plimsoll_job_lowered_", "plimsoll_job_value_"}
    return {name for name in shown if name.startswith("plimsoll_")} - families() - of_jobs


class Files(unittest.TestCase):
    """The committed dashboards."""

    def test_the_generator_reproduces_them(self):
        checked = subprocess.run([GENERATE, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_every_exported_family_is_shown_or_left_out_with_a_reason(self):
        self.assertGreater(len(families()), 300)
        self.assertEqual(grafana.unshown(families()), [])
        left_out = grafana.coverage.names()
        self.assertEqual(left_out & grafana.shown(), set())
        self.assertEqual(unknown(left_out), set())
        listed = [name for names in grafana.coverage.LEFT_OUT.values() for name in names]
        self.assertEqual(len(listed), len(left_out), "a family is listed twice")

    def test_a_family_that_no_program_exports_is_noticed(self):
        self.assertEqual(unknown(grafana.shown()), set())
        self.assertEqual(unknown({"plimsoll_budget_limit_secs"}), {"plimsoll_budget_limit_secs"})
        with mock.patch.object(grafana.coverage, "names", return_value=set()):
            self.assertIn(
                "plimsoll_agent_dropping is on no dashboard and not left out",
                grafana.unshown(families()),
            )

    def test_few_queries_may_be_empty(self):
        asked = {
            (one.where, selector.split("{")[0])
            for name, of in grafana.dashboards()
            for one in grafana.queries(name, of)
            for selector in grafana.selectors(one.expr)
        }
        may = grafana.coverage.MAY_BE_EMPTY
        self.assertLessEqual(len(may), EXCEPTIONS_MAX)
        self.assertLessEqual(set(may), asked)
        self.assertTrue(all(may.values()))

    def test_they_are_three(self):
        uids = [dashboard["uid"] for _, dashboard in grafana.dashboards()]
        self.assertEqual(uids, ["plimsoll-fleet", "plimsoll-mesh", "plimsoll-node"])


class Structure(unittest.TestCase):
    """Each panel of each dashboard."""

    def test_every_panel_has_a_title_a_description_a_unit_and_queries(self):
        for _, dashboard in grafana.dashboards():
            panels = list(grafana.panels(dashboard))
            titles = [panel["title"] for panel in panels]
            self.assertEqual(len(set(titles)), len(titles))
            self.assertGreater(len(panels), 20)
            for panel in panels:
                self.assertRegex(panel["description"], r"^[A-Z1].{15,}\.$", panel["title"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
                refs = [target["refId"] for target in panel["targets"]]
                self.assertEqual(refs, sorted(set(refs)), panel["title"])
                self.assertTrue(refs, panel["title"])

    def test_panels_have_numbers_of_their_own_and_do_not_overlap(self):
        for _, dashboard in grafana.dashboards():
            rows = [panel for panel in dashboard["panels"] if panel["type"] == "row"]
            panels = rows + list(grafana.panels(dashboard))
            self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
            cells: set[tuple[int, int]] = set()
            for panel in panels:
                at = panel["gridPos"]
                self.assertLessEqual(at["x"] + at["w"], 24)
                covered = {
                    (x, y)
                    for x in range(at["x"], at["x"] + at["w"])
                    for y in range(at["y"], at["y"] + at["h"])
                }
                self.assertEqual(covered & cells, set(), panel["title"])
                cells |= covered

    def test_every_variable_that_a_query_or_a_link_names_is_defined(self):
        for _, dashboard in grafana.dashboards():
            defined = {of["name"] for of in dashboard["templating"]["list"]} | OF_GRAFANA
            self.assertLessEqual({"datasource", "mesh", "aggregator"}, defined)
            named = set(re.findall(r"\$\{?(\w+)", str(dashboard)))
            self.assertEqual(named - defined, set())
            self.assertIn("http://${aggregator}/", [link["url"] for link in dashboard["links"]])

    def test_no_query_or_data_source_is_bound_to_one_site(self):
        for _, dashboard in grafana.dashboards():
            text = json.dumps(dashboard)
            sources = set(re.findall(r'"datasource": (\{[^{}]*"uid": "[^"]*"\})', text))
            self.assertEqual(len(sources), 1)
            self.assertEqual(json.loads(sources.pop()), DATASOURCE)
            self.assertEqual(text.count('"datasource": {'), text.count(json.dumps(DATASOURCE)))
            for asked in grafana.queries("any", dashboard):
                for selector in grafana.selectors(asked.expr):
                    self.assertIn('mesh=~"$mesh"', selector, asked.where)

    def test_limits_come_from_the_mesh(self):
        for name, dashboard in grafana.dashboards():
            for panel in grafana.panels(dashboard):
                bounds = [
                    step["value"]
                    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
                ]
                self.assertLessEqual(set(bounds), {None, 0, 1}, (name, panel["title"]))


class Queries(unittest.TestCase):
    """How a query is taken apart."""

    def test_selectors_are_found_without_ranges_and_text(self):
        of_jobs = '{__name__=~"plimsoll_job_value_.+",x="1"}'
        expr = 'max(rate(plimsoll_a_total{mesh=~"$mesh"}[5m])) or ' + of_jobs
        self.assertEqual(
            grafana.selectors(expr),
            [
                'plimsoll_a_total{mesh=~"$mesh"}',
                of_jobs,
            ],
        )

    def test_an_empty_side_of_an_or_an_error_and_a_legend_without_its_label_are_noticed(self):
        class Planted:
            """A Prometheus with one family."""

            def series(self, expr):
                if "error" in expr:
                    raise ValueError("parse error")
                return [{"node": "a"}] if "plimsoll_there" in expr else []

        def wrong(expr, legend=""):
            asked = grafana.Asked("d: p: A", expr, legend)
            return grafana.wrong_query(Planted(), asked, [{"$x": "1"}])

        self.assertEqual(wrong("plimsoll_there", "{{node}}"), [])
        self.assertEqual(
            wrong("plimsoll_there or plimsoll_misspelt{}"),
            ["d: p: A: no series of plimsoll_misspelt{}"],
        )
        self.assertEqual(
            wrong("plimsoll_misspelt"),
            [
                "d: p: A: no series of plimsoll_misspelt",
                "d: p: A: no result of plimsoll_misspelt",
            ],
        )
        self.assertEqual(
            wrong("plimsoll_there", "{{reason}}"),
            ["d: p: A: the legend names {'reason'}, which no series has"],
        )
        self.assertEqual(
            wrong("error plimsoll_there"), ["d: p: A: parse error in error plimsoll_there"]
        )


if __name__ == "__main__":
    unittest.main()
