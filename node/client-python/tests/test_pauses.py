"""The flush thread sleeps while there is nothing to send, and no value waits for it to wake."""

import json
import os
import unittest

from plimsoll.registry import Registry
from plimsoll.wakeup import Wakeup

from .listening import PACKAGE, enter, require_semaphores, run, run_command, unix_socket

START = """
import random, signal, threading, time
import plimsoll
from plimsoll.wakeup import Wakeup

def await_sleep():
    while plimsoll.CLIENT.registry.is_awake:
        time.sleep(0.001)
"""


class Pauses(unittest.TestCase):
    """A process that records now and then; nothing is flushed by hand, and none of it exits."""

    def setUp(self):
        self.listening = enter(self, unix_socket())

    def read_until(self, samples, script, **more):
        """Reads until this many samples are there, and lets the script end only then."""
        gate = f"{self.listening.path}.gate"
        wait = f"\nimport os\nwhile not os.path.exists({gate!r}):\n    time.sleep(0.001)\n"

        class Opening:
            """Opens the gate once everything has arrived."""

            def poll_until(reader, is_over):
                self.listening.poll_until(lambda: self.listening.samples() >= samples)
                with open(gate, "w", encoding="utf-8"):
                    pass
                self.listening.poll_until(is_over)

        printed = run(START + script + wait, self.listening.path, Opening(), **more)
        self.assertEqual(self.listening.read().samples(), samples)
        return printed

    def test_the_first_value_is_sent_at_once(self):
        self.read_until(1, "plimsoll.record_ns('op', 1)", PLIMSOLL_FLUSH_MS="60000")

    def test_a_value_after_a_pause_wakes_the_thread(self):
        self.read_until(
            60,
            """
for _ in range(20):
    for kind in ("a", "b", "c"):
        await_sleep()
        plimsoll.record_ns(kind, 1)
""",
            PLIMSOLL_FLUSH_MS="10",
        )

    def test_a_counter_a_gauge_and_an_event_wake_it_too(self):
        self.read_until(
            1,
            """
from plimsoll.events import send_event
for change in [
    lambda: plimsoll.count("c"),
    lambda: plimsoll.gauge("g", 1.5),
    lambda: (send_event("title", "text", "info", {}), plimsoll.count("c")),
    lambda: plimsoll.record_ns("op", 1),
]:
    change()
    await_sleep()
""",
            PLIMSOLL_FLUSH_MS="10",
        )
        self.assertEqual((self.listening.counters["c"], self.listening.gauges["g"]), (2, 1.5))
        self.assertEqual(len(self.listening.events), 1)

    def test_without_values_the_thread_sleeps_without_an_end(self):
        printed = self.read_until(
            1,
            """
waits = []
plain = Wakeup.wait

def wait(self, timeout_s=-1):
    waits.append(timeout_s)
    return plain(self, timeout_s)

Wakeup.wait = wait
plimsoll.record_ns("op", 1)
while -1 not in waits:
    time.sleep(0.001)
print(waits, plimsoll.stats().datagrams)
""",
            PLIMSOLL_FLUSH_MS="10",
        )
        # The value is sent at once, its end after half a second: two pauses that end in sleep.
        self.assertEqual(printed.strip(), "[0.01, 0.5, 0.01, -1] 2")

    def test_threads_that_pause_as_they_like_leave_nothing_behind(self):
        self.read_until(
            4 * 400,
            """
def now_and_then(seed):
    chance = random.Random(seed)
    for _ in range(400):
        plimsoll.record_ns(chance.choice("abcdefgh"), 1)
        time.sleep(chance.choice([0, 0, 0, 0.0001, 0.001, 0.01, 0.011, 0.012]))

threads = [threading.Thread(target=now_and_then, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""",
            PLIMSOLL_FLUSH_MS="10",
        )


class Sleeping(unittest.TestCase):
    """One registry without a thread: the orders in which values and sleep can meet."""

    def setUp(self):
        self.calls = 0
        self.registry = Registry(self.on_first)
        self.series = self.registry.latency("op", {})

    def on_first(self):
        self.calls += 1
        self.registry.wake()

    def drain(self):
        self.series.take(10)

    def test_the_first_value_after_sleep_calls_and_the_next_do_not(self):
        for round_ in range(1, 4):
            self.series.add(1)
            self.registry.latency("another", {}).add(1)
            self.assertEqual(self.calls, round_)
            self.assertFalse(self.registry.doze())
            self.drain()
            self.registry.latency("another", {}).take(1)
            self.assertTrue(self.registry.doze())

    def test_a_value_that_comes_while_the_registry_goes_to_sleep_keeps_it_awake(self):
        self.series.add(1)
        self.drain()
        plain = self.registry.sleep

        def sleep():
            self.series.add(2)
            plain()

        self.registry.sleep = sleep
        self.assertFalse(self.registry.doze())
        self.assertTrue(self.registry.is_awake)

    def test_a_thread_that_stops_within_its_first_value_leaves_no_series_that_never_calls(self):
        class Stopping(Registry):
            """Runs `meanwhile` whenever a caller reads whether it is awake."""

            meanwhile = None

            @property
            def is_awake(self):
                value, meanwhile = self.value, self.meanwhile
                if meanwhile is not None:
                    self.meanwhile = None
                    meanwhile()
                return value

            @is_awake.setter
            def is_awake(self, value):
                self.value = value

        self.registry = Stopping(self.on_first)
        self.series = self.registry.latency("op", {})
        self.registry.latency("another", {}).add(1)
        self.registry.latency("another", {}).take(1)

        def flush_and_doze():
            self.drain()
            self.assertTrue(self.registry.doze())

        self.registry.meanwhile = flush_and_doze
        self.series.add(1)
        before = self.calls
        self.series.add(2)
        self.assertEqual((self.calls, self.registry.is_awake), (before + 1, True))

    def test_a_series_made_while_others_sleep_wakes_none_of_them(self):
        for number in range(100):
            self.registry.latency(f"op{number}", {})
        self.assertEqual({series.pending_max for series in self.registry.all()}, {0})


class Rings(unittest.TestCase):
    """What `Wakeup` keeps."""

    def test_rings_before_a_wait_are_one_and_a_cleared_one_is_none(self):
        wakeup = Wakeup()
        wakeup.ring()
        wakeup.ring()
        self.assertEqual((wakeup.wait(0), wakeup.wait(0)), (True, False))
        wakeup.ring()
        wakeup.clear()
        wakeup.clear()
        self.assertFalse(wakeup.wait(0))


class Killed(unittest.TestCase):
    """Workers that end without notice, counted by files of their own."""

    def rows(self, *arguments):
        path = os.path.join(PACKAGE, "bench", "killed_workers.py")
        # It has a socket of its own.
        return json.loads(run_command([path, "--json", *arguments], ""))["rows"]

    def test_a_pool_that_rests_before_its_end_has_lost_nothing(self):
        require_semaphores()
        # Half a second between flushes would put none into the rest.
        given = ["--workers", "4", "--calls", "55", "--rest-s", "0.35"]
        for row in self.rows("--ending", "rest", *given):
            with self.subTest(row["start"]):
                self.assertEqual((row["recorded"], row["missing"]), (4 * 55, 0))

    def test_an_end_by_itself_loses_nothing(self):
        require_semaphores()
        for ending in ["closed", "exception"]:
            [row] = self.rows("--ending", ending, "--start", "fork", "--workers", "4")
            with self.subTest(ending):
                self.assertEqual((row["recorded"], row["missing"]), (100, 0))

    def test_a_worker_that_is_killed_loses_its_last_moments_at_most(self):
        # Calls, since a busy machine delays these as it delays flushes, and of all workers together.
        lost_max = 8 * 15
        for ending in ["sigterm", "sigkill", "exit"]:
            # Half a second between flushes would lose 25 calls of each worker on average.
            for row in self.rows("--ending", ending, "--start", "fork", "--calls", "80"):
                with self.subTest((ending, row)):
                    self.assertGreaterEqual(row["recorded"], 8 * 80)
                    self.assertLess(row["missing"], lost_max)


if __name__ == "__main__":
    unittest.main()
