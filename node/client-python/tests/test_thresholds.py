"""Thresholds on values of this process: judged in it, with a node and without one."""

import math
import os
import random
import threading
import unittest
from unittest import mock

import plimsoll
from plimsoll import limits
from plimsoll.callbacks import CALLBACKS
from plimsoll.thresholds import DEFAULTS

from .listening import DEADLINE_S, run, until
from .recording import Recording


class Thresholds(Recording):
    """Each test begins without thresholds."""

    def setUp(self):
        super().setUp()
        self.called = []
        self.addCleanup(self.forget)

    def forget(self):
        registry = plimsoll.CLIENT.registry
        registry.thresholds.clear()
        for series in registry.all():
            series.thresholds, series.over = (), frozenset()

    def judged(self, *expected):
        """After a flush these were called: state, severity and value."""
        self.received()
        until(f"{expected}, not {self.called}", lambda: len(self.called) >= len(expected))
        found = [(of.state, of.severity, of.value) for of in self.called]
        self.called.clear()
        self.assertEqual(found, list(expected))

    def test_a_gauge_is_called_for_when_it_crosses_and_when_it_returns(self):
        plimsoll.set_threshold("th gauge", 10, callback=self.called.append)
        for value, expected in [
            (10, []),
            (10.5, [("firing", "warning", 10.5)]),
            (99, []),
            (3, [("resolved", "warning", 3)]),
        ]:
            plimsoll.gauge("th gauge", value, node="a")
            self.judged(*expected)
        # The last one counts.
        plimsoll.gauge("th gauge", 99, node="a")
        plimsoll.gauge("th gauge", 2, node="a")
        plimsoll.gauge("th gauge", 11, node="b")
        self.received()
        until("the other one", lambda: self.called)
        labels = {"node": "b"}
        expected = plimsoll.Crossing("th_gauge", labels, "firing", 11, 10, "greater", "warning")
        self.assertEqual(self.called, [expected])

    def test_counters_are_judged_by_their_total_and_latencies_by_each_sample(self):
        for name, value, comparison in [
            ("th.count", 5, "greater"),
            ("th.slow", 0.1, "greater"),
            ("th.fast", 0.001, "less"),
            ("th.same", 0.25, "equal"),
        ]:
            plimsoll.set_threshold(
                name, value, comparison=comparison, severity="critical", callback=self.called.append
            )
        plimsoll.count("th.count", 3)
        self.judged()
        plimsoll.count("th.count", 3)
        self.judged(("firing", "critical", 6))
        for seconds in (0.01, 0.5, 0.02):
            plimsoll.record("th.slow", seconds=seconds)
        self.judged(("firing", "critical", 0.5))
        plimsoll.record("th.slow", seconds=0.1)
        self.judged(("resolved", "critical", 0.1))
        plimsoll.record_ns("th.fast", 999_999)
        self.judged(("firing", "critical", 0.000999999))
        for seconds in (0.125, 0.25, 0.5):
            plimsoll.record("th.same", seconds=seconds)
        self.judged(("firing", "critical", 0.25))
        plimsoll.record("th.same", seconds=0.5)
        self.judged(("resolved", "critical", 0.5))

    def test_a_function_that_was_timed_before_is_judged_too(self):
        call = plimsoll.timed("th.call")(int)
        call()
        self.judged()
        plimsoll.set_threshold("th.call", 0, callback=self.called.append)
        call()
        self.received()
        until("it is called", lambda: self.called)
        self.assertEqual((self.called[0].name, self.called[0].state), ("th.call", "firing"))

    def test_usual_thresholds_are_those_of_the_name(self):
        plimsoll.set_threshold("memory_percent", callback=self.called.append)
        plimsoll.set_threshold("cpu_temperature_celsius", severity="critical", callback=print)
        plimsoll.gauge("memory_percent", 90)
        self.judged(("firing", "warning", 90))
        plimsoll.gauge("memory_percent", 96)
        self.judged(("firing", "critical", 96))
        plimsoll.gauge("memory_percent", 85)
        self.judged(("resolved", "warning", 85), ("resolved", "critical", 85))
        [cpu] = plimsoll.CLIENT.registry.thresholds["cpu_temperature_celsius"]
        self.assertEqual((cpu.value, cpu.severity), (85, "critical"))
        self.assertEqual(DEFAULTS["gpu_temperature_celsius"], {"warning": 75})

    def test_another_one_with_the_same_severity_replaces_it(self):
        plimsoll.set_threshold("th.twice", 10, callback=self.called.append)
        plimsoll.gauge("th.twice", 20)
        self.judged(("firing", "warning", 20))
        plimsoll.set_threshold("th.twice", 15, callback=self.called.append)
        plimsoll.set_threshold("th.twice", 5, comparison="less", callback=self.called.append)
        plimsoll.gauge("th.twice", 21)
        self.judged(("firing", "warning", 21))
        series = plimsoll.CLIENT.registry.gauge("th.twice", {})
        self.assertEqual(len(series.over), 1)
        plimsoll.gauge("th.twice", 12)
        self.judged(("resolved", "warning", 12))

    def test_what_cannot_be_judged_is_named_with_its_fix(self):
        for arguments, keywords, words in [
            (("x",), {}, "'x' has no usual threshold: give value=; memory_percent, cpu_temp"),
            (("gpu_temperature_celsius",), {"severity": "critical"}, "severity='critical' of 'gpu"),
            (("x", math.nan), {}, "value=nan of 'x' is no finite number"),
            (("x", 1), {"comparison": ">"}, "none of greater, less, equal"),
            (("x", 1), {"severity": "bad"}, "none of info, warning, critical"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, words):
                plimsoll.set_threshold(*arguments, callback=print, **keywords)
        with self.assertRaisesRegex(TypeError, "value='5' of 'x' is text: give a number"):
            plimsoll.set_threshold("x", "5", callback=print)
        with self.assertRaisesRegex(TypeError, "wants a function"):
            plimsoll.set_threshold("x", 1, callback=None)
        for number in range(limits.THRESHOLDS_MAX):
            plimsoll.set_threshold(f"th{number}", 1, callback=print)
        plimsoll.set_threshold("th0", 2, callback=print)
        with self.assertRaisesRegex(ValueError, "more than 256 thresholds"):
            plimsoll.set_threshold("th0", 2, severity="info", callback=print)

    def test_a_callback_without_a_place_is_counted_and_called_for_by_the_next_value(self):
        hangs = threading.Event()
        plimsoll.set_threshold("th.hang", 1, callback=lambda _: hangs.wait(DEADLINE_S))
        plimsoll.set_threshold("th.next", 1, callback=self.called.append)
        plimsoll.gauge("th.hang", 2)
        self.received()
        until("it hangs", lambda: CALLBACKS._calls.qsize() == 0)
        dropped = plimsoll.stats().dropped["callbacks"]
        with mock.patch.object(limits, "CALLS_MAX", 0):
            plimsoll.gauge("th.next", 2)
            self.assertEqual(self.received().gauges["th.next"], 2)
        self.assertEqual(plimsoll.stats().dropped["callbacks"], dropped + 1)
        hangs.set()
        plimsoll.gauge("th.next", 3)
        self.judged(("firing", "warning", 3))

    def test_values_are_judged_without_a_node(self):
        plimsoll.set_threshold("th.alone", 0.1, callback=self.called.append)
        plimsoll.configure(socket=self.listening.path + ".absent")
        for seconds in (0.5, 0.05, 0.5):
            plimsoll.record("th.alone", seconds=seconds)
            # Without the warning of a flush that was asked for.
            self.assertIs(plimsoll.CLIENT._flush(0.1).outcome, "unreachable")
            until("it is judged", lambda: self.called)
            self.called.clear()
        plimsoll.configure(socket=self.listening.path)
        self.assertEqual(self.received().count("th.alone"), 3)

    def test_any_levels_are_judged_as_by_a_model(self):
        chance = random.Random(40)
        called = []
        post = mock.Mock(side_effect=lambda _, crossing: called.append(crossing) or True)
        with mock.patch.object(CALLBACKS, "post", post):
            for comparison, is_over in [
                ("greater", lambda value: value > 2),
                ("less", lambda value: value < 2),
                ("equal", lambda value: value == 2),
            ]:
                name = f"th.model.{comparison}"
                plimsoll.set_threshold(name, 2, comparison=comparison, callback=print)
                state, expected = False, []
                for _ in range(200):
                    values = [chance.randrange(5) for _ in range(chance.randrange(1, 4))]
                    for value in values:
                        plimsoll.gauge(name, value)
                    plimsoll.CLIENT.registry.gauge(name, {}).refill()
                    if is_over(values[-1]) != state:
                        state = not state
                        expected.append(("firing" if state else "resolved", values[-1]))
                self.assertEqual([(of.state, of.value) for of in called], expected)
                called.clear()
                self.assertGreater(len(expected), 20)


class Processes(unittest.TestCase):
    """Switches and forks."""

    def test_off_nothing_is_judged_and_a_forked_child_judges_anew(self):
        script = """
import os, sys, time, plimsoll
called = []
def wait():
    for _ in range(2_000):
        plimsoll.flush(0)
        time.sleep(0.01)
        if called:
            break
plimsoll.set_threshold("op", 1, callback=called.append)
plimsoll.gauge("op", 2)
plimsoll.configure(enable=True)
plimsoll.gauge("op", 3)
wait()
child = os.fork()
if child == 0:
    called.clear()
    plimsoll.gauge("op", 4)
    wait()
    os._exit(int(called[0].value))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), [of.value for of in called])
"""
        absent = os.path.join(os.sep, "absent", "socket")
        printed = run(script, absent, PLIMSOLL_ENABLE="0", PYTHONWARNINGS="ignore")
        self.assertEqual(printed, "4 [3.0]\n")
