"""The lag of real event loops, and the code that held one up."""

import asyncio
import threading
import time
import unittest

import plimsoll

from .recording import Recording


def blocker():
    time.sleep(0.4)


class Loop(Recording):
    """Loops of this process."""

    def run_loop(self, work):
        async def main():
            watch = plimsoll.watch_loop()
            self.addCleanup(watch.stop)
            await work()
            return watch

        return asyncio.run(main())

    def test_a_loop_that_waits_has_hardly_any_lag_and_no_event(self):
        self.run_loop(lambda: asyncio.sleep(0.5))
        read = self.received()
        lags = read.values_ns("asyncio_lag")
        self.assertGreaterEqual(len(lags), 3)
        self.assertEqual(read.events, [])

    def test_code_that_holds_up_a_loop_is_named_with_its_place(self):
        async def work():
            await asyncio.sleep(0.1)
            blocker()
            await asyncio.sleep(0.1)

        self.run_loop(work)
        read = self.received()
        self.assertGreater(max(read.values_ns("asyncio_lag")), 300_000_000)
        [event] = read.events
        self.assertIn("event loop blocked", event)
        self.assertRegex(event, r"late; it was in blocker \(test_loop_watch.py:\d+\), called by ")

    def test_events_are_at_most_one_in_ten_seconds(self):
        async def work():
            for _ in range(3):
                blocker()
                await asyncio.sleep(0.1)

        self.run_loop(work)
        self.assertEqual(len(self.received().events), 1)

    def test_a_stopped_watch_records_nothing_and_its_thread_ends(self):
        async def main():
            plimsoll.watch_loop().stop()
            await asyncio.sleep(0.2)
            return self.threads()

        self.assertEqual(asyncio.run(main()), [])
        self.assertEqual(self.received().counts(), {})

    def test_the_thread_of_a_closed_loop_ends(self):
        self.run_loop(lambda: asyncio.sleep(0.1))
        self.listening.poll_until(lambda: not self.threads())

    def threads(self):
        return [of for of in threading.enumerate() if of.name == "plimsoll-loop"]

    def test_without_a_loop_it_is_refused(self):
        with self.assertRaises(RuntimeError):
            plimsoll.watch_loop()


if __name__ == "__main__":
    unittest.main()
