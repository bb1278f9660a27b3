"""Verdicts on measured values, and the exit code that follows from them."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from speed.intake import beside_netdata
from speed.otlp import targets as otlp_targets
from speed.targets import FAILED, MET, MISSED, Target, exit_code, failed, missed, text

MEMORY = Target("anonymous memory, idle", "<=", 1.5, "MiB")


class Targets(unittest.TestCase):
    def test_relation_decides_at_the_bound(self):
        for relation, below, at, above in (
            ("<", True, False, False),
            ("<=", True, True, False),
            (">=", False, True, True),
        ):
            target = Target("a figure", relation, 2.0)
            verdicts = [target.judge(value)["met"] for value in (1.9, 2.0, 2.1)]
            self.assertEqual(verdicts, [below, at, above], relation)

    def test_missed_target_fails_the_run(self):
        result = {"resident": {"targets": [MEMORY.judge(1.1), MEMORY.judge(1.6)]}}
        self.assertEqual(
            missed(result), ["anonymous memory, idle <= 1.5 MiB: 1.6 MiB, **missed**"]
        )
        self.assertEqual(exit_code(result), MISSED)

    def test_flag_allows_a_missed_target(self):
        self.assertEqual(exit_code({"targets": [MEMORY.judge(1.6)]}, allow_missed=True), MET)

    def test_met_targets_succeed(self):
        result = {"resident": {"targets": [MEMORY.judge(1.5)]}}
        self.assertEqual(missed(result), [])
        self.assertEqual(exit_code(result), MET)

    def test_verdict_deep_inside_a_result_counts(self):
        result = {"intake": {"points": [{"rate": 1, "verdict": MEMORY.judge(2)}]}}
        self.assertEqual(exit_code(result), MISSED)

    def test_section_without_measurement_fails_even_where_misses_are_allowed(self):
        result = {"rust": {"failed": "no nats-server"}, "python": {"targets": []}}
        self.assertEqual(failed(result), ["no nats-server"])
        self.assertEqual(exit_code(result, allow_missed=True), FAILED)

    def test_text_shows_the_value_beside_its_bound(self):
        self.assertEqual(text(MEMORY.judge(1.14)), "anonymous memory, idle <= 1.5 MiB: 1.14 MiB, met")

    def test_netdata_of_the_same_round_is_the_measure(self):
        def run(server, turn, cost, rate=100_000):
            where = {"rate": rate, "packed": 1, "round": turn, "server": server}
            return where | {"us_per_sample": cost}

        runs = [run("plimsoll-node", turn, cost) for turn, cost in enumerate((0.4, 0.9, 0.3))]
        self.assertEqual(beside_netdata(runs), [])
        runs += [run("Netdata", turn, cost) for turn, cost in enumerate((0.5, 0.6, 0.5))]
        runs += [run("Netdata", 0, 0.1, rate=400_000)]
        [verdict] = beside_netdata(runs)
        self.assertAlmostEqual(verdict["value"], 0.8)
        self.assertTrue(verdict["met"])

    def test_only_exponential_histograms_beside_a_collector_are_judged(self):
        rows = [
            {"kind": "exponential", "protocol": "http", "beside": 3.1},
            {"kind": "exponential", "protocol": "grpc", "beside": None},
            {"kind": "sum", "protocol": "http", "beside": 9.0},
        ]
        found = otlp_targets(rows)
        self.assertEqual([(one["value"], one["met"]) for one in found], [(3.1, False)])


if __name__ == "__main__":
    unittest.main()
