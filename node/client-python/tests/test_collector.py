"""Pauses of the garbage collector, of collections that really happen."""

import gc
import unittest
from time import perf_counter_ns as clock

import plimsoll

from .recording import Recording


class Knot:
    """Garbage that only the collector frees."""

    def __init__(self):
        self.itself = self


class Collector(Recording):
    """The collector of this process, which runs only when a test calls it."""

    def setUp(self):
        super().setUp()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        self.watch = plimsoll.watch_collector()
        self.addCleanup(self.watch.stop)

    def test_each_collection_is_a_sample_of_its_generation(self):
        for generation, times in ((0, 1), (1, 2), (2, 3)):
            for _ in range(times):
                gc.collect(generation)
        counts = self.received().counts()
        self.assertEqual(counts, {f"python_gc{{generation:{n}}}": n + 1 for n in range(3)})

    def test_a_pause_is_as_long_as_the_collection_and_counts_what_it_freed(self):
        knots = [Knot() for _ in range(50_000)]
        del knots
        started = clock()
        freed = gc.collect()
        took = clock() - started
        read = self.received()
        [pause] = read.values_ns("python_gc{generation:2}")
        self.assertLessEqual(pause, took)
        self.assertGreater(pause, took / 2)
        self.assertGreaterEqual(freed, 50_000)
        self.assertEqual(read.counters["python_gc.collected"], freed)

    def test_once_it_is_stopped_nothing_is_recorded(self):
        self.assertIs(plimsoll.watch_collector(), self.watch)
        self.watch.stop()
        self.watch.stop()
        gc.collect()
        self.assertEqual(self.received().counts(), {})
        again = plimsoll.watch_collector()
        self.addCleanup(again.stop)
        gc.collect()
        self.assertEqual(sum(self.received().counts().values()), 1)

    def test_while_the_client_is_off_nothing_is_kept(self):
        plimsoll.configure(enable=False)
        gc.collect()
        plimsoll.configure(enable=True)
        self.assertEqual(self.received().counts(), {})


if __name__ == "__main__":
    unittest.main()
