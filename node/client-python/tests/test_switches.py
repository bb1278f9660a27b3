"""What is off costs nothing and does nothing; only "1" switches on."""

import json
import unittest

from plimsoll.settings import Settings, from_environment

from .listening import enter, environment, run, unix_socket

PROBE = """
import json, os, plimsoll, threading

def function():
    pass

def use_everything():
    with plimsoll.timer("timer", k="v") as timer:
        timer.label(k="w")
        timer.tokens(3)
    with plimsoll.step("loop") as step, step.phase("input"):
        pass
    plimsoll.record("explicit", seconds=1)
    plimsoll.record_ns("explicit", 1)
    plimsoll.count("counter")
    plimsoll.gauge("gauge", 1)
    plimsoll.tokens("explicit", 5, seconds=1)
    plimsoll.end_read(plimsoll.start_read("shard"), size_bytes=5, rows=5)
    with plimsoll.read_shard("shard") as read:
        read.rows = 1
    with plimsoll.experiment("run") as e:
        with e.cycle(), e.time("step"):
            e.record_timing("other", seconds=1)
        e.record_memory_snapshot()
        written = e.export_json(os.environ["EXPORT"])
    return written

written = use_everything()
print(json.dumps({
    "untouched": plimsoll.timed("call")(function) is function,
    "threads": threading.active_count(),
    "written": written,
    "reads": plimsoll.shard_summary().reads,
}))
"""


class Switches(unittest.TestCase):
    """Each in an interpreter of its own, as the environment is read at import."""

    def probe(self, **switches):
        listening = enter(self, unix_socket())
        names = [f"PLIMSOLL_ENABLE{end}" for end in ("", "_TIMERS", "_SHARDS", "_EXPERIMENTS")]
        off = dict.fromkeys(names, "")
        export = f"{listening.path}.json"
        printed = run(PROBE, listening.path, **{**off, **switches}, EXPORT=export)
        listening.read()
        names = set(listening.latencies) | set(listening.counters) | set(listening.gauges)
        # Warnings are printed around it.
        [state] = [line for line in printed.splitlines() if line.startswith("{")]
        return json.loads(state), names

    def test_without_the_master_nothing_happens_at_all(self):
        off = {"untouched": True, "threads": 1, "written": False, "reads": 0}
        everything = {
            f"PLIMSOLL_ENABLE_{name}": "1" for name in ("TIMERS", "SHARDS", "EXPERIMENTS")
        }
        for master in ["", "0", "true", "yes", "on", " 1", "2"]:
            with self.subTest(master):
                self.assertEqual(self.probe(PLIMSOLL_ENABLE=master, **everything), (off, set()))

    def test_each_profiler_has_a_switch_of_its_own(self):
        explicit = {"explicit", "counter", "gauge", "explicit.tokens", "explicit.seconds"}
        timers = {"timer{k:w}", "timer.tokens{k:w}", "timer.seconds{k:w}"}
        timers |= {"loop", "loop.input{class:input}", "loop.other{class:other}"}
        shards = {"shard_read", "shard_read.bytes", "shard_read.rows"}
        shards |= {"profiler_shard_file_size:bytes", "profiler_shard_rows_processed:count"}
        table = [
            ("NONE", explicit),
            ("TIMERS", explicit | timers),
            ("SHARDS", explicit | shards),
            ("EXPERIMENTS", explicit | {"cycle", "step", "other", "process.resident_bytes"}),
        ]
        for name, expected in table:
            with self.subTest(name):
                state, names = self.probe(PLIMSOLL_ENABLE="1", **{f"PLIMSOLL_ENABLE_{name}": "1"})
                self.assertEqual(names, expected)
                self.assertEqual(state["untouched"], name != "TIMERS")
                self.assertEqual(state["written"], name == "EXPERIMENTS")
                self.assertEqual(state["reads"], 2 if name == "SHARDS" else 0)

    def test_code_wins_over_the_environment(self):
        with unix_socket() as listening:
            script = """
import sys, plimsoll
plimsoll.configure(enable=True, shards=False, socket=sys.argv[1])
plimsoll.timed("call")(int)()
plimsoll.end_read(plimsoll.start_read("shard"))
plimsoll.configure(enable=False)
plimsoll.record("late", seconds=1)
"""
            run(
                f"import sys; sys.argv[1:] = [{listening.path!r}]\n{script}",
                "/nonexistent",
                PLIMSOLL_ENABLE="0",
            )
            self.assertEqual(set(listening.read().latencies), {"call"})

    def test_nothing_in_the_environment_can_stop_a_job(self):
        bad = {"PLIMSOLL_FLUSH_MS": "soon", "PLIMSOLL_SOCKET": "udp://", "PLIMSOLL_ENABLE": "1"}
        for value in ["udp://x", "udp://127.0.0.1:99999", "x" * 500, "/dev/null", "/"]:
            run("import plimsoll; plimsoll.count('c')", value, **{**bad, "PLIMSOLL_SOCKET": value})
        settings = from_environment(bad)
        self.assertEqual(settings.flush_ms, 40)
        self.assertIn("PLIMSOLL_FLUSH_MS: 'soon'", settings.invalid_variables[0])

    def test_settings_in_code_are_checked_when_set(self):
        for flush_ms in [0, 9, 60_001]:
            with self.assertRaisesRegex(ValueError, "10 to 60000"):
                Settings().changed(flush_ms=flush_ms)
        on = Settings().changed(enable=True, timers=False, flush_ms=10)
        states = [on.enabled, on.timers, on.shards, on.experiments, on.flush_ms]
        self.assertEqual(states, [True, False, True, True, 10])
        self.assertEqual(on.changed(enable=False).changed(socket="s").socket, "s")

    def test_the_usual_variables_are_on_in_the_other_tests(self):
        self.assertTrue(from_environment(environment("x")).experiments)


if __name__ == "__main__":
    unittest.main()
