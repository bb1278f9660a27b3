"""Allocations that outlive a block or a capture, with what really happens to memory."""

import gc
import io
import json
import sys
import threading
import time
import tracemalloc
import unittest
from unittest import mock

import plimsoll
from plimsoll import allocations, limits

from .listening import Listening, run
from .recording import Recording

KEPT = []
BLOCK_BYTES = 100_000


def leak(blocks):
    KEPT.extend(bytearray(BLOCK_BYTES) for _ in range(blocks))


def churn():
    for _ in range(50):
        bytearray(BLOCK_BYTES)


class Block(Recording):
    """`memory_profile` in this process."""

    def setUp(self):
        super().setUp()
        self.addCleanup(KEPT.clear)
        self.printed = io.StringIO()

    def profile(self, **keywords):
        return plimsoll.memory_profile(file=self.printed, **keywords)

    def test_what_outlives_the_block_is_named_by_line(self):
        with self.profile() as profile:
            leak(30)
            churn()
        found = json.loads(json.dumps(profile.as_dict()))
        first = found["allocations"][0]
        line = leak.__code__.co_firstlineno + 1
        self.assertEqual((first["file"], first["line"]), (__file__, line))
        self.assertIn("leak", first["function"])
        self.assertAlmostEqual(first["size_bytes"], 30 * BLOCK_BYTES, delta=BLOCK_BYTES / 2)
        self.assertGreaterEqual(first["count"], 30)
        self.assertAlmostEqual(found["leaked_mb"], 3.0, delta=0.3)
        churned = [of["size_bytes"] for of in found["allocations"] if "churn" in of["function"]]
        self.assertLess(sum(churned), BLOCK_BYTES)
        self.assertIn(f"({__file__}:{line})", self.printed.getvalue())
        self.assertFalse(tracemalloc.is_tracing())

    def test_the_peak_counts_what_is_gone_at_the_end(self):
        with self.profile() as profile:
            bytes(5_000_000)
            leak(1)
        self.assertAlmostEqual(profile.as_dict()["peak_mb"], 5.0, delta=0.5)
        self.assertAlmostEqual(profile.as_dict()["leaked_mb"], 0.1, delta=0.1)

    def test_top_limits_what_is_printed(self):
        with self.profile(top=1) as profile:
            leak(3)
            KEPT.append(bytes(BLOCK_BYTES))
        self.assertGreater(len(profile.allocations), 1)
        self.assertEqual(len(self.printed.getvalue().splitlines()), 3)
        with self.assertRaises(ValueError):
            plimsoll.memory_profile(top=0)

    def test_tracing_of_the_job_goes_on(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        leak(20)
        # Its highest peak was before the block.
        bytes(30_000_000)
        with self.profile() as profile:
            leak(5)
        self.assertTrue(tracemalloc.is_tracing())
        self.assertAlmostEqual(profile.as_dict()["leaked_mb"], 0.5, delta=0.1)
        self.assertAlmostEqual(profile.as_dict()["peak_mb"], 0.5, delta=0.1)

    def test_blocks_within_and_beside_each_other_share_the_tracing(self):
        first, second = self.profile(), self.profile()
        first.__enter__()
        second.__enter__()
        first.__exit__()
        self.assertTrue(tracemalloc.is_tracing())
        leak(3)
        second.__exit__()
        self.assertFalse(tracemalloc.is_tracing())
        self.assertAlmostEqual(second.leaked_bytes, 3 * BLOCK_BYTES, delta=BLOCK_BYTES / 2)
        self.assertLess(first.leaked_bytes, BLOCK_BYTES)

    def test_a_job_that_stops_tracing_breaks_nothing(self):
        with self.profile() as profile:
            tracemalloc.stop()
        self.assertEqual(profile.as_dict()["allocations"], [])
        with self.profile() as again:
            leak(3)
        self.assertGreater(again.leaked_bytes, 0)

    def test_a_block_that_raises_is_profiled_too(self):
        profile = self.profile()
        with self.assertRaises(ValueError), profile:
            leak(3)
            raise ValueError
        self.assertGreater(profile.leaked_bytes, 2 * BLOCK_BYTES)
        self.assertFalse(tracemalloc.is_tracing())

    def test_switched_off_it_traces_nothing(self):
        plimsoll.configure(timers=False)
        self.addCleanup(plimsoll.configure, timers=True)
        with self.profile() as profile:
            self.assertFalse(tracemalloc.is_tracing())
        self.assertEqual((profile.allocations, self.printed.getvalue()), ([], ""))

    def test_the_client_itself_is_left_out(self):
        plimsoll.trace(60)
        self.addCleanup(plimsoll.trace, 0)
        with self.profile() as profile:
            for _ in range(5_000):
                with plimsoll.timer("block"):
                    pass
        self.assertFalse([of for of in profile.allocations if "/plimsoll/" in of.file])


class Capture(unittest.TestCase):
    """What a capture watches."""

    def test_stacks_lead_from_the_outermost_frame_to_the_allocation(self):
        self.addCleanup(KEPT.clear)
        watch = allocations.AllocationWatch()
        leak(30)
        found = watch.end()
        top = found.growths[0]
        here = sys._getframe().f_code
        name = getattr(here, "co_qualname", here.co_name)
        functions = [frame.function for frame in top.stack.frames]
        self.assertIn(name, functions)
        self.assertGreater(len(functions), functions.index(name) + 1)
        self.assertEqual(top.stack.frames[-1].file, "tests/test_memory_profiles.py")
        self.assertGreaterEqual(found.leaked_bytes, top.size_bytes)
        # pytest's own frames are more than are kept.
        self.assertLessEqual(len(functions), limits.ALLOCATION_FRAMES_MAX + 1)

    def test_it_ends_early_when_tracing_takes_too_much_memory(self):
        self.addCleanup(KEPT.clear)
        timer = threading.Timer(0.3, leak, (500,))
        begun_s = time.monotonic()
        with mock.patch.object(limits, "TRACEMALLOC_BYTES_MAX", 10_000):
            timer.start()
            self.assertIsNotNone(allocations.watched(60))
        timer.join()
        self.assertLess(time.monotonic() - begun_s, 20)
        self.assertFalse(tracemalloc.is_tracing())

    def test_allocations_of_other_threads_are_seen(self):
        self.addCleanup(KEPT.clear)
        timer = threading.Timer(0.1, leak, (20,))
        timer.start()
        found = allocations.watched(0.6)
        timer.join()
        self.assertGreater(found.leaked_bytes, 19 * BLOCK_BYTES)

    def test_functions_with_equal_code_keep_their_names(self):
        # Two files with the same text: their code objects are equal.
        names = {}
        for file in ("/one.py", "/two.py"):
            exec(compile("def make():\n    return bytearray(1)\n", file, "exec"), names)
            names[file] = names["make"]
        found = allocations._functions({"/one.py", "/two.py"})
        self.assertEqual(found[("/one.py", 2)], "make")
        self.assertEqual(found[("/two.py", 2)], "make")
        gc.collect()

    def test_a_forked_child_traces_nothing(self):
        program = """
import io, os, tracemalloc
import plimsoll
with plimsoll.memory_profile(file=io.StringIO()) as profile:
    child = os.fork()
    kept = bytearray(1_000_000)
    if child == 0:
        print(tracemalloc.is_tracing())
    else:
        os.wait()
print(tracemalloc.is_tracing(), profile.leaked_bytes > 900_000, flush=True)
with plimsoll.memory_profile(file=io.StringIO()) as profile:
    kept = [bytearray(1_000_000)]
print(tracemalloc.is_tracing(), profile.leaked_bytes > 900_000, flush=True)
os._exit(0)
"""
        node = Listening()
        self.addCleanup(node.close)
        printed = run(program, node.address, node).splitlines()
        child = ["False", "False False", "False True"]
        self.assertEqual(printed, [*child, "False True", "False True"])


if __name__ == "__main__":
    unittest.main()
