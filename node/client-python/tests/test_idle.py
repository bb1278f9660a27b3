"""`cpu=True`: what of an operation's time its thread did not work.

No time is compared with a bound from above: a machine under load may make any span longer.
"""

import asyncio
import threading
import time
import unittest

import plimsoll
from plimsoll.names import idle_name, operation_name
from plimsoll.timing import Timer

from .recording import Recording

SPAN_NS = 50_000_000


def work():
    """Keeps this thread's processor busy for SPAN_NS of its time."""
    end = time.thread_time_ns() + SPAN_NS
    while time.thread_time_ns() < end:
        pass


def wait():
    """Sleeps for SPAN_NS."""
    time.sleep(SPAN_NS / 1e9)


class Idle(Recording):
    """Blocks and functions with and without the idle time option."""

    def value_ns(self, received, series):
        [value] = received.values_ns(series)
        return value

    def test_a_sleep_is_idle_and_a_busy_loop_is_not(self):
        @plimsoll.timed("worked", cpu=True, by="call")
        def worked():
            work()

        @plimsoll.timed("waited", cpu=True, by="call")
        def waited():
            wait()

        worked()
        waited()
        with plimsoll.timer("worked", cpu=True, by="block"):
            work()
        with plimsoll.timer("waited", cpu=True, by="block"):
            wait()
        received = self.received()
        for by in ["{by:call}", "{by:block}"]:
            with self.subTest(by):
                whole = self.value_ns(received, f"worked{by}")
                self.assertLessEqual(self.value_ns(received, f"worked.idle{by}"), whole - SPAN_NS)
                whole = self.value_ns(received, f"waited{by}")
                self.assertGreaterEqual(whole, SPAN_NS)
                idle = self.value_ns(received, f"waited.idle{by}")
                self.assertGreaterEqual(idle, SPAN_NS // 2)
                self.assertLessEqual(idle, whole)

    def test_work_of_other_threads_is_idle(self):
        with plimsoll.timer("op", cpu=True) as timer:
            other = threading.Thread(target=work)
            other.start()
            other.join()
        self.assertGreaterEqual(self.value_ns(self.received(), "op.idle"), SPAN_NS // 2)
        self.assertGreaterEqual(timer.elapsed_ns, SPAN_NS)

    def test_the_default_is_the_latency_alone(self):
        plimsoll.timed("op")(int)()
        with plimsoll.timer("op", cpu=False, cpu_="3") as timer:
            pass
        self.assertIs(type(timer), Timer)
        self.assertEqual(self.counts(), {"op": 1, "op{cpu:3}": 1})

    def test_labels_errors_and_corrections_go_with_it(self):
        @plimsoll.timed("op", cpu=True, phase="train", expected_interval_s=1e-9)
        def fail():
            raise ValueError("x")

        with self.assertRaises(ValueError):
            fail()
        with self.assertRaises(ValueError):
            with plimsoll.timer("op", cpu=True, phase="train") as timer:
                timer.label(phase="eval")
                timer.tokens(3)
                fail.__wrapped__()
        counts = self.counts()
        self.assertGreater(counts.pop("op{phase:train}"), 1)
        once = {"op.idle{phase:train}": 1, "op{phase:eval}": 1, "op.idle{phase:eval}": 1}
        self.assertEqual(counts, once)
        counters = self.listening.counters
        self.assertEqual(counters["op.errors{phase:train}"], 1)
        self.assertEqual(counters["op.errors{phase:eval}"], 1)
        self.assertEqual(counters["op.tokens{phase:eval}"], 3)

    def test_methods_of_every_kind_work(self):
        class Thing:
            @plimsoll.timed("op", cpu=True)
            def plain(self):
                return "plain"

            @plimsoll.timed("op", cpu=True)
            @classmethod
            def bound(cls):
                return cls.__name__

            @plimsoll.timed("op", cpu=True)
            @staticmethod
            def static():
                return "static"

        thing = Thing()
        answers = [thing.plain(), thing.bound(), Thing.static()]
        self.assertEqual(answers, ["plain", "Thing", "static"])
        self.assertEqual(self.counts(), {"op": 3, "op.idle": 3})

    def test_an_async_block_reports_no_idle_time(self):
        async def fetch():
            async with plimsoll.timer("op", cpu=True):
                await asyncio.sleep(0)

        before = plimsoll.stats().dropped["idle"]
        asyncio.run(fetch())
        self.assertEqual(self.counts(), {"op": 1})
        self.assertEqual(plimsoll.stats().dropped["idle"] - before, 1)

    def test_a_block_that_ends_in_another_thread_has_none_either(self):
        before = plimsoll.stats().dropped["idle"]
        timer = plimsoll.timer("op", cpu=True)
        timer.__enter__()
        other = threading.Thread(target=timer.__exit__, args=(None, None, None))
        other.start()
        other.join()
        self.assertEqual(self.counts(), {"op": 1})
        self.assertEqual(plimsoll.stats().dropped["idle"] - before, 1)

    def test_functions_whose_thread_works_for_others_meanwhile_are_refused(self):
        async def coroutine():
            pass

        def generator():
            yield

        async def async_generator():
            yield

        for enable in [True, False]:
            plimsoll.configure(enable=enable)
            for function in [coroutine, generator, async_generator, staticmethod(generator)]:
                with self.assertRaisesRegex(TypeError, "plain functions"):
                    plimsoll.timed("op", cpu=True)(function)
        plimsoll.configure(enable=True)

    def test_the_longest_name_differs_from_its_idle_time(self):
        for length in [1, 122, 123, 124, 128, 500]:
            idle = operation_name(idle_name("x" * length))
            self.assertEqual(idle, "x" * min(length, 123) + ".idle")


if __name__ == "__main__":
    unittest.main()
