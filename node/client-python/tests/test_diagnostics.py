"""Each silent dead end warns once, with its cause and its fix; what is off on purpose is silent."""

import os
import sys
import tempfile
import unittest
import warnings

import plimsoll
from plimsoll import limits
from plimsoll.diagnostics import Diagnostics
from plimsoll.settings import Settings

from .listening import Listening, enter, environment, run, run_command, unix_socket
from .recording import Recording

OFF = {key: "" for key in environment("") if key.startswith("PLIMSOLL_ENABLE")}
USES = {
    "timers": "plimsoll.timed('op')(int)()\nwith plimsoll.timer('op'): pass\n",
    "shards": "plimsoll.end_read(plimsoll.start_read('s'))\nwith plimsoll.read_shard('s'): pass\n",
    "experiments": "plimsoll.experiment('run').end()\n",
}
SWITCHES = {f"PLIMSOLL_ENABLE_{name.upper()}": "1" for name in USES}


class Environment(unittest.TestCase):
    """Interpreters of their own that show every warning, not each line's first alone."""

    def setUp(self):
        self.listening = enter(self, unix_socket())

    def warned(self, script, **variables):
        """Texts of all warnings of a script, in which nothing is on but what is given."""
        given = {**OFF, "PYTHONWARNINGS": "always", **variables}
        address = given.pop("PLIMSOLL_SOCKET", self.listening.path)
        printed = run(f"import plimsoll\n{script}", address, self.listening, **given)
        lines = printed.splitlines()
        return [line.split("PlimsollWarning: ")[1] for line in lines if "PlimsollWarning: " in line]

    def test_a_profiler_that_is_off_beside_the_master_warns_once_with_its_switch(self):
        for profiler, use in USES.items():
            with self.subTest(profiler):
                [warning] = self.warned(use * 3, PLIMSOLL_ENABLE="1")
                variable = f"PLIMSOLL_ENABLE_{profiler.upper()}=1"
                self.assertIn(f"{profiler} are off, so ", warning)
                code = f"plimsoll.configure({profiler}=True)"
                self.assertIn(f"set {variable}, or call {code}", warning)
                self.assertEqual(self.warned(use, PLIMSOLL_ENABLE="1", **SWITCHES), [])

    def test_a_profiler_without_the_master_warns_once_at_its_use_or_at_the_exit(self):
        for profiler, use in USES.items():
            for script in [use * 3, "plimsoll.count('c')"]:
                with self.subTest((profiler, script)):
                    switch = {f"PLIMSOLL_ENABLE_{profiler.upper()}": "1"}
                    [warning] = self.warned(script, **switch)
                    self.assertIn(f"{profiler} are on ({next(iter(switch))})", warning)
                    self.assertIn("the master switch is off", warning)
                    self.assertIn("set PLIMSOLL_ENABLE=1, or call", warning)
        in_code = f"plimsoll.configure(enable=True)\n{USES['timers']}"
        self.assertEqual(self.warned(in_code, PLIMSOLL_ENABLE_TIMERS="1"), [])

    def test_values_without_any_switch_warn_once_with_the_fix_and_how_to_be_silent(self):
        values = ["record('o', seconds=1)", "record_ns('o', 1)", "count('c')", "gauge('g', 1)"]
        values.append("tokens('o', 1, seconds=1)")
        uses = [*USES.values(), *(f"plimsoll.{value}\n" for value in values)]
        invalid = {"PLIMSOLL_FLUSH_MS": "soon", "PLIMSOLL_LABELS": "x"}
        for use in uses:
            with self.subTest(use):
                everything = use + "".join(uses) + "plimsoll.flush()"
                [warning] = self.warned(everything, **invalid, PLIMSOLL_SOCKET="tcp://x")
                self.assertIn("no switch is set, so nothing is recorded: set PLIMSOLL_ENA", warning)
                self.assertIn("or call plimsoll.configure(enable=True)", warning)
                self.assertIn("PLIMSOLL_ENABLE=0 keeps it off without this warning", warning)
        in_code = "plimsoll.configure(socket='/x')\nplimsoll.count('c')"
        self.assertEqual(len(self.warned(in_code)), 1)
        self.assertEqual(self.warned("plimsoll.flush()\nplimsoll.metrics_snapshot()"), [])

    def test_decorated_functions_without_any_switch_warn_at_the_exit(self):
        [warning] = self.warned("plimsoll.timed('op')(int)()")
        self.assertIn("(beside it PLIMSOLL_ENABLE_TIMERS=1)", warning)
        late = "plimsoll.timed('op')(int)()\nplimsoll.configure(enable=True)"
        [warning] = self.warned(late)
        self.assertIn("1 function was decorated with @timed while timers were off", warning)

    def test_what_is_switched_off_on_purpose_never_warns(self):
        everything = "\n".join(USES.values()) + "\nplimsoll.count('c')\nplimsoll.flush()"
        self.assertEqual(self.warned(everything, PLIMSOLL_ENABLE="0"), [])
        self.assertEqual(self.warned("plimsoll.configure(enable=False)\n" + everything), [])
        self.assertEqual(self.warned(everything, PLIMSOLL_ENABLE="0", **SWITCHES), [])
        zeros = dict.fromkeys(SWITCHES, "0")
        self.assertEqual(self.warned(everything, PLIMSOLL_ENABLE="1", **zeros), [])
        in_code = "plimsoll.configure(enable=True, timers=False)\n" + USES["timers"]
        self.assertEqual(self.warned(in_code), [])

    def test_an_invalid_switch_warns_with_the_value_that_is_valid(self):
        for name in OFF:
            for value in ["true", "yes", " 1"]:
                with self.subTest((name, value)):
                    [warning] = self.warned("", **{name: value})
                    fix = f'{name}={value!r} enables nothing, only "1" does: set {name}=1'
                    self.assertEqual(warning, f"plimsoll: {fix}")

    def test_an_invalid_variable_warns_once_it_is_in_use(self):
        table = [
            ("PLIMSOLL_FLUSH_MS", "soon", "'soon' is no whole number of milliseconds from 10 to"),
            ("PLIMSOLL_LABELS", "rank", "'rank' is not KEY=VALUE and is ignored: write PLIMSOLL_"),
            ("PLIMSOLL_SOCKET", "udp://x", "'udp://x' is not udp://host:port: write a path such"),
            ("PLIMSOLL_SOCKET", "unix:///run/x", "'unix:///run/x' has an unknown scheme: write"),
            ("PLIMSOLL_SOCKET", "x" * 108, "a path of more than 107 bytes is no address"),
        ]
        for name, value, text in table:
            with self.subTest(value):
                [warning] = self.warned("", PLIMSOLL_ENABLE="1", **{name: value})
                self.assertIn(f"{name}: {text}", warning)
                later = "print('before')\nplimsoll.configure(enable=True)"
                self.assertEqual(self.warned(later, **{name: value}), [warning])

    def test_timers_that_are_enabled_late_name_the_functions_that_stay_untouched(self):
        script = """
def plain(): pass
class Thing:
    @plimsoll.timed("op")
    @staticmethod
    def method(): pass
assert plimsoll.timed("op")(plain) is plain
plimsoll.configure(enable=True)
plimsoll.configure(enable=False)
plimsoll.configure(enable=True)
"""
        [warning] = self.warned(script)
        self.assertIn("2 functions were decorated with @timed while timers were off", warning)
        self.assertIn("record nothing: __main__.Thing.method, __main__.plain. Call plimsoll", warning)
        many = "for _ in range(1000): plimsoll.timed('op')(int)\n"
        many += "plimsoll.configure(enable=True)"
        [warning] = self.warned(many)
        self.assertIn("1000 functions were", warning)
        self.assertEqual(warning.count("builtins.int"), limits.UNDECORATED_NAMES_MAX)
        self.assertIn(" and 995 more. ", warning)

    def test_an_absent_node_warns_once_with_its_path_and_the_doctor(self):
        absent = os.path.join(os.path.dirname(self.listening.path), "absent.sock")
        table = [
            ("plimsoll.count('c')", "1 values were lost at the exit"),
            ("plimsoll.count('c')\nplimsoll.flush()\nplimsoll.flush()", "1 values wait"),
        ]
        for script, text in table:
            with self.subTest(script):
                variables = {"PLIMSOLL_ENABLE": "1", "PLIMSOLL_SOCKET": absent}
                [warning] = self.warned(script, **variables)
                self.assertIn(f"{text}: {absent}: [Errno 2] No such file", warning)
                self.assertIn(f"Start `plimsoll-node --unix {absent}`", warning)
                self.assertIn("`python -m plimsoll doctor`", warning)
                self.assertEqual(self.warned("plimsoll.flush()", **variables), [])
                self.assertEqual(self.warned(script, PLIMSOLL_ENABLE="1"), [])

    def test_a_process_that_never_flushes_warns_of_an_absent_node_too(self):
        script = """
import time, warnings
from plimsoll import limits
limits.ABSENT_WARN_S, limits.RETRY_S = 0.05, 0.02
shown = []
warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
plimsoll.count("c")
while not shown:
    time.sleep(0.005)
print(shown[0].replace("plimsoll: ", "PlimsollWarning: "))
"""
        warned = self.warned(script, PLIMSOLL_ENABLE="1", PLIMSOLL_SOCKET="/absent/node.sock")
        self.assertIn("values wait: /absent/node.sock: [Errno 2]", warned[0])

    def test_a_warning_points_at_the_line_that_called_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "job.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("import plimsoll\n\n@plimsoll.timed('op')\ndef call(): pass\n")
            on = {**OFF, "PLIMSOLL_ENABLE": "1"}
            printed = run_command([path], self.listening.path, **on)
            # Before Python 3.11 the call of a decorator has the line of its function.
            line = 3 if sys.version_info >= (3, 11) else 4
            self.assertIn(f"{path}:{line}: PlimsollWarning: plimsoll: timers are off", printed)
            quiet = {**OFF, "PLIMSOLL_ENABLE": "0", "PLIMSOLL_FLUSH_MS": "x"}
            self.assertEqual(run_command([path], self.listening.path, **quiet), "")
            printed = run_command([path], self.listening.path, **{**OFF, "PLIMSOLL_ENABLE": "on"})
            self.assertIn(f"{path}:1: PlimsollWarning: plimsoll: PLIMSOLL_ENABLE='on'", printed)

    def test_filters_that_raise_stop_neither_an_import_nor_an_exit(self):
        variables = {"PYTHONWARNINGS": "error", "PLIMSOLL_FLUSH_MS": "x", "PLIMSOLL_ENABLE": "1"}
        script = "plimsoll.count('c')"
        warned = self.warned(script, **variables, PLIMSOLL_SOCKET="/absent/node.sock")
        self.assertEqual(len(warned), 2)
        raising = "try:\n    plimsoll.timed('op')(int)\nexcept plimsoll.PlimsollWarning:\n    "
        raising += script
        unset = self.warned("plimsoll.count('c')\nprint('goes on')", PYTHONWARNINGS="error")
        self.assertEqual(len(unset), 1)
        self.assertEqual(len(self.warned(raising, **variables)), 1)
        self.assertEqual(self.listening.read().counters["c"], 1)


class Flushed(Recording):
    """The result of `flush`, for each outcome."""

    def outcome(self, timeout_s=10):
        result = plimsoll.flush(timeout_s)
        self.listening.read()
        return result.outcome, result.sent, result.queued, result.dropped, bool(result)

    def test_sent_counts_values_and_nothing_means_that_all_was_sent(self):
        self.received()
        for _ in range(3):
            plimsoll.record("op", seconds=1)
            plimsoll.count("c")
        plimsoll.gauge("g", 1)
        # The thread may have sent the first one by itself.
        self.assertIn(self.outcome(), [("sent", n, 0, 0, True) for n in range(1, 6)])
        self.assertEqual(self.outcome(), ("nothing", 0, 0, 0, True))
        self.assertEqual(plimsoll.flush().reason, "")

    def test_an_unreachable_node_keeps_the_values(self):
        self.received()
        self.listening.close()
        for _ in range(3):
            plimsoll.record("op", seconds=1)
        plimsoll.count("c", 5)
        with warnings.catch_warnings(record=True):
            result = plimsoll.flush(10)
        self.assertEqual((result.outcome, result.queued, bool(result)), ("unreachable", 4, False))
        self.assertIn(f"{self.listening.path}: [Errno 2]", result.reason)
        self.listening = Listening(self.listening.path)
        self.addCleanup(self.listening.close)
        self.assertEqual(self.outcome(), ("sent", 4, 0, 0, True))
        self.assertEqual(self.listening.counters["c"], 5)

    def test_a_node_that_does_not_read_is_a_timeout_that_keeps_the_values(self):
        self.received()
        for number in range(200):
            plimsoll.record_ns("op", 10**9 + number, label="x" * 100)
            result = plimsoll.flush(0.15)
            if not result:
                break
        self.assertEqual((result.outcome, bool(result)), ("timeout", False))
        self.assertGreater(result.queued, 0)
        self.assertIn(f"{self.listening.path}: the node does not read", result.reason)
        self.assertIn("Allow more time than flush(timeout_s=0.15)", result.reason)

    def test_dropped_values_are_reported_once_and_the_others_are_sent(self):
        self.received()
        plimsoll.record("op", seconds=-1)
        plimsoll.count("c", float("nan"))
        plimsoll.record("op", seconds=1)
        result = plimsoll.flush(10)
        self.assertEqual((result.outcome, result.dropped, bool(result)), ("dropped", 2, False))
        self.assertLessEqual(result.sent, 1)
        self.assertIn("2 values were dropped, reasons so far: value", result.reason)
        self.assertEqual(self.outcome(), ("nothing", 0, 0, 0, True))

    def test_a_client_that_is_off_is_disabled_and_sends_what_it_had(self):
        self.received()
        plimsoll.record("op", seconds=1)
        plimsoll.configure(enable=False)
        result = plimsoll.flush(10)
        self.assertEqual((result.outcome, result.queued, bool(result)), ("disabled", 0, False))
        self.assertIn("set PLIMSOLL_ENABLE=1, or call plimsoll.configure(", result.reason)
        self.assertEqual(self.listening.read().count("op"), 1)

    def test_a_program_whose_only_profiler_is_off_is_disabled_with_its_fix(self):
        with unix_socket() as listening:
            script = """
import plimsoll
plimsoll.timed("op")(int)()
result = plimsoll.flush()
print(result.outcome, bool(result), result.reason)
plimsoll.configure(timers=True)
print(plimsoll.flush().reason)
plimsoll.count("c")
print(bool(plimsoll.flush()))
"""
            variables = {**OFF, "PLIMSOLL_ENABLE": "1", "PYTHONWARNINGS": "ignore"}
            printed = run(script, listening.path, listening, **variables).splitlines()
        self.assertIn("disabled False timers are off, so @timed", printed[0])
        self.assertIn("1 function was decorated with @timed while timers were off", printed[1])
        self.assertEqual(printed[2], "True")


class State(unittest.TestCase):
    """The rules alone, without a process of their own."""

    def test_uses_are_watched_unless_everything_is_off_on_purpose(self):
        diagnostics = Diagnostics()
        for settings, expected in [
            (Settings(), True),
            (Settings().changed(enable=False), False),
            (Settings().changed(enable=True), True),
            (Settings().changed(timers=True), True),
            (Settings().changed(enable=True).changed(enable=False), True),
        ]:
            diagnostics.on_import(settings)
            self.assertEqual(diagnostics.is_watching, expected)


if __name__ == "__main__":
    unittest.main()
