"""Distributions that are no latencies: what the node receives, and what this process shows of them."""

import math
import random
import unittest

import plimsoll
from plimsoll.series import Bytes, Count, SubMicrosecond

from .recording import Recording


class Distributions(Recording):
    """Bytes, counts and picoseconds, each an operation of its own."""

    def test_a_value_is_sent_in_its_unit(self):
        sizes = plimsoll.distribution("file_bytes", unit="bytes")
        sizes.record(512)
        sizes.record(3 * 2**40, split="train")
        plimsoll.distribution("batch", unit="count").record(2.5)
        plimsoll.record_ns("lookup:ps", 480)
        with plimsoll.timer("lookup:ps"):
            pass
        received = self.received()
        self.assertEqual(received.values_ns("file:bytes"), [512])
        self.assertEqual(received.values_ns("file{split:train}:bytes"), [3 * 2**40])
        self.assertEqual(received.latencies["batch:count"], [(2, 1)])
        self.assertEqual(received.values_ns("lookup:ps")[0], 480_000)
        self.assertEqual(received.count("lookup:ps"), 2)

    def test_one_name_in_two_units_is_two_operations(self):
        plimsoll.record("both", seconds=0.5)
        plimsoll.distribution("both", unit="bytes").record(7)
        plimsoll.distribution("both", unit="count").record(9)
        counts = {name: of for name, of in self.counts().items() if name.startswith("both")}
        self.assertEqual(counts, {"both": 1, "both:bytes": 1, "both:count": 1})
        snapshot = plimsoll.metrics_snapshot()
        shown = [snapshot[name]["max"] for name in ("both", "both:bytes", "both:count")]
        self.assertEqual(shown, [0.5, 7, 9])
        self.assertEqual(plimsoll.get_summary_stats("both:bytes")["p50"], 7)

    def test_a_unit_that_does_not_exist_and_a_value_that_is_none_are_refused(self):
        with self.assertRaisesRegex(ValueError, "'KiB' of 'x' is none of bytes, count"):
            plimsoll.distribution("x", unit="KiB")
        before = plimsoll.stats().dropped["value"]
        sizes = plimsoll.distribution("x", unit="bytes")
        for wrong in (-1, math.nan, math.inf):
            sizes.record(wrong)
        self.assertEqual(plimsoll.stats().dropped["value"], before + 3)

    def test_a_threshold_judges_its_own_unit_alone(self):
        called = []
        plimsoll.set_threshold("th_size:bytes", 100, callback=called.append)
        self.addCleanup(plimsoll.CLIENT.registry.thresholds.clear)
        plimsoll.record("th_size", seconds=1_000)
        plimsoll.distribution("th_size", unit="bytes").record(101)
        self.listening.poll_until(lambda: plimsoll.flush(0.1) and called)
        self.assertEqual([(of.name, of.value) for of in called], [("th_size:bytes", 101.0)])

    def test_texts_come_back_as_the_values(self):
        chance = random.Random(5)
        for _ in range(2_000):
            value = chance.randrange(2 ** chance.randrange(1, 42))
            self.assertEqual(int(Bytes._texts([value])[0]), value)
            self.assertEqual(int(SubMicrosecond._texts([value])[0]), value * 1_000)
            text = Count._texts([value])[0]
            self.assertEqual(round(float(text) * 1_000), value)
            self.assertNotIn("e", text)


if __name__ == "__main__":
    unittest.main()
