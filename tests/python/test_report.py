"""The judge of a run's report sees each fault that is planted in a good one."""

import copy
import unittest

import report

FIGURES = {"count": 10, "mean_ns": 5, "min_ns": 1, "max_ns": 9, "p50_ns": 5, "p99_ns": 9}
LEDGER = {"recorded": 30, "merged": 30, "held": 0, "unaccounted": 0, "lost": {}}
NODE = {
    "operations": {name: FIGURES for name in report.OPERATIONS},
    "ledger": LEDGER,
    "raw": {"epoch_hook": 10, "kernel_fetch": 10},
}
GOOD = {
    "seconds": 1.0,
    "fleet": {name: {**FIGURES, "count": 20} for name in report.OPERATIONS},
    "nodes": {"a": NODE, "b": NODE},
    "budgets": [],
    "ledger": {**LEDGER, "recorded": 60, "merged": 60},
    "accounted": True,
}
PLANTED = [
    (("accounted",), False, "the report itself states unaccounted samples"),
    (("nodes", "a", "operations", "publish", "count"), 0, "a: no samples of publish"),
    (("nodes", "a", "operations", "publish", "p99_ns"), None, "a: publish has min"),
    (("nodes", "a", "operations", "publish", "p50_ns"), 10, "a: publish has min"),
    (("nodes", "b", "ledger", "held"), 1, "b: not all samples were merged"),
    (("nodes", "b", "ledger", "lost"), {"outbox_full": 1}, "b: not all samples were merged"),
    (("nodes", "b", "ledger", "merged"), 29, "b: the ledger does not add up"),
    (("nodes", "b", "raw", "epoch_hook"), 11, "b: 10 samples of epoch_hook merged"),
    (("fleet", "epoch_hook", "count"), 21, "fleet: 21 samples of epoch_hook"),
    (("ledger", "unaccounted"), 2, "fleet: not all samples were merged"),
]


class Judging(unittest.TestCase):
    """Good and planted reports."""

    def test_a_good_report_has_no_faults(self):
        self.assertEqual(list(report.faults(GOOD, 2)), [])

    def test_a_missing_node_is_a_fault(self):
        self.assertEqual(list(report.faults(GOOD, 3)), ["2 nodes, not 3: ['a', 'b']"])

    def test_each_planted_fault_is_seen(self):
        for path, value, words in PLANTED:
            with self.subTest(words):
                # Both nodes share their parts above, so copies must not.
                bad = {**copy.deepcopy(GOOD), "nodes": {n: copy.deepcopy(NODE) for n in "ab"}}
                place = bad
                for key in path[:-1]:
                    place[key] = copy.deepcopy(place[key])
                    place = place[key]
                place[path[-1]] = value
                self.assertIn(words, "\n".join(report.faults(bad, 2)))


if __name__ == "__main__":
    unittest.main()
