"""The aggregator's bench exits non-zero when a target is missed; shown with its committed figures."""

import copy
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "aggregator/bench"), str(ROOT / "node/bench")]

from scale import document, fleets, pages
from scale.verdict import Target, exit_code

FIGURES = json.loads((ROOT / "aggregator/bench/fleet.json").read_text())["sections"]


def good():
    """Figures of a run that meets every target."""
    sections = {name: copy.deepcopy(FIGURES[name]) for name in ("sweep", "long", "pages")}
    for run in [*sections["sweep"], *sections["long"]]:
        run["passed"] = True
    run = sections["long"][0]
    run["metrics"]["took"] |= {"p99": 0.05, "max": 0.06}
    run["metrics_nodes"]["took"] |= {"max": 0.5}
    return sections


def planted(sections, path, value):
    """The same with one figure replaced."""
    place = sections
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return sections


def index_of_ours(sections):
    names = [one["name"] for one in sections["pages"][0]["contenders"]]
    return names.index(pages.OURS)


class Verdicts(unittest.TestCase):
    def test_figures_within_all_targets_miss_none(self):
        self.assertEqual(document.missed(good()), [])

    def test_each_planted_miss_is_reported(self):
        ours = index_of_ours(good())
        for path, value, line in (
            (("sweep", 0, "passed"), False, "sweep: 1 nodes"),
            (("long", 0, "passed"), False, "long: every node's ledger exact"),
            (("long", 0, "metrics", "took", "p99"), 0.2, f"long: {fleets.METRICS.name}"),
            (("long", 0, "metrics", "failed"), 1, f"long: {fleets.METRICS.name}"),
            (("long", 0, "metrics_nodes", "took", "max"), 1.5, f"long: {fleets.METRICS_NODES.name}"),
            (("long", 0, "metrics_nodes", "took", "count"), 0, f"long: {fleets.METRICS_NODES.name}"),
            (("long", 0, "processes", "broker", "cores"), 2.1, f"long: {fleets.CORES.name}"),
            (("pages", 1, "contenders", ours, "pages"), 2, "pages: 3 a minute: 29.0 times"),
            (("pages", 4, "contenders", ours, "delays", 1, "median"), 16, "pages: 50 a second"),
        ):
            missed = document.missed(planted(good(), path, value))
            self.assertEqual(len(missed), 1, f"{path}: {missed}")
            self.assertTrue(missed[0].startswith(line), missed)

    def test_the_report_states_every_verdict(self):
        report = json.loads((ROOT / "aggregator/bench/fleet.json").read_text())
        report["sections"] = planted(good(), ("long", 0, "metrics", "took", "p99"), 0.2)
        text = document.document(report, document.SECTIONS)
        self.assertIn(f"- {fleets.METRICS.name}: p99 200 ms, most 60.0 ms", text)
        self.assertIn("**missed**", text)

    def test_sections_that_failed_are_failures_and_not_misses(self):
        sections = {"sweep": {"failed": "no broker"}, "parts": {"merge_speed": {"failed": "x"}}}
        self.assertEqual(document.missed(sections), [])
        self.assertEqual(document.failures(sections), ["sweep", "merge_speed"])

    def test_exit_codes(self):
        for failed, missed, allowed, code in (
            ([], [], False, 0),
            ([], ["m"], False, 6),
            ([], ["m"], True, 0),
            (["f"], ["m"], True, 1),
        ):
            self.assertEqual(exit_code(failed, missed, allowed), code)

    def test_a_figure_at_its_bound_is_met_and_a_missing_one_is_not(self):
        self.assertTrue(Target("t", most=2.0).is_met(2.0))
        self.assertFalse(Target("t", most=2.0).is_met(2.1))
        self.assertTrue(Target("t", least=20).is_met(20))
        self.assertFalse(Target("t", least=20).is_met(19.9))
        self.assertFalse(Target("t", most=1.0).is_met(None))


if __name__ == "__main__":
    unittest.main()
