"""Named profilers, and errors: counted the same way in everything that takes time."""

import asyncio
import threading
import unittest
import warnings

import plimsoll
from plimsoll import limits, profiler

from .listening import run, unix_socket
from .recording import Recording


class Named(Recording):
    """`get_profiler` in a process of several parts."""

    def setUp(self):
        super().setUp()
        known = dict(profiler._profilers)
        profiler._profilers.clear()
        self.addCleanup(profiler._profilers.update, known)
        self.addCleanup(profiler._profilers.clear)

    def test_a_name_is_one_object_also_for_threads_that_get_it_at_once(self):
        found = []
        barrier = threading.Barrier(8)

        def get():
            barrier.wait()
            found.append(plimsoll.get_profiler("loader", stage="read"))

        threads = [threading.Thread(target=get) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(map(id, found))), 1)
        self.assertIs(plimsoll.get_profiler("loader"), found[0])
        self.assertIsNot(plimsoll.get_profiler("trainer"), found[0])

    def test_everything_it_records_has_its_name_and_its_labels(self):
        loader = plimsoll.get_profiler("loader", stage="read")

        @loader.timed("named_fetch", cpu=True)
        def fetch():
            raise ValueError("x")

        with self.assertRaises(ValueError):
            fetch()
        with loader.timer("named_parse", stage="parse") as parse:
            parse.tokens(3)
        loader.record("named_parse", seconds=0.25, profiler="not mine")
        loader.count("named_rows", 5, kind="good")
        received = self.received()
        tags = "{profiler:loader,stage:read}"
        counts = {series: received.count(series) for series in received.latencies}
        expected = {
            f"named_fetch{tags}": 1,
            f"named_fetch.idle{tags}": 1,
            "named_parse{profiler:loader,stage:parse}": 1,
            f"named_parse{tags}": 1,
        }
        self.assertEqual(counts, expected)
        self.assertEqual(received.values_ns(f"named_parse{tags}"), [250_000_000])
        self.assertEqual(received.counters[f"named_fetch.errors{tags}"], 1)
        self.assertEqual(received.counters["named_rows{kind:good,profiler:loader,stage:read}"], 5)

    def test_its_statistics_are_of_its_own_values(self):
        for name, seconds in [("loader", 1), ("loader", 3), ("trainer", 9)]:
            plimsoll.get_profiler(name).record("named_stats", seconds=seconds)
        loader = plimsoll.get_profiler("loader").get_summary_stats("named_stats")
        self.assertEqual((loader["count"], loader["mean"], loader["max"]), (2, 2.0, 3.0))
        self.assertEqual(plimsoll.get_summary_stats("named_stats")["count"], 3)

    def test_other_labels_for_the_same_name_are_rejected(self):
        plimsoll.get_profiler("loader", stage="read")
        plimsoll.get_profiler("loader", stage="read")
        with self.assertRaisesRegex(ValueError, "profiler 'loader' has the labels"):
            plimsoll.get_profiler("loader", stage="parse")
        for name in ["", None]:
            with self.assertRaisesRegex(ValueError, "is no name of a profiler"):
                plimsoll.get_profiler(name)

    def test_their_number_is_bounded_and_the_rest_is_other(self):
        for number in range(limits.PROFILERS_MAX):
            plimsoll.get_profiler(f"p{number}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            late = [plimsoll.get_profiler(f"late{number}", rank=number) for number in range(3)]
        self.assertEqual({one.name for one in late}, {"other"})
        self.assertEqual(len({id(one) for one in late}), 1)
        self.assertLessEqual(len(profiler._profilers), limits.PROFILERS_MAX + 1)
        [warning] = caught
        self.assertIn("more than 256 profilers: 'late0' and later ones", str(warning.message))

    def test_while_timers_are_off_the_very_same_function_comes_back(self):
        with unix_socket() as listening:
            script = """
import plimsoll
print(plimsoll.get_profiler("loader").timed("op")(print) is print)
"""
            off = {"PLIMSOLL_ENABLE": "0", "PLIMSOLL_ENABLE_TIMERS": "", "PLIMSOLL_ENABLE_SHARDS": ""}
            printed = run(script, listening.path, **off, PLIMSOLL_ENABLE_EXPERIMENTS="")
            self.assertEqual(printed, "True\n")


class Errors(Recording):
    """An exception that leaves what is timed counts in `<operation>.errors`, and only that."""

    def errors(self):
        self.received()
        return {k: n for k, n in self.listening.counters.items() if ".errors" in k}

    def test_a_failed_block_counts_one_error_however_it_is_timed(self):
        run_7 = plimsoll.experiment("run")

        def fail(*_):
            raise OSError("x")

        async def fail_later():
            await asyncio.sleep(0)
            fail()

        async def within(context):
            async with context:
                await fail_later()

        def within_plain(context):
            with context:
                fail()

        table = [
            ("e1", lambda: plimsoll.timed("e1")(fail)()),
            ("e2", lambda: asyncio.run(plimsoll.timed("e2")(fail_later)())),
            ("e3", lambda: plimsoll.timed("e3", cpu=True)(fail)()),
            ("e4", lambda: plimsoll.timed("e4", expected_interval_s=1)(fail)()),
            ("e5", lambda: within_plain(plimsoll.timer("e5"))),
            ("e6", lambda: within_plain(plimsoll.timer("e6", cpu=True))),
            ("e7", lambda: asyncio.run(within(plimsoll.timer("e7")))),
            ("e8", lambda: within_plain(run_7.time("e8"))),
            ("e9", lambda: asyncio.run(within(run_7.time("e9")))),
            ("cycle", lambda: within_plain(run_7.cycle())),
            ("shard_read", lambda: within_plain(plimsoll.read_shard("s"))),
            ("shard_read", lambda: asyncio.run(within(plimsoll.read_shard("s")))),
        ]
        for operation, use in table:
            with self.subTest(operation), self.assertRaises(OSError):
                use()
        expected = {f"{operation}.errors": 1 for operation, _ in table}
        self.assertEqual(self.errors(), {**expected, "shard_read.errors": 2})
        self.assertEqual(self.listening.count("shard_read"), 2)
        self.assertEqual(run_7.as_json()["totals"]["cycle"]["errors"], 1)

    def test_what_was_timed_by_hand_can_be_marked_as_failed(self):
        read = plimsoll.start_read("s")
        plimsoll.end_read(read, rows=3, failed=True)
        run_7 = plimsoll.experiment("run", model="small")
        run_7.start_cycle()
        run_7.record_timing("by_hand", seconds=1, failed=True)
        run_7.end_cycle(failed=True)
        expected = {"shard_read.errors", "by_hand.errors{model:small}", "cycle.errors{model:small}"}
        self.assertEqual(self.errors(), dict.fromkeys(expected, 1))

    def test_what_ends_a_task_or_a_program_is_no_error(self):
        async def cancelled():
            async def forever():
                async with plimsoll.read_shard("s"), plimsoll.timer("cancelled"):
                    await asyncio.Event().wait()

            task = asyncio.ensure_future(forever())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        with self.assertRaises(KeyboardInterrupt), plimsoll.experiment("run").cycle():
            raise KeyboardInterrupt
        self.assertEqual(self.errors(), {})
        counts = [self.listening.count(name) for name in ("shard_read", "cancelled", "cycle")]
        self.assertEqual(counts, [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
