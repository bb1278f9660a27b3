"""`sample_stacks`: what it finds, what it bounds, and how it states that it was late."""

import math
import os
import random
import sys
import threading
import unittest
from unittest import mock

from plimsoll import limits, sampler
from plimsoll.sampler import TRUNCATED, Folding, Frame, SamplingError, Stack, Ticks, sample_stacks

from .listening import run

MS = 1_000_000
HERE = os.path.join("tests", "test_sampler.py")


class Regularity(unittest.TestCase):
    """Ticks, without a clock."""

    def test_ticks_in_time_are_all_taken(self):
        ticks = Ticks(5 * MS, 4, 100)
        for due_ms in [5, 15, 25, 35]:
            self.assertEqual(ticks.due_ns(), due_ms * MS)
            ticks.on_tick(ticks.due_ns() + due_ms)
        self.assertIsNone(ticks.due_ns())
        self.assertEqual(ticks.lateness_ns, [5, 15, 25, 35])

    def test_a_tick_whose_time_has_passed_is_left_out(self):
        # When the second of twenty is taken -> which one is next, and when.
        table = [(10, 2), (19, 2), (20, 2), (21, 3), (109, 11), (189, 19), (190.5, None)]
        for taken_ms, following in table:
            with self.subTest(taken_ms):
                ticks = Ticks(0, 20, 100)
                ticks.on_tick(0)
                ticks.on_tick(round(taken_ms * MS))
                expected = None if following is None else following * 10 * MS
                self.assertEqual(ticks.due_ns(), expected)
                self.assertEqual(ticks.lateness_ns, [0, round((taken_ms - 10) * MS)])

    def test_lateness_is_the_largest_and_that_of_99_in_100(self):
        ticks = Ticks(0, 200, 100)
        self.assertEqual(ticks.lateness_ms(0.99), 0)
        for number in range(200):
            ticks.on_tick(ticks.due_ns() + number * 1_000)
        self.assertEqual((ticks.lateness_ms(0.99), ticks.lateness_ms(1.0)), (0.197, 0.199))

    def test_random_delays_end_within_the_asked_ticks(self):
        for seed in range(100):
            chance = random.Random(seed)
            hz = chance.choice([0.3, 7, 99.5, 1_000])
            ticks = Ticks(chance.randrange(10**12), chance.randrange(1, 50), hz)
            due = []
            while ticks.due_ns() is not None:
                due.append(ticks.due_ns())
                ticks.on_tick(due[-1] + round(chance.expovariate(1) * 1e9 / hz))
            self.assertTrue(all(a < b for a, b in zip(due, due[1:])))
            self.assertLessEqual(len(ticks.lateness_ns), ticks.asked)


def at_depth(depth, then):
    """Calls `then` with the frame that is this many calls deep."""
    return at_depth(depth - 1, then) if depth else then(sys._getframe())


class Stacks(unittest.TestCase):
    """Folding of real frames."""

    def test_equal_stacks_are_counted_with_the_innermost_last(self):
        folding = Folding()
        for depth in [3, 1, 3]:
            at_depth(depth, lambda frame: folding.add("main", frame))
        stacks = folding.stacks()
        self.assertEqual(sorted(stacks.values()), [1, 2])
        [(deep, _)] = [found for found in stacks.items() if found[1] == 2]
        line = at_depth.__code__.co_firstlineno + 2
        self.assertEqual((deep.thread, deep.state), ("main", "unknown"))
        self.assertEqual(deep.frames[-4:], (Frame("at_depth", HERE, line),) * 4)
        name = "Stacks." * (sys.version_info >= (3, 11)) + self._testMethodName
        self.assertEqual((deep.frames[-5].function, deep.frames[-5].file), (name, HERE))

    def test_a_stack_is_cut_at_its_outer_end(self):
        folding = Folding()
        at_depth(limits.STACK_DEPTH_MAX + 5, lambda frame: folding.add("main", frame))
        [stack] = folding.stacks()
        self.assertEqual(len(stack.frames), 1 + limits.STACK_DEPTH_MAX)
        self.assertEqual(stack.frames[0], Frame(TRUNCATED, "", 0))
        self.assertEqual({frame.function for frame in stack.frames[1:]}, {"at_depth"})

    def test_stacks_beyond_the_bound_are_counted_together(self):
        folding = Folding()
        frame = sys._getframe()
        # One line, since the line is part of a stack.
        for number in [*range(limits.STACKS_MAX + 7), 0]:
            folding.add(f"thread-{number}", frame)
        stacks = folding.stacks()
        self.assertEqual(len(stacks), limits.STACKS_MAX + 1)
        self.assertEqual(stacks[Stack(TRUNCATED, "unknown", ())], 7)
        self.assertEqual(sum(stacks.values()), limits.STACKS_MAX + 8)

    def test_functions_that_are_gone_keep_their_names(self):
        folding = Folding()
        for number in range(50):
            made = {}
            exec(f"def f{number}(then): then(__import__('sys')._getframe())", made)
            made[f"f{number}"](lambda frame: folding.add("main", frame))
        found = {stack.frames[-1].function for stack in folding.stacks()}
        self.assertEqual(found, {f"f{number}" for number in range(50)})


class Sampling(unittest.TestCase):
    """The thread, on this process."""

    def test_every_thread_but_its_own_is_in_each_tick(self):
        is_over, is_ready = threading.Event(), threading.Event()

        def waits():
            is_ready.set()
            is_over.wait()

        thread = threading.Thread(target=waits, name="waits-here")
        thread.start()
        is_ready.wait()
        samples = sample_stacks(0.2, 100)
        is_over.set()
        thread.join()
        self.assertEqual(samples.asked_ticks, 20)
        self.assertTrue(1 <= samples.taken_ticks <= 20, samples)
        self.assertTrue(0 <= samples.lateness_p99_ms <= samples.lateness_max_ms)
        by_thread = {}
        for stack, count in samples.stacks.items():
            by_thread[stack.thread] = by_thread.get(stack.thread, 0) + count
        self.assertEqual(by_thread["waits-here"], samples.taken_ticks)
        self.assertEqual(by_thread[threading.current_thread().name], samples.taken_ticks)
        self.assertNotIn("plimsoll-sampler", by_thread)
        functions = {
            frame.function.rpartition(".")[2]
            for stack in samples.stacks
            if stack.thread == "waits-here"
            for frame in stack.frames
        }
        self.assertLessEqual({"waits", "wait"}, functions)

    def test_a_request_beyond_the_bounds_is_refused(self):
        table = [(0, 100), (-1, 100), (301, 1), (math.nan, 1), (1, 0), (1, 1_001), (1, math.inf)]
        for seconds, hz in [*table, (300, 1_000)]:
            with self.subTest((seconds, hz)), self.assertRaisesRegex(ValueError, "^(seconds|hz): "):
                sample_stacks(seconds, hz)

    def test_one_request_is_served_at_a_time(self):
        refused = []

        def again(*_):
            with self.assertRaises(SamplingError) as caught:
                sample_stacks(0.01)
            refused.append(str(caught.exception))

        with mock.patch.object(Folding, "add", again):
            sample_stacks(0.001, 1_000)
        self.assertIn("stacks are being sampled already", refused[0])
        self.assertEqual(sample_stacks(0.001, 1_000).taken_ticks, 1)

    def test_a_failure_of_the_thread_is_the_callers(self):
        with mock.patch.object(Folding, "add", side_effect=MemoryError("planned")):
            with self.assertRaisesRegex(MemoryError, "planned"):
                sample_stacks(0.01)
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("no more")):
            with self.assertRaisesRegex(SamplingError, "no thread for the sampler: no more"):
                sample_stacks(0.01)
        self.assertFalse(sampler._serving.locked())

    def test_a_child_forked_while_a_request_is_served_serves_its_own(self):
        script = """
import os, threading
from plimsoll import sampler

is_taken = threading.Event()
plain = sampler.Folding.add
sampler.Folding.add = lambda *stack: (plain(*stack), is_taken.set())
request = threading.Thread(target=sampler.sample_stacks, args=[60], daemon=True)
request.start()
is_taken.wait()
child = os.fork()
if not child:
    found = sampler.sample_stacks(0.05)
    assert {stack.thread for stack in found.stacks} == {"MainThread"}, found
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
        run(script, "/nonexistent")


if __name__ == "__main__":
    unittest.main()
