"""Statistics of this process: equal to those of the plain values, sent, queued or folded."""

import asyncio
import json
import math
import random
import statistics
import unittest
import warnings

import plimsoll
from plimsoll import limits
from plimsoll.buckets import fold, merge, quantiles_ns
from plimsoll.names import label_pairs, tag_pairs, tag_text
from plimsoll.registry import Registry
from plimsoll.series import Latency
from plimsoll.statistics import summary_stats

from .listening import enter, run, unix_socket
from .recording import Recording

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def naive(values):
    """What `summary_stats` must come to, from the values themselves."""
    ordered = sorted(values)
    return {
        "count": len(values),
        "mean": statistics.fmean(values),
        "std": statistics.pstdev(values),
        "min": ordered[0],
        "max": ordered[-1],
        **{k: ordered[math.ceil(share * len(values)) - 1] for k, share in PERCENTILES.items()},
    }


class Statistics(Recording):
    """`metrics_snapshot` and `get_summary_stats` in a process that records and sends."""

    def setUp(self):
        super().setUp()
        # Series belong to the process, and earlier tests used some.
        self.name = self.id().rsplit(".", 1)[1]

    def assert_close(self, found, values):
        expected = naive(values)
        self.assertEqual(list(found), list(expected))
        self.assertEqual(found["count"], expected["count"])
        self.assertAlmostEqual(found["mean"], expected["mean"], delta=1e-9)
        for key in set(expected) - {"count"}:
            self.assertAlmostEqual(found[key] / expected[key], 1, delta=0.001, msg=key)

    def record(self, values, **labels):
        for value in values:
            plimsoll.record(self.name, seconds=value, **labels)

    def test_statistics_equal_those_of_the_plain_values(self):
        chance = random.Random(3)
        train = [chance.lognormvariate(-5, 1) for _ in range(3_000)]
        test = [chance.lognormvariate(-4, 1) for _ in range(1_000)]
        # Some are sent, others wait.
        self.record(train[:2_000], phase="train")
        self.received()
        self.record(train[2_000:], phase="train")
        self.record(test, phase="test")
        self.assert_close(plimsoll.get_summary_stats(self.name), train + test)
        self.assert_close(plimsoll.get_summary_stats(self.name, phase="test"), test)
        entry = plimsoll.metrics_snapshot()[self.name]
        by_phase = {row.pop("labels")["phase"]: row for row in entry.pop("series")}
        self.assert_close(entry, train + test)
        self.assert_close(by_phase["train"], train)
        self.assert_close(by_phase["test"], test)

    def test_values_are_in_the_statistics_once_before_and_after_they_are_sent(self):
        self.record([0.001, 0.003])
        expected = {"count": 2, "mean": 0.002, "std": 0.001, "min": 0.001, "max": 0.003}
        expected = {**expected, "p50": 0.001, "p90": 0.003, "p95": 0.003}
        expected = {**expected, "p99": 0.003, "p999": 0.003}
        queued = plimsoll.get_summary_stats(self.name)
        self.received()
        sent = plimsoll.get_summary_stats(self.name)
        self.assertEqual(queued, sent)
        for key, value in expected.items():
            self.assertAlmostEqual(sent[key], value, delta=1e-12, msg=key)

    def test_an_operation_without_values_has_none(self):
        found = plimsoll.get_summary_stats("never used")
        self.assertEqual(found.pop("count"), 0)
        self.assertEqual(set(found), {"mean", "std", "min", "max", *PERCENTILES})
        self.assertEqual(set(found.values()), {None})
        plimsoll.timed(self.name)(int)
        self.assertNotIn(self.name, plimsoll.metrics_snapshot())

    def test_a_snapshot_can_be_awaited_and_is_json_with_counters_and_gauges(self):
        self.record([0.5])
        plimsoll.count(f"{self.name}.c", 2, outcome="hit")
        plimsoll.count(f"{self.name}.c", 3, outcome="miss")
        plimsoll.gauge(f"{self.name}.g", 1.5, rank=0)
        self.received()
        plimsoll.count(f"{self.name}.c", 5, outcome="hit")
        plimsoll.gauge(f"{self.name}.g", 2.5, rank=0)

        async def take():
            return await plimsoll.metrics_snapshot()

        snapshot = json.loads(json.dumps(asyncio.run(take()), allow_nan=False))
        self.assertEqual(snapshot, plimsoll.metrics_snapshot())
        self.assertEqual(snapshot[self.name]["p99"], 0.5)
        rows = [
            {"labels": {"outcome": "hit"}, "total": 7},
            {"labels": {"outcome": "miss"}, "total": 3},
        ]
        self.assertEqual(snapshot[f"{self.name}.c"], {"total": 10, "series": rows})
        row = {"labels": {"rank": "0"}, "value": 2.5}
        self.assertEqual(snapshot[f"{self.name}.g"], {"value": 2.5, "series": [row]})
        plimsoll.gauge(f"{self.name}.g", 3.5, rank=1)
        self.assertIsNone(plimsoll.metrics_snapshot()[f"{self.name}.g"]["value"])

    def test_they_need_no_node_and_survive_folding(self):
        self.received()
        self.listening.close()
        chance = random.Random(5)
        values = [chance.lognormvariate(-7, 1) for _ in range(limits.SERIES_VALUES_MAX + 4_000)]
        with warnings.catch_warnings(record=True):
            self.record(values)
            self.assertEqual(plimsoll.flush(10).outcome, "unreachable")
            self.record(values)
        self.assert_close(plimsoll.get_summary_stats(self.name), values + values)
        self.listening = enter(self, unix_socket())
        plimsoll.configure(socket=self.listening.path)
        self.assertEqual(self.counts(), {self.name: 2 * len(values)})

    def test_a_forked_child_begins_with_none(self):
        with unix_socket() as listening:
            script = """
import os, sys, plimsoll
plimsoll.record("op", seconds=1)
plimsoll.count("c")
child = os.fork()
plimsoll.record("op", seconds=2)
snapshot = plimsoll.metrics_snapshot()
assert snapshot["op"]["count"] == (2 if child else 1), snapshot
assert ("c" in snapshot) == bool(child), snapshot
sys.exit(os.waitpid(child, 0)[1] if child else 0)
"""
            run(script, listening.path, listening)
            self.assertEqual(listening.read().count("op"), 3)


class Parts(unittest.TestCase):
    """The pure parts: buckets, labels and bounds."""

    def test_merged_buckets_are_those_of_all_values(self):
        chance = random.Random(8)
        for _ in range(50):
            parts = [[chance.randrange(10**6) for _ in range(chance.randrange(50))] for _ in "abc"]
            merged, together = {}, {}
            for part in parts:
                cells = {}
                fold(part, cells, 1_000)
                self.assertEqual(merge(cells, merged, 1_000), 0)
                fold(part, together, 1_000)
            self.assertEqual(merged, together)
        merged = {}
        self.assertEqual(merge({5: [3, 15], 7: [2, 14]}, merged, 1), 2)
        self.assertEqual(merged, {5: [3, 15]})

    def test_quantiles_of_few_samples_are_samples(self):
        cells = {}
        fold([10, 20, 30], cells, 10)
        self.assertEqual(quantiles_ns(cells, [0, 1 / 3, 0.34, 0.99, 1]), [10, 10, 20, 30, 30])

    def test_labels_can_be_read_back_from_a_tag_field(self):
        chance = random.Random(9)
        for _ in range(500):
            text = "".join(chance.choices("ab:,|#=_ \n\U0001f6a2", k=chance.randrange(9)))
            labels = {f"k{number}{text}": text[number:] for number in range(chance.randrange(4))}
            pairs = label_pairs(labels)
            self.assertEqual(tag_pairs(tag_text(pairs)), pairs)

    def test_without_a_bucket_left_there_is_a_count_alone(self):
        registry = Registry(lambda: None)
        registry.wake()
        series = registry.latency("op", {})
        registry.recorded_cells = limits.RECORDED_CELLS_MAX - 1
        for value in [5, 5, 6]:
            series.add(value)
        series.refill()
        self.assertIsInstance(series, Latency)
        self.assertEqual(series.samples(), ({5: [2, 10]}, 1))
        found = summary_stats(*series.samples())
        self.assertEqual((found["count"], found["mean"], found["p50"]), (3, None, None))
        self.assertEqual(registry.recorded_cells, limits.RECORDED_CELLS_MAX)


if __name__ == "__main__":
    unittest.main()
