"""`step`: phases add up to their step, whatever nests, fails, forks or never ends."""

import asyncio
import contextlib
import random
import threading
import unittest
from unittest import mock

import plimsoll
from plimsoll import limits
from plimsoll.steps import CLASSES, NO_STEP

from .listening import enter, run, unix_socket
from .recording import Recording


class Steps(Recording):
    """A clock that the test moves."""

    def setUp(self):
        super().setUp()
        self.now_ns = 1_000
        enter(self, mock.patch("plimsoll.steps.clock", lambda: self.now_ns))

    def spend(self, span_ns):
        self.now_ns += span_ns

    def values(self):
        """Each latency with its values, in nanoseconds."""
        received = self.received()
        return {series: received.values_ns(series) for series in received.latencies}

    def test_a_step_and_its_phases_are_one_sample_each(self):
        with plimsoll.step("train_step", zone="a") as step:
            with step.phase("input"):
                self.spend(30)
            self.spend(1)
            for _ in range(4):
                with step.phase("all_reduce", class_="sync"):
                    self.spend(5)
            self.spend(2)
        self.assertEqual(step.elapsed_ns, 53)
        self.assertEqual(
            self.values(),
            {
                "train_step{zone:a}": [53],
                "train_step.input{class:input,zone:a}": [30],
                "train_step.all_reduce{class:sync,zone:a}": [20],
                "train_step.other{class:other,zone:a}": [3],
            },
        )

    def test_the_time_of_an_inner_phase_is_not_in_the_outer(self):
        with plimsoll.step() as step, step.phase("compute"):
            self.spend(10)
            with step.phase("forward"):
                self.spend(20)
                with step.phase("compute"):
                    self.spend(40)
            self.spend(80)
        expected = {
            "step": [150],
            "step.compute{class:compute}": [130],
            "step.forward{class:other}": [20],
            "step.other{class:other}": [0],
        }
        self.assertEqual(self.values(), expected)

    def test_the_class_is_given_or_that_of_the_name(self):
        table = [(name, None, name) for name in CLASSES]
        table += [("load", None, "other"), ("load", "input", "input"), ("sync", "other", "other")]
        for name, class_, expected in table:
            with self.subTest((name, class_)), plimsoll.step("table") as step:
                self.assertEqual(step.phase(name, class_=class_).key, (name, expected))
        with self.assertWarnsRegex(plimsoll.PlimsollWarning, "'synch' of the phase 'p' is none of"):
            self.assertEqual(step.phase("p", class_="synch").key, ("p", "other"))

    def test_a_phase_of_two_classes_is_two_and_one_called_other_joins_the_rest(self):
        with plimsoll.step() as step:
            for class_, span_ns in [("input", 1), ("sync", 2), ("input", 4)]:
                with step.phase("copy", class_=class_):
                    self.spend(span_ns)
            with step.phase("other"):
                self.spend(8)
            with step.phase("other", class_="sync"):
                self.spend(16)
            self.spend(32)
        expected = {
            "step": [63],
            "step.copy{class:input}": [5],
            "step.copy{class:sync}": [2],
            "step.other{class:other}": [40],
            "step.other{class:sync}": [16],
        }
        self.assertEqual(self.values(), expected)

    def test_an_error_is_timed_and_counted_in_the_step_that_it_leaves(self):
        for error in [ValueError("x"), KeyboardInterrupt(), SystemExit(3)]:
            with self.assertRaises(type(error)) as caught, plimsoll.step("s", k="v") as step:
                with contextlib.suppress(OSError), step.phase("input"):
                    raise OSError("caught by the step")
                with step.phase("sync"):
                    self.spend(7)
                    raise error
            self.assertIs(caught.exception, error)
        received = self.received()
        for series in ["s{k:v}", "s.sync{class:sync,k:v}"]:
            self.assertEqual(received.values_ns(series), [7, 7, 7])
        # What ends a program is no error of the step.
        self.assertEqual(dict(received.counters), {"s.errors{k:v}": 1})

    def test_phases_that_end_out_of_order_or_too_late_count_once(self):
        outer, inner, late = contextlib.ExitStack(), contextlib.ExitStack(), contextlib.ExitStack()
        with plimsoll.step() as step:
            outer.enter_context(step.phase("input"))
            self.spend(1)
            inner.enter_context(step.phase("sync"))
            self.spend(2)
            outer.close()
            self.spend(4)
            inner.close()
            late.enter_context(step.phase("compute"))
            self.spend(8)
        self.spend(16)
        late.close()
        with step:
            late.close()
            self.spend(32)
        spent = {"input{class:input}": [1], "sync{class:sync}": [6], "compute{class:compute}": [8]}
        expected = {f"step.{series}": values for series, values in spent.items()}
        expected.update({"step": [15, 32], "step.other{class:other}": [0, 32]})
        self.assertEqual(self.values(), expected)

    def test_phases_beyond_the_bounds_count_in_what_is_around_them(self):
        before = plimsoll.stats().dropped["phases"]
        with plimsoll.step("many") as step:
            for number in range(limits.PHASES_MAX + 8):
                with step.phase(f"p{number}"):
                    self.spend(10)
        with plimsoll.step("deep") as step, contextlib.ExitStack() as phases:
            for _ in range(limits.PHASES_OPEN_MAX + 8):
                phases.enter_context(step.phase("compute"))
                self.spend(1)
        received = self.received()
        # `other` is one of both.
        self.assertEqual(plimsoll.stats().dropped["phases"] - before, 9 + 9)
        self.assertEqual(received.values_ns("many.other{class:other}"), [90])
        self.assertEqual(received.values_ns("deep.compute{class:compute}"), [40])
        self.assertEqual(len(received.latencies), 1 + limits.PHASES_MAX + 1 + 2)

    def test_names_that_are_too_long_stay_apart(self):
        with plimsoll.step("s" * 200) as step, step.phase("p" * 200), step.phase("q" * 200):
            self.spend(1)
        names = {series.partition("{")[0] for series in self.received().latencies}
        self.assertEqual({len(name) for name in names - {f"{'s' * 122}.other"}}, {128})
        self.assertEqual(len(names), 4)

    def test_random_steps_add_up_and_equal_a_naive_model(self):
        for seed in range(200):
            chance = random.Random(seed)
            with plimsoll.step("random") as step:
                model = {step.phase("other").key: 0}
                self.random_phases(chance, step, model, step.phase("other").key, 0)
            self.assertEqual(step._spent, model)
            self.assertEqual(sum(model.values()), step.elapsed_ns)
        received = self.received()
        spans = {series: sum(received.values_ns(series)) for series in received.latencies}
        self.assertEqual(2 * spans["random"], sum(spans.values()))

    def random_phases(self, chance, step, model, around, depth):
        """Spends time in random phases, and notes it in the model as whose it is."""
        for _ in range(chance.randrange(4)):
            span_ns = chance.randrange(1_000)
            self.spend(span_ns)
            model[around] += span_ns
            if depth < 5:
                phase = step.phase(chance.choice(["input", "sync", "load"]))
                model.setdefault(phase.key, 0)
                with contextlib.suppress(ZeroDivisionError), phase:
                    self.random_phases(chance, step, model, phase.key, depth + 1)
                    if chance.random() < 0.2:
                        raise ZeroDivisionError


class Owners(Recording):
    """A step belongs to its object."""

    def test_tasks_and_threads_have_a_step_each(self):
        async def turn(number):
            with plimsoll.step("turn", task=number) as step:
                with step.phase("input"):
                    await asyncio.sleep(0)
                with step.phase("compute"):
                    await asyncio.sleep(0)

        async def turns():
            await asyncio.gather(*[turn(number) for number in range(3)])

        asyncio.run(turns())
        threads = [threading.Thread(target=asyncio.run, args=[turn(n)]) for n in range(3, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = {f"turn{{task:{n}}}": 1 for n in range(6)}
        for name in ["input", "compute", "other"]:
            counts.update({f"turn.{name}{{class:{name},task:{n}}}": 1 for n in range(6)})
        self.assertEqual(self.counts(), counts)
        received = self.listening
        for task in range(6):
            parts = [f"turn.{c}{{class:{c},task:{task}}}" for c in ["input", "compute", "other"]]
            whole = received.values_ns(f"turn{{task:{task}}}")[0]
            self.assertEqual(sum(received.values_ns(part)[0] for part in parts), whole)

    def test_threads_that_share_a_step_against_its_contract_break_nothing(self):
        step = plimsoll.step("shared")
        is_over = threading.Event()
        errors = []

        def enter_phases():
            try:
                while not is_over.is_set():
                    with step.phase("input"), step.phase("sync"):
                        pass
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=enter_phases) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(2_000):
            with step, step.phase("compute"):
                pass
        is_over.set()
        for thread in threads:
            thread.join()
        self.assertEqual((errors, self.counts()["shared"]), ([], 2_000))

    def test_a_step_while_timers_are_off_records_nothing(self):
        plimsoll.configure(timers=False)
        self.addCleanup(plimsoll.configure, timers=True)
        with plimsoll.step() as step, step.phase("input", class_="sync"):
            pass
        self.assertIs(step, NO_STEP)
        self.assertEqual((step.elapsed_ns, self.counts()), (0, {}))


class Unfinished(unittest.TestCase):
    """Processes that are forked, or end, in the middle of a step."""

    def test_a_step_belongs_to_the_process_that_began_it(self):
        script = """
import os, plimsoll

with plimsoll.step("around") as step, step.phase("input"):
    child = os.fork()
    if not child:
        with plimsoll.step("of_the_child") as own, own.phase("sync"):
            pass
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
        with unix_socket() as listening:
            run(script, listening.path, listening)
            names = {"around": ["input", "other"], "of_the_child": ["sync", "other"]}
            counts = dict.fromkeys(names, 1)
            for name, phases in names.items():
                counts.update({f"{name}.{phase}{{class:{phase}}}": 1 for phase in phases})
            self.assertEqual(listening.read().counts(), counts)

    def test_a_step_that_never_ends_is_not_recorded(self):
        script = """
import os, plimsoll

with plimsoll.step("done") as step:
    pass
plimsoll.step("open").__enter__().phase("input").__enter__()
"""
        for end in ["", "plimsoll.flush()\nos._exit(0)"]:
            with self.subTest(end), unix_socket() as listening:
                run(script + end, listening.path, listening)
                counts = {"done": 1, "done.other{class:other}": 1}
                self.assertEqual(listening.read().counts(), counts)


if __name__ == "__main__":
    unittest.main()
