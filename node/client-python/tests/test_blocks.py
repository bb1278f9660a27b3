"""`timer`, explicit records, and what the client reports about itself."""

import asyncio
import threading
import unittest
from decimal import Decimal

import plimsoll

from .listening import enter, unix_socket
from .recording import Recording


class Blocks(Recording):
    """`timer`, and values given by hand."""

    def test_labels_may_be_added_inside(self):
        with plimsoll.timer("kernel_fetch", outcome="hit", tier=1):
            pass
        with plimsoll.timer("kernel_fetch", outcome="hit") as fetch:
            fetch.label(outcome="miss")
        self.assertGreater(fetch.elapsed_ns, 0)
        self.assertEqual(
            self.counts(),
            {"kernel_fetch{outcome:hit,tier:1}": 1, "kernel_fetch{outcome:miss}": 1},
        )

    def test_async_with_works_alike(self):
        async def fetch():
            async with plimsoll.timer("op") as timer:
                await asyncio.sleep(0)
                timer.label(outcome="ok")

        asyncio.run(fetch())
        self.assertEqual(self.counts(), {"op{outcome:ok}": 1})

    def test_an_error_leaves_the_block_and_is_counted(self):
        with self.assertRaises(ValueError), plimsoll.timer("op", k="v"):
            raise ValueError("x")
        self.assertEqual(self.counts(), {"op{k:v}": 1})
        self.assertEqual(dict(self.listening.counters), {"op.errors{k:v}": 1})

    def test_a_label_whose_str_fails_hides_no_error_of_the_block(self):
        class Shy:
            def __str__(self):
                raise RuntimeError("no")

        with self.assertRaises(ValueError), plimsoll.timer("op", k=Shy()):
            raise ValueError("x")
        self.assertEqual(self.counts(), {"op{k:Shy}": 1})

    def test_tokens_come_with_the_seconds_that_they_took(self):
        with plimsoll.timer("llm_inference") as inference:
            inference.tokens(100)
            inference.tokens(28)
        plimsoll.tokens("llm_inference", 72, seconds=2.0)
        counters = self.received().counters
        self.assertEqual(counters["llm_inference.tokens"], 200)
        seconds = 2.0 + inference.elapsed_ns / 1e9
        self.assertAlmostEqual(counters["llm_inference.seconds"], seconds, places=12)

    def test_values_keep_their_units(self):
        plimsoll.record("op", seconds=0.0125)
        plimsoll.record_ns("op", 17)
        plimsoll.count("cache", outcome="hit")
        plimsoll.count("cache", 2, outcome="hit")
        plimsoll.count("cache", n=4, outcome="hit")
        plimsoll.gauge("depth", 3, k="v")
        received = self.received()
        self.assertEqual(received.values_ns("op"), [17, 12_500_000])
        self.assertEqual(dict(received.counters), {"cache{outcome:hit}": 7})
        self.assertEqual(received.gauges, {"depth{k:v}": 3})

    def test_values_that_are_none_are_dropped_and_counted(self):
        before = plimsoll.stats().dropped["value"]
        for bad in [float("nan"), float("inf"), -1.0]:
            plimsoll.record("op", seconds=bad)
            plimsoll.tokens("op", 1, seconds=bad)
        for bad in [float("nan"), float("inf"), 10**400]:
            plimsoll.count("c", bad)
            plimsoll.gauge("g", bad)
        plimsoll.record_ns("op", -1)
        plimsoll.record("ok", seconds=1e300)
        for value in [1e308, 1e308]:
            plimsoll.count("large", value)
        received = self.received()
        self.assertEqual(plimsoll.stats().dropped["value"] - before, 13)
        self.assertEqual(received.counters["plimsoll_client_dropped{reason:value}"], 13)
        self.assertEqual(received.values_ns("ok"), [2**53])
        self.assertEqual(received.counters["large"], 1.7976931348623157e308)
        self.assertEqual(set(received.latencies), {"ok"})

    def test_numbers_of_other_libraries_become_plain_ones(self):
        class Scalar:
            """Like a tensor: arithmetic and rounding give another one, never a number."""

            def __init__(self, value):
                self.value = value

            def __float__(self):
                return float(self.value)

            def __mul__(self, other):
                return Scalar(self.value * other)

            def __lt__(self, other):
                return self.value < other

            def __le__(self, other):
                return self.value <= other

            def __gt__(self, other):
                return self.value > other

            def __ge__(self, other):
                return self.value >= other

            def __round__(self):
                return Scalar(round(self.value))

        with plimsoll.experiment("run") as run:
            plimsoll.record("op", seconds=Scalar(0.5))
            plimsoll.record("op", seconds=True)
            plimsoll.record("op", seconds=Decimal("0.25"))
            run.record_timing("op", seconds=Scalar(0.125))
            plimsoll.tokens("op", 3, seconds=Scalar(2))
        received = self.received()
        values_ms = [value / 1e6 for value in received.values_ns("op")]
        self.assertEqual(values_ms, [125, 250, 500, 1_000])
        self.assertEqual(received.counters["op.seconds"], 2)

    def test_numbers_beyond_all_bounds_never_raise(self):
        before = plimsoll.stats().dropped["value"]
        plimsoll.record("op", seconds=10**400)
        plimsoll.tokens("op", 1, seconds=10**400)
        for odd in [float("nan"), float("inf"), -1.0, 1e308]:
            plimsoll.record("op", seconds=1, expected_interval_s=odd)
        self.assertEqual(self.counts(), {"op": 4})
        self.assertEqual(plimsoll.stats().dropped["value"] - before, 2)

    def test_what_is_switched_off_later_records_no_more_and_keeps_what_it_had(self):
        call = plimsoll.timed("op")(int)
        call()
        plimsoll.configure(enable=False)
        for _ in range(5):
            call()
            plimsoll.record("op", seconds=1)
        self.assertEqual(self.counts(), {"op": 1})
        threads = threading.active_count()
        plimsoll.configure(enable=True)
        call()
        self.assertEqual(self.counts(), {"op": 2})
        self.assertEqual(threading.active_count(), threads)

    def test_stats_account_for_all_samples(self):
        before = plimsoll.stats()
        plimsoll.record("op", seconds=1)
        self.assertEqual(plimsoll.stats().held - before.held, 1)
        self.received()
        after = plimsoll.stats()
        self.assertEqual((after.held, after.samples - before.samples), (0, 1))
        self.assertEqual((after.address, after.fault), (self.listening.path, ""))
        self.assertTrue(after.enabled and after.connected)

    def test_a_client_without_a_node_logs_and_keeps_its_values(self):
        self.received()
        self.listening.close()
        plimsoll.record("op", seconds=1)
        self.assertFalse(plimsoll.flush(10))
        stats = plimsoll.stats()
        self.assertEqual((stats.held, stats.connected), (1, False))
        self.assertIn("No such file", stats.fault)
        self.listening = enter(self, unix_socket())
        plimsoll.configure(socket=self.listening.path)
        self.assertEqual(self.counts(), {"op": 1})


if __name__ == "__main__":
    unittest.main()
