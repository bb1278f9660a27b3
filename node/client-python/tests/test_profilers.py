"""Experiments and shard reads: their figures against figures worked out by hand."""

import json
import math
import os
import random
import threading
import unittest
from fractions import Fraction
from unittest import mock

import plimsoll
from plimsoll import limits, memory
from plimsoll.shards import _reads

from .listening import run, unix_socket
from .recording import Recording


class Profilers(Recording):
    """What both profilers' tests share."""

    def setUp(self):
        super().setUp()
        self.path = os.path.join(os.path.dirname(self.listening.path), "run.json")

    def exported(self, experiment):
        self.assertTrue(experiment.export_json(self.path))
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)


class Experiments(Profilers):
    """Figures of cycles and of the whole run."""

    def test_figures_are_shown_per_cycle_and_per_run(self):
        with plimsoll.experiment("run-7", model="small") as run_7:
            for cycle in range(3):
                with run_7.cycle(epoch=cycle):
                    for value in range(1, 101):
                        run_7.record_timing("db", seconds=value / 1000)
                    run_7.record_timing("llm_inference", seconds=2.0, tokens=100, class_="llm")
                    run_7.record_memory_snapshot("after")
        exported = self.exported(run_7)
        self.assertEqual((exported["experiment"], exported["labels"]), ("run-7", {"model": "small"}))
        self.assertEqual((exported["cycles_begun"], exported["cycles_forgotten"]), (3, 0))
        self.assertEqual([cycle["labels"]["epoch"] for cycle in exported["cycles"]], ["0", "1", "2"])
        figures = exported["cycles"][1]["operations"]["db"]
        self.assertEqual((figures["count"], figures["errors"]), (100, 0))
        for key, value in [("mean", 0.0505), ("p50", 0.05), ("p99", 0.099), ("max", 0.1)]:
            self.assertAlmostEqual(figures[f"{key}_seconds"], value, delta=value / 1000)
        total = exported["totals"]["llm_inference"]
        self.assertEqual((total["count"], total["tokens"]), (3, 300))
        self.assertEqual(total["tokens_per_second"], 50.0)
        self.assertEqual(exported["totals"]["cycle"]["count"], 3)
        self.assertEqual([memory["cycle"] for memory in exported["memory"]], [1, 2, 3])
        self.assertGreater(exported["memory"][0]["resident_bytes"], 1_000_000)
        received = self.received()
        self.assertEqual(received.count("db{model:small}"), 300)
        self.assertEqual(received.counters["llm_inference.tokens{class:llm,model:small}"], 300)
        self.assertEqual(received.counters["llm_inference.seconds{class:llm,model:small}"], 6)
        self.assertEqual(received.count("cycle{epoch:1,model:small}"), 1)

    def test_a_timed_block_counts_in_the_run_with_its_errors_and_tokens(self):
        run_7 = plimsoll.experiment("run")
        run_7.start_cycle()
        with run_7.time("step") as step:
            step.tokens(7)
        with self.assertRaises(ValueError), run_7.time("step"):
            raise ValueError("x")
        run_7.start_cycle()
        run_7.end()
        exported = self.exported(run_7)
        self.assertEqual(exported["cycles_begun"], 2)
        figures = exported["cycles"][0]["operations"]["step"]
        self.assertEqual((figures["count"], figures["errors"], figures["tokens"]), (2, 1, 7))
        self.assertEqual(exported["cycles"][1]["operations"], {})
        rate = 7 / (step.elapsed_ns / 1e9)
        self.assertAlmostEqual(figures["tokens_per_second"], rate, delta=rate / 1000)
        received = self.received()
        self.assertEqual((received.count("step"), received.counters["step.errors"]), (2, 1))

    def test_numbers_of_a_timing_are_gauges_and_all_else_is_a_label(self):
        run_7 = plimsoll.experiment("run", rank=3)
        long = "o" * 200
        dropped = plimsoll.stats().dropped["value"]
        levels = {"batch": 32, "loss": Fraction(1, 2), "value": 7, "lambda_": 1e-3}
        others = {"is_hit": True, "class_": "input", "shard": "7", "none": None}
        run_7.record_timing("fetch", seconds=0.25, **levels, **others)
        run_7.record_timing(long, seconds=0.25, **{"k" * 200: 1, "sp ace": 2})
        with run_7.time("step", batch=8, node="a") as step:
            step.label(batch=16, tokens_seen=10**30)
        for wrong in (math.nan, math.inf, 10**400):
            run_7.record_timing("fetch", seconds=0.25, batch=wrong, class_="x")
        received = self.received()
        labels = "{class:input,is_hit:True,none:None,rank:3,shard:7}"
        self.assertEqual(received.count("fetch" + labels), 1)
        self.assertEqual(received.count("fetch{class:x,rank:3}"), 3)
        self.assertEqual(
            received.gauges,
            {
                f"fetch.batch{labels}": 32,
                f"fetch.loss{labels}": 0.5,
                f"fetch.value{labels}": 7,
                f"fetch.lambda{labels}": 0.001,
                f"{'o' * 64}.{'k' * 63}{{rank:3}}": 1,
                f"{'o' * 121}.sp_ace{{rank:3}}": 2,
                "step.batch{node:a,rank:3}": 16,
                "step.tokens_seen{node:a,rank:3}": 1e30,
            },
        )
        self.assertEqual(plimsoll.stats().dropped["value"] - dropped, 3)

    def test_a_number_by_the_name_of_a_counter_is_refused_with_the_fix(self):
        run_7 = plimsoll.experiment("run")
        words = "errors=3 would be a gauge by the name of the counter <operation>.errors: failed=T"
        with self.assertRaisesRegex(ValueError, words):
            run_7.record_timing("fetch", seconds=0.25, errors=3)
        with self.assertRaisesRegex(ValueError, "tokens=5 would .* t.tokens\\(n\\) count tokens"):
            run_7.time("step", tokens=5)
        with run_7.time("step", errors="none") as step:
            with self.assertRaisesRegex(ValueError, "errors_=1 would .* such as errors_seen="):
                step.label(errors_=1)
        received = self.received()
        self.assertEqual((received.count("step{errors:none}"), received.gauges), (1, {}))

    def test_the_peak_of_memory_is_exported_and_never_below_what_was_in_use(self):
        run_7 = plimsoll.experiment("run")
        block = bytearray(64 << 20)
        run_7.record_memory_snapshot()
        del block
        exported = self.exported(run_7)
        self.assertGreaterEqual(
            exported["peak_resident_bytes"], exported["memory"][0]["resident_bytes"]
        )
        self.assertGreater(exported["peak_resident_bytes"], 64 << 20)
        usage = memory._peak_of_usage()
        with mock.patch("builtins.open", side_effect=OSError):
            self.assertEqual(memory.peak_resident_bytes(), usage)
        self.assertGreater(usage, 64 << 20)

    def test_quantiles_agree_with_sorting_to_a_thousandth(self):
        seed = random.Random(7)
        values = [seed.lognormvariate(-4, 1) for _ in range(5_000)]
        run_7 = plimsoll.experiment("run")
        for value in values:
            run_7.record_timing("op", seconds=value)
        values.sort()
        figures = self.exported(run_7)["totals"]["op"]
        for key, rank in [("p50", 2_500), ("p99", 4_950), ("max", 5_000)]:
            self.assertAlmostEqual(figures[f"{key}_seconds"] / values[rank - 1], 1, delta=0.001)

    def test_the_newest_cycles_are_kept_one_by_one_and_the_totals_hold_all(self):
        run_7 = plimsoll.experiment("run")
        for number in range(limits.CYCLES_MAX + 50):
            with run_7.cycle():
                run_7.record_timing("op", seconds=number)
                run_7.record_memory_snapshot()
        exported = self.exported(run_7)
        self.assertEqual((exported["cycles_begun"], exported["cycles_forgotten"]), (1_050, 50))
        self.assertEqual((exported["cycles"][0]["cycle"], len(exported["cycles"])), (51, 1_000))
        self.assertEqual(exported["totals"]["op"]["count"], 1_050)
        self.assertEqual((len(exported["memory"]), exported["memory_snapshots_forgotten"]), (1_000, 50))

    def test_names_and_cells_are_bounded_and_excess_is_reported(self):
        run_7 = plimsoll.experiment("run")
        for number in range(limits.CYCLE_OPERATIONS_MAX + 5):
            run_7.record_timing(f"op{number}", seconds=1)
        run_7._cells = limits.EXPERIMENT_CELLS_MAX - 1
        run_7.record_timing("op0", seconds=2)
        run_7.record_timing("op0", seconds=3)
        exported = self.exported(run_7)
        self.assertEqual(exported["samples_of_operations_refused"], 5)
        figures = exported["totals"]["op0"]
        self.assertEqual((figures["count"], figures["max_seconds"]), (3, 3.0))
        self.assertEqual((figures["p50_seconds"], figures["mean_seconds"]), (None, 2.0))

    def test_threads_may_share_a_run(self):
        run_7 = plimsoll.experiment("run")

        def record():
            for _ in range(2_000):
                run_7.record_timing("op", seconds=0.001)

        threads = [threading.Thread(target=record) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.exported(run_7)["totals"]["op"]["count"], 8_000)
        self.assertEqual(self.received().count("op"), 8_000)

    def test_an_export_that_fails_is_reported_and_keeps_the_old_one(self):
        run_7 = plimsoll.experiment("run")
        self.exported(run_7)
        with self.assertRaises(OSError):
            run_7.export_json(os.path.join(self.path, "below-a-file.json"))
        self.assertEqual(self.exported(run_7)["experiment"], "run")


class Shards(Profilers):
    """Reads of shards."""

    def setUp(self):
        super().setUp()
        _reads.__init__()

    def read(self, milliseconds, shard="s", **more):
        """A read that began so long ago."""
        read = plimsoll.start_read(shard)
        read.begun_ns -= milliseconds * 1_000_000
        plimsoll.end_read(read, **more)

    def test_reads_bytes_and_rows_are_counted(self):
        self.read(10, size_bytes=1_000, rows=10)
        with plimsoll.read_shard("b") as read:
            read.size_bytes, read.rows = 500, 5
        with self.assertRaises(OSError), plimsoll.read_shard("c"):
            raise OSError("x")
        summary = plimsoll.shard_summary()
        self.assertEqual((summary.reads, summary.size_bytes, summary.rows), (3, 1_500, 15))
        self.assertAlmostEqual(summary.mean_seconds, 0.01 / 3, delta=0.005)
        received = self.received()
        self.assertEqual(received.count("shard_read"), 3)
        self.assertEqual(
            dict(received.counters),
            {"shard_read.bytes": 1_500, "shard_read.rows": 15, "shard_read.errors": 1},
        )
        self.assertEqual(received.values_ns("profiler_shard_file_size:bytes"), [500, 1_000])
        self.assertEqual(received.values_ns("profiler_shard_rows_processed:count"), [5, 10])

    def test_a_read_is_slow_above_twice_the_mean_of_at_least_ten_before_it(self):
        for _ in range(9):
            self.read(100)
        self.read(1_000, shard="tenth")
        self.assertEqual(plimsoll.shard_summary().slow_reads, 0)
        # The mean is now 190 ms.
        self.read(370)
        self.assertEqual(plimsoll.shard_summary().slow_reads, 0)
        self.read(450, shard="slow")
        self.assertEqual(plimsoll.shard_summary().slow_reads, 1)
        received = self.received()
        self.assertEqual(received.counters["shard_read.slow"], 1)
        [event] = received.events
        self.assertRegex(event, r"^_e\{15,\d+\}:slow shard read\|slow took 4\d\d ms; mean before: ")
        self.assertTrue(event.endswith("|t:warning|#operation:shard_read"))
        text = event.split("|")[1]
        self.assertIn(f"_e{{15,{len(text)}}}", event)

    def test_events_are_one_in_ten_seconds_and_counters_are_not(self):
        for _ in range(10):
            self.read(1)
        for _ in range(20):
            self.read(60_000)
            _reads._total_ns = _reads._reads * 1_000_000
        received = self.received()
        self.assertEqual((received.counters["shard_read.slow"], len(received.events)), (20, 1))

    def test_the_slowest_ten_are_kept_in_order(self):
        for number in range(50):
            self.read(number * 7 % 50 * 10, shard=f"shard-{number * 7 % 50}", rows=number)
        slowest = plimsoll.shard_summary().slowest
        self.assertEqual(
            [read.shard for read in slowest], [f"shard-{n}" for n in range(49, 39, -1)]
        )
        self.assertAlmostEqual(slowest[0].seconds, 0.49, delta=0.05)

    def test_a_forked_child_counts_its_own_reads_alone(self):
        with unix_socket() as listening:
            script = """
import os, sys, plimsoll
for _ in range(3):
    plimsoll.end_read(plimsoll.start_read("x"))
child = os.fork()
plimsoll.end_read(plimsoll.start_read("x"))
assert plimsoll.shard_summary().reads == (4 if child else 1)
sys.exit(os.waitpid(child, 0)[1] if child else 0)
"""
            run(script, listening.path)
            self.assertEqual(listening.read().count("shard_read"), 5)


if __name__ == "__main__":
    unittest.main()
