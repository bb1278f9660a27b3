"""A block whose calls are counted: what is first, what it costs, and where it is refused."""

import io
import json
import os
import sys
import tempfile
import threading
import time
import unittest

import plimsoll

from .listening import enter
from .recording import Recording


def leaf(n):
    return sum(range(n))


def branch(n):
    return [leaf(200) for _ in range(n)]


def recursive(n):
    return leaf(50) if n == 0 else recursive(n - 1)


def slow():
    time.sleep(0.02)


class Deterministic(Recording):
    """Real code of this file."""

    def setUp(self):
        super().setUp()
        self.printed = io.StringIO()

    def profile(self, work, **options):
        with plimsoll.deterministic_profile(file=self.printed, **options) as profile:
            work()
        return profile

    def found(self, profile, name):
        [of] = [of for of in profile.functions if of.name.split(".")[-1] == name]
        return of

    def test_functions_are_in_the_order_of_their_cumulative_time(self):
        def work():
            branch(50)
            slow()

        profile = self.profile(work, top=2)
        times = [of.cumulative_seconds for of in profile.functions]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(profile.functions[0].name.split(".")[-1], "work")
        self.assertEqual(self.found(profile, "leaf").calls, 50)
        self.assertEqual(self.found(profile, "branch").calls, 1)
        slept = self.found(profile, "slow")
        place = os.path.basename(slept.file), slept.line
        self.assertEqual(place, ("test_deterministic.py", slow.__code__.co_firstlineno))
        self.assertGreaterEqual(slept.cumulative_seconds, 0.02)
        self.assertLess(slept.self_seconds, 0.01, "its time is that of the sleep within")
        head, columns, first, _second, rest = self.printed.getvalue().splitlines()
        self.assertRegex(head, r"^[\d.]+ ms with [\d,]+ calls in .*, of which profiling took about")
        self.assertEqual(columns.split(), ["cumulative", "itself", "calls", "function"])
        self.assertRegex(first, r"work \(.*test_deterministic.py:\d+\)$")
        self.assertEqual(rest.split(), [str(len(profile.functions) - 2), "more", "functions"])

    def test_a_recursive_function_takes_its_time_once(self):
        profile = self.profile(lambda: recursive(200))
        of = self.found(profile, "recursive")
        self.assertEqual(of.calls, 201)
        self.assertLessEqual(of.cumulative_seconds, profile.seconds)

    def test_what_it_costs_is_measured_and_grows_with_the_calls(self):
        few, many = self.profile(lambda: branch(10)), self.profile(lambda: branch(20_000))
        self.assertGreater(many.cost_seconds, few.cost_seconds)
        self.assertLessEqual(many.cost_seconds, many.seconds)

    def test_the_file_has_what_was_printed(self):
        path = os.path.join(enter(self, tempfile.TemporaryDirectory()), "profile.json")
        profile = self.profile(lambda: branch(30), export=path)
        with open(path, encoding="utf-8") as file:
            page = json.load(file)
        self.assertEqual(page["kind"], "deterministic")
        self.assertEqual(page["duration_seconds"], profile.seconds)
        [of] = [of for of in page["top_functions"] if of["name"] == "leaf"]
        self.assertEqual((of["calls"], of["line"]), (30, leaf.__code__.co_firstlineno))
        share = of["cumulative_seconds"] / profile.seconds * 100
        self.assertAlmostEqual(of["percent"], share, places=6)

    def test_the_threads_that_are_in_it_are_stated(self):
        def work():
            thread = threading.Thread(target=slow)
            thread.start()
            thread.join()

        names = [of.name for of in self.profile(work).functions]
        has_all = sys.version_info >= (3, 12)
        self.assertEqual("slow" in names, has_all)
        words = "calls in all threads" if has_all else "calls in this thread"
        self.assertIn(words, self.printed.getvalue())

    def test_an_error_of_the_block_leaves_it_with_the_profile_printed(self):
        with self.assertRaisesRegex(KeyError, "gone"):
            self.profile(lambda: {}["gone"])
        self.assertIn("by cumulative time", self.printed.getvalue())
        self.profile(lambda: branch(1))

    def test_two_at_once_are_refused_with_the_reason(self):
        if sys.version_info < (3, 12):
            self.skipTest("earlier versions of Python replace the first one")
        with plimsoll.deterministic_profile(file=self.printed):
            with self.assertRaisesRegex(RuntimeError, "within another profiler"):
                self.profile(lambda: branch(1))

    def test_wrong_arguments_are_named(self):
        with self.assertRaisesRegex(ValueError, "top=0 must be at least 1"):
            plimsoll.deterministic_profile(top=0)

    def test_while_timers_are_off_nothing_is_counted_or_printed(self):
        plimsoll.configure(timers=False)
        profile = self.profile(lambda: branch(5))
        self.assertEqual((profile.functions, self.printed.getvalue()), ([], ""))


if __name__ == "__main__":
    unittest.main()
