"""Hand-over times of real pools: results, failures and cancelling stay as they were."""

import asyncio
import threading
import time
import unittest
from concurrent.futures import CancelledError, ThreadPoolExecutor

import plimsoll

from .listening import Listening, require_semaphores, run
from .recording import Recording

SERIES = "executor_handover{executor:io}"


def double(number, *, plus=0):
    return 2 * number + plus


def fail():
    raise LookupError("as before")


class Threads(Recording):
    """Pools of threads."""

    def setUp(self):
        super().setUp()
        self.pool = ThreadPoolExecutor(1)
        self.addCleanup(self.pool.shutdown)
        self.watch = plimsoll.watch_executor(self.pool, "io")

    def test_a_call_that_waits_for_its_turn_is_a_sample_of_that_wait(self):
        self.pool.submit(time.sleep, 0.2)
        self.assertEqual(self.pool.submit(double, 3, plus=1).result(), 7)
        first, second = self.received().values_ns(SERIES)
        self.assertLess(first, 100_000_000)
        self.assertGreater(second, 180_000_000)

    def test_results_and_failures_of_map_and_submit_are_as_before(self):
        self.assertEqual(list(self.pool.map(double, range(3))), [0, 2, 4])
        with self.assertRaisesRegex(LookupError, "as before"):
            self.pool.submit(fail).result()
        with self.assertRaises(TypeError):
            self.pool.submit(double).result()
        self.assertEqual(self.counts(), {SERIES: 5})

    def test_a_cancelled_call_never_starts_and_is_no_sample(self):
        release = threading.Event()
        self.pool.submit(release.wait)
        waiting = self.pool.submit(double, 1)
        self.assertTrue(waiting.cancel())
        release.set()
        with self.assertRaises(CancelledError):
            waiting.result()
        self.pool.submit(double, 1).result()
        self.assertEqual(self.counts(), {SERIES: 2})

    def test_a_keyword_of_the_call_may_have_any_name(self):
        def given(**keywords):
            return keywords

        keywords = dict(function=1, handover=2, self=3, args=4)
        self.assertEqual(self.pool.submit(given, **keywords).result(), keywords)

    def test_calls_of_an_event_loop_are_samples(self):
        async def main():
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self.pool, double, 4)
            loop.set_default_executor(self.pool)
            return found, await asyncio.to_thread(double, 5, plus=1)

        self.assertEqual(asyncio.run(main()), (8, 11))
        self.assertEqual(self.counts(), {SERIES: 2})

    def test_a_stopped_watch_records_nothing_and_a_second_one_is_the_first(self):
        self.assertIs(plimsoll.watch_executor(self.pool, "other"), self.watch)
        self.pool.submit(double, 1).result()
        self.watch.stop()
        self.watch.stop()
        self.assertNotIn("submit", vars(self.pool))
        self.pool.submit(double, 1).result()
        self.assertEqual(self.counts(), {SERIES: 1})
        self.assertIsNot(plimsoll.watch_executor(self.pool, "io"), self.watch)

    def test_a_pool_that_is_shut_down_refuses_as_before(self):
        self.pool.shutdown()
        with self.assertRaises(RuntimeError):
            self.pool.submit(double, 1)

    def test_spans_of_the_pool_belong_to_the_step_that_submitted(self):
        plimsoll.trace(60)
        self.addCleanup(plimsoll.trace, 0)
        with plimsoll.step("train"):
            self.pool.submit(time.sleep, 0.01).result()
        self.pool.submit(double, 1).result()
        found = {of.name: of for of in plimsoll.spans.kept().spans()}
        self.assertEqual(found["sleep"].within.root, found["train"].own)
        self.assertEqual(found["sleep"].within.lane, found["train"].lane)
        self.assertNotEqual(found["sleep"].lane, found["train"].lane)
        self.assertEqual(found["sleep"].labels["executor"], "io")
        self.assertEqual(found["double"].within.root, 0)


class Processes(Recording):
    """Pools of processes."""

    @classmethod
    def setUpClass(cls):
        require_semaphores()

    def test_calls_are_pickled_and_their_workers_record(self):
        for method in ("fork", "spawn"):
            with self.subTest(method):
                node = Listening()
                self.addCleanup(node.close)
                program = f"""
import multiprocessing, operator, time
import plimsoll
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context({method!r})) as pool:
        pool.submit(abs, -1).result()
        plimsoll.watch_executor(pool, "io")
        slept = pool.submit(time.sleep, 0.2)
        print(pool.submit(int, "7f", base=16).result(), list(pool.map(abs, [-1, -2])))
        try:
            pool.submit(operator.truediv, 1, 0).result()
        except ZeroDivisionError as error:
            print(error)
        # A step of this process is none of the worker's.
        with plimsoll.step("train"):
            print(pool.submit(plimsoll.spans.handed_over).result())
"""
                printed = run(program, node.address, node, PLIMSOLL_TRACE_SECONDS="60")
                self.assertEqual(printed.splitlines(), ["127 [1, 2]", "division by zero", "None"])
                waits = node.read().values_ns(SERIES)
                self.assertEqual(len(waits), 6)
                self.assertGreater(max(waits), 180_000_000)
                self.assertLess(max(waits), 20_000_000_000)

    def test_workers_without_switches_do_not_warn(self):
        node = Listening()
        self.addCleanup(node.close)
        program = """
import multiprocessing
import plimsoll
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    plimsoll.configure(enable=True)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        plimsoll.watch_executor(pool, "io")
        print(pool.submit(abs, -1).result())
"""
        off = {f"PLIMSOLL_ENABLE{of}": "" for of in ("", "_TIMERS", "_SHARDS", "_EXPERIMENTS")}
        self.assertEqual(run(program, node.address, node, **off).strip(), "1")


if __name__ == "__main__":
    unittest.main()
