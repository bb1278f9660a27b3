"""The aggregator's bench exits non-zero when a target is missed; shown with its committed figures."""

import copy
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "aggregator/bench"), str(ROOT / "node/bench")]

from scale import breaks, connections, document, fleets, hard, micro, pages
from scale.verdict import Target, exit_code

FIGURES = json.loads((ROOT / "aggregator/bench/fleet.json").read_text())["sections"]


def second(at, **figures):
    """A second of a timeline in which nothing is over its bound."""
    usage = {
        name: {"cpu_seconds": at * 0.4, "resident_bytes": 500 * fleets.MIB}
        for name in fleets.PROCESSES
    }
    quiet = {"behind": 0.0, "pending": 0.0, "shown": 0.1, "limited": 0.0, "usage": usage}
    return {"at": float(at), **quiet, **figures}


def run_of(sections, **figures):
    """A run that meets its targets: one of those that were committed, with these figures."""
    run = copy.deepcopy(sections["long"][0])
    scrapes = copy.deepcopy(run["metrics_nodes"])
    return {**run, "ledger_exact": True, "lost": 0, "scrapes": scrapes, "restart": None, **figures}


def good():
    """Figures of runs that meet every target."""
    sections = {name: copy.deepcopy(FIGURES[name]) for name in ("sweep", "long", "pages", "parts")}
    for shape in sections["parts"]["merge_speed"]:
        shape["ratios"][micro.SCAN.name] = 1.2
    for run in [*sections["sweep"], *sections["long"]]:
        run["passed"] = True
    for figures in sections["pages"]:
        # As soon as independent samples of their effective number.
        figures.pop("effective", None)
    run = sections["long"][0]
    run["metrics"]["took"] |= {"p99": 0.05, "max": 0.06}
    run["metrics_nodes"]["took"] |= {"max": 0.5}
    run["freshness"] |= {"p50": 0.1, "p99": 0.4}
    run["timeline"] = [second(at) for at in range(0, 600, 10)]
    restart = {"back_seconds": 20.0, "connects_per_second_max": 400.0, "jetstream_requests": 9}
    sections["connections"] = [run_of(sections, restart=restart, storm_cores=1.2)]
    sections["hard"] = [run_of(sections, case=name) for name in hard.CASES]
    return sections


def planted(sections, path, value):
    """The same with one figure replaced."""
    place = sections
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return sections


def big():
    return {"cpu_seconds": 0.0, "resident_bytes": 5 * 1024 * fleets.MIB}


def index_of_ours(sections):
    names = [one["name"] for one in sections["pages"][0]["contenders"]]
    return names.index(pages.OURS)


class Verdicts(unittest.TestCase):
    def test_figures_within_all_targets_miss_none(self):
        self.assertEqual(document.missed(good()), [])

    def test_each_planted_miss_is_reported(self):
        ours = index_of_ours(good())
        late = {"delays": [{"median": None}, {"median": None}, {"median": 2}]}
        for path, value, line in (
            (("sweep", 0, "passed"), False, "sweep: 1 nodes"),
            (("long", 0, "passed"), False, "long: every node's ledger exact"),
            (("long", 0, "metrics", "took", "p99"), 0.2, f"long: {fleets.METRICS.name}"),
            (("long", 0, "metrics", "failed"), 1, f"long: {fleets.METRICS.name}"),
            (("long", 0, "metrics_nodes", "took", "max"), 1.5, f"long: {fleets.METRICS_NODES.name}"),
            (("long", 0, "metrics_nodes", "took", "count"), 0, f"long: {fleets.METRICS_NODES.name}"),
            (("long", 0, "processes", "broker", "cores"), 2.1, f"long: {fleets.CORES.name}"),
            (("long", 0, "freshness", "p50"), 0.16, f"long: {fleets.SHOWN_MEDIAN.name}"),
            (("long", 0, "freshness", "p99"), 0.51, f"long: {fleets.SHOWN_SLOWEST.name}"),
            (("parts", "merge_speed", 2, "ratios", micro.SCAN.name), 1.4, "parts: core_way / scan"),
            (("connections", 0, "restart", "back_seconds"), 61, "connections: all connections"),
            (("connections", 0, "restart", "back_seconds"), None, "connections: all connections"),
            (("connections", 0, "restart", "connects_per_second_max"), 501, "connections: at most"),
            (("connections", 0, "lost"), 1, "connections: no sample lost"),
            (("connections", 0, "ledger_exact"), False, "connections: no sample lost"),
            (("hard", 3, "ledger_exact"), False, "hard: 5 % of nodes hostile"),
            (("pages", 1, "contenders", ours, "pages"), 3, "pages: 3 a minute: "),
            (("pages", 5, "contenders", ours, "delays", 1, "median"), 16, "pages: 50 a second"),
            (("pages", 17, "contenders", ours, "pages"), 4, "pages: 1 a second, correlation 0.8"),
            (("pages", 17, "effective"), late, "pages: 1 a second, correlation 0.8: 3 x"),
        ):
            missed = document.missed(planted(good(), path, value))
            self.assertEqual(len(missed), 1, f"{path}: {missed}")
            self.assertTrue(missed[0].startswith(line), missed)

    def test_memory_that_grows_after_warm_up_is_reported_and_a_short_run_is_not_judged(self):
        resident = ("usage", "aggregator", "resident_bytes")
        for late, missed in ((520, 0), (530, 1)):
            sections = good()
            for one in sections["long"][0]["timeline"][54:]:
                planted(one, resident, late * fleets.MIB)
            found = document.missed(sections)
            self.assertEqual(len(found), missed, found)
        self.assertTrue(found[0].startswith("long: memory of the aggregator flat"), found)
        run = sections["long"][0]
        self.assertEqual(fleets.flat({**run, "seconds": 60.0}), [])
        # What grows before the windows are full is warm-up.
        early = {**run, "timeline": [second(at) for at in range(0, 600, 10)]}
        for one in early["timeline"][:31]:
            planted(one, resident, 100 * fleets.MIB)
        self.assertTrue(all(one.met for one in fleets.flat(early)))

    def test_what_breaks_first_is_named_with_its_figure(self):
        run = {"nodes": 20_000, "seconds": 40.0, "interval_seconds": 1.0, "pinned": 2}
        timeline = [second(at) for at in range(40)]
        # One slow second is a hiccup.
        timeline[3] = second(3, shown=0.9)
        self.assertEqual(breaks.breaks({**run, "timeline": timeline}), [])
        for at in range(10, 40):
            timeline[at] = second(at, shown=0.6 + at / 100)
        for at in range(20, 40):
            timeline[at] |= {"behind": 1.5, "pending": 30_000.0}
        found = breaks.breaks({**run, "timeline": timeline})
        self.assertEqual(found[0], breaks.Break("shown after 500 ms", 10.0, "700 ms"))
        words = {one.what: (one.at, one.figure) for one in found[1:]}
        self.assertEqual(words["the aggregator's reading"], (20.0, "30000 messages unread"))
        self.assertEqual(words["the broker's answers"], (20.0, "the oldest message waits 1500 ms"))

    def test_limits_memory_and_cores_are_bounds_too(self):
        run = {"nodes": 20_000, "seconds": 40.0, "interval_seconds": 1.0, "pinned": 2}
        cases = (
            ("the aggregator's limits", {"limited": 7.0}),
            ("4 GiB of memory", {"usage": second(0)["usage"] | {"broker": big()}}),
        )
        for what, figures in cases:
            timeline = [second(at, **figures) for at in range(10)]
            found = breaks.breaks({**run, "timeline": timeline})
            self.assertEqual([one.what for one in found], [what])
        busy = [second(at) for at in range(10)]
        for one in busy:
            one["usage"]["broker"]["cpu_seconds"] = one["at"] * 1.2
        found = breaks.breaks({**run, "timeline": busy})
        self.assertEqual([one.figure for one in found], ["2.00 of 2 in use (1.20 / 0.40 / 0.40)"])

    def test_a_fleet_that_the_drill_does_not_finish_is_a_result(self):
        sections = {"limits": [{"nodes": 50_000, "seconds": 40, "ended": "no broker"}]}
        self.assertEqual((document.missed(sections), document.failures(sections)), ([], []))
        text = "\n".join(breaks.tables(sections["limits"]))
        self.assertEqual(text, "- 50000 nodes: the drill does not finish: no broker")

    def test_every_section_has_a_table(self):
        sections = good()
        sections["limits"] = [run_of(sections, pinned=2, nodes=20_000)]
        for name, found in sections.items():
            _, write = document.SECTIONS[name]
            self.assertTrue("\n".join(write(found)), name)
        picture = fleets.picture([*sections["sweep"], *sections["limits"]])
        for title in ("CPU", "Resident memory", "Shown after"):
            self.assertIn(f">{title}", picture)

    def test_numbers_of_odd_nodes_follow_the_fleet_and_times_stay(self):
        self.assertEqual(hard.scaled(("--hostile", "100"), 200), ("--hostile", "10"))
        self.assertEqual(hard.scaled(("--largest", "8s"), 200), ("--largest", "8s"))
        self.assertEqual(hard.scaled((), 200), ())

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
