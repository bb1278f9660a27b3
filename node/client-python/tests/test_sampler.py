"""`StackSampler`: what it finds, what it bounds, and which ticks it leaves out."""

import math
import os
import random
import sys
import threading
import unittest

from plimsoll import limits
from plimsoll.sampler import TRUNCATED, Folding, Frame, Stack, StackSampler, next_tick

from .listening import run

MS = 1_000_000
HERE = os.path.join("tests", "test_sampler.py")


class Regularity(unittest.TestCase):
    """Ticks, without a clock."""

    def test_a_tick_whose_period_has_passed_is_left_out(self):
        # When the second tick of one each 10 ms is taken -> the number of the next.
        for taken_ms, following in [(10, 2), (19, 2), (20, 2), (29, 2), (30, 3), (109, 10)]:
            with self.subTest(taken_ms):
                self.assertEqual(next_tick(1, round(taken_ms * MS), 10 * MS), following)

    def test_random_delays_give_later_ticks_whose_period_is_not_over(self):
        for seed in range(1_000):
            chance = random.Random(seed)
            period_ns = 1e9 / chance.choice([0.3, 7, 99.5, 1_000])
            taken = chance.randrange(1_000)
            now_ns = round((taken + chance.expovariate(1)) * period_ns)
            following = next_tick(taken, now_ns, period_ns)
            self.assertGreater(following, taken)
            self.assertGreater((following + 1) * period_ns, now_ns)


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
        self.assertEqual(deep.thread, "main")
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
        self.assertEqual(stacks[Stack(TRUNCATED, ())], 7)
        self.assertEqual(sum(stacks.values()), limits.STACKS_MAX + 8)

    def test_functions_that_are_gone_keep_their_names(self):
        folding = Folding()
        for number in range(50):
            made = {}
            exec(f"def f{number}(then): then(__import__('sys')._getframe())", made)
            made[f"f{number}"](lambda frame: folding.add("main", frame))
        found = {stack.frames[-1].function for stack in folding.stacks()}
        self.assertEqual(found, {f"f{number}" for number in range(50)})


def sampled(seconds, hz):
    """A sampler that has ended."""
    found = StackSampler(seconds, hz)
    found.start()
    found.join()
    return found


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
        samples = sampled(0.2, 100)
        is_over.set()
        thread.join()
        self.assertEqual(samples.asked_ticks, 20)
        self.assertTrue(1 <= samples.taken_ticks <= 20, samples)
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

    def test_ticks_come_once_in_each_period_at_different_places(self):
        pauses = []

        class Still(StackSampler):
            def _pause(self, seconds):
                pauses.append(seconds)

        # All ticks are asked for at the start, so that each pause is the time of its tick.
        still = Still(100, 1)
        still.start()
        still.join()
        places = [pause - number for number, pause in enumerate(pauses)]
        self.assertEqual(len(places), 100)
        self.assertTrue(all(-0.1 < place < 1 for place in places), places)
        # A hundred of equal chance: none in a quarter happens once in 3e12 times.
        for quarter in range(4):
            self.assertTrue(any(4 * place // 1 == quarter for place in places), places)

    def test_a_request_beyond_the_bounds_is_refused(self):
        table = [(0, 100), (-1, 100), (301, 1), (math.nan, 1), (1, 0), (1, 1_001), (1, math.inf)]
        for seconds, hz in table:
            with self.subTest((seconds, hz)), self.assertRaisesRegex(ValueError, "^(seconds|hz): "):
                StackSampler(seconds, hz)

    def test_one_sampler_runs_at_a_time(self):
        first = StackSampler(0.2)
        first.start()
        with self.assertRaisesRegex(RuntimeError, "stacks are being sampled already"):
            StackSampler(0.01).start()
        first.join()
        self.assertEqual(sampled(0.001, 1_000).taken_ticks, 1)

    def test_a_child_forked_while_a_sampler_runs_has_its_own(self):
        script = """
import os, threading
from plimsoll import sampler

sampler.StackSampler(60).start()
child = os.fork()
if not child:
    own = sampler.StackSampler(0.05)
    own.start()
    own.join()
    assert {stack.thread for stack in own.stacks} == {"MainThread"}, own.stacks
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
        run(script, "/nonexistent")


if __name__ == "__main__":
    unittest.main()
