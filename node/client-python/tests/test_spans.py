"""Spans of timed scopes: kept in bounds, exported as Chrome's trace events."""

import asyncio
import gzip
import json
import os
import random
import tempfile
import threading
import time
import unittest
from unittest import mock

import plimsoll
from plimsoll import chrome_trace, limits, spans
from plimsoll.critical_path import critical, gaps
from plimsoll.spans import Lane, Ring, Span, Within

from .listening import Listening, enter, run
from .recording import Recording

MAIN = Lane(1, "main", "")
POOL = Lane(2, "pool", "")
OTHER = Lane(3, "other", "")
MS = 1_000_000


def span(name, begun_ms, ended_ms, lane=MAIN, root=1, own=0, origin=MAIN):
    bounds = round(begun_ms * MS), round(ended_ms * MS)
    return Span(name, "span", *bounds, lane, Within(root, origin), own, {})


def left_out(trace):
    """Names of the events that Perfetto leaves out, or moves to a row that it makes for them: its
    importer of JSON places spans by their start, of equal ones the longest first, by nanoseconds,
    and each must lie within those that are open, up to 512."""

    def ns(us):
        return int(us * 1_000) + (us * 1_000 % 1 >= 0.5)

    found, lanes = [], {}
    events = [of for of in trace["traceEvents"] if of["ph"] == "X"]
    for of in sorted(events, key=lambda of: (ns(of["ts"]), -ns(of["dur"]))):
        begun, dur = ns(of["ts"]), ns(of["dur"])
        ends = lanes.setdefault((of["pid"], of["tid"]), [])
        while ends and (ends[-1][0] < begun or ends[-1][0] == begun and (ends[-1][1] or dur)):
            ends.pop()
        if len(ends) >= 512 or ends and begun + dur > ends[-1][0] > begun:
            found.append(of["name"])
        else:
            ends.append((begun + dur, dur))
    return found


class Traced(Recording):
    """A process that keeps its spans."""

    def setUp(self):
        super().setUp()
        plimsoll.trace(seconds=60)
        self.addCleanup(plimsoll.trace, 0)

    def exported(self, suffix=".json"):
        """The object of a written file, with the events of spans by name."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace" + suffix)
            self.summary = plimsoll.export_trace(path)
            with (gzip.open if suffix.endswith(".gz") else open)(path, "rb") as file:
                trace = json.loads(file.read().decode("ascii"))
        timed = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(left_out(trace), [])
        # A busy machine adds some.
        self.gaps = [event for event in timed if event["cat"] == "gap"]
        self.events = [event for event in timed if event["cat"] != "gap"]
        self.names = {
            event["tid"]: event["args"]["name"]
            for event in trace["traceEvents"]
            if event["name"] == "thread_name"
        }
        return trace

    def of(self, name):
        return [event for event in self.events if event["name"] == name]

    def only(self, name):
        [event] = self.of(name)
        return event

    def test_each_kind_of_scope_is_one_span(self):
        @plimsoll.timed("call", zone="a")
        def call():
            time.sleep(0.002)

        @plimsoll.timed("paced", expected_interval_s=9)
        def paced():
            pass

        @plimsoll.timed("idle_call", cpu=True)
        def idle_call():
            pass

        call()
        paced()
        idle_call()
        with plimsoll.timer("block") as block:
            block.label(outcome="hit")
        with plimsoll.step("train") as step, step.phase("input"):
            pass
        with plimsoll.read_shard("shard-7"):
            pass
        with plimsoll.experiment("run").cycle():
            pass
        self.exported()
        found = {event["name"]: event["cat"] for event in self.events}
        expected = dict.fromkeys(["call", "paced", "idle_call", "block", "cycle"], "span")
        expected.update({"train": "step", "train.input": "phase", "shard_read": "span"})
        self.assertEqual(found, expected)
        self.assertEqual(self.only("call")["args"], {"zone": "a"})
        self.assertEqual(self.only("block")["args"], {"outcome": "hit"})
        self.assertEqual(self.only("shard_read")["args"], {"shard": "shard-7"})
        self.assertTrue(2_000 <= self.only("call")["dur"] < 1_000_000)

    def test_a_span_has_the_fields_of_the_format(self):
        before_s = time.time()
        with plimsoll.timer("block"):
            pass
        trace = self.exported()
        event = self.only("block")
        kinds = dict(name=str, cat=str, ph=str, pid=int, ts=float, dur=float, tid=int, args=dict)
        self.assertEqual({key: type(value) for key, value in event.items()}, kinds)
        self.assertEqual((event["pid"], event["tid"]), (os.getpid(), threading.get_native_id()))
        self.assertEqual(self.names[event["tid"]], threading.current_thread().name)
        unix_s = trace["baseTimeNanoseconds"] / 1e9 + event["ts"] / 1e6
        self.assertAlmostEqual(unix_s, before_s, delta=5)

    def test_compressed_files_hold_the_same(self):
        with plimsoll.timer("block"):
            pass
        self.exported(".json.gz")
        self.only("block")
        self.assertEqual(self.summary, (1, 0))

    def test_hostile_names_are_escaped(self):
        hostile = 'a"b\n</script>\udc80\x00é'
        with plimsoll.timer(hostile, key=hostile, **{"k\ud800": "v"}):
            pass
        self.exported()
        [event] = self.events
        replaced = hostile.replace("\udc80", "?")
        self.assertEqual(event["name"], replaced)
        self.assertEqual(event["args"], {"key": replaced, "k?": "v"})

    def test_spans_of_exceptions_end(self):
        @plimsoll.timed("raises")
        def raises():
            raise KeyboardInterrupt

        for scope in (plimsoll.timer("block"), plimsoll.step("train").phase("input")):
            with self.assertRaises(ValueError), scope:
                raise ValueError
        with self.assertRaises(KeyboardInterrupt):
            raises()
        with self.assertRaises(ValueError), plimsoll.step("train"):
            raise ValueError
        self.exported()
        self.assertEqual({of["name"] for of in self.events}, {"block", "raises", "train"})

    def test_each_thread_and_task_has_its_lane(self):
        def work(name):
            with plimsoll.timer(name):
                time.sleep(0.02)

        threads = [threading.Thread(target=work, args=(n,), name=f"T-{n}") for n in "ab"]

        async def task(name):
            with plimsoll.timer(name):
                await asyncio.sleep(0.02)

        async def main():
            await asyncio.gather(task("c"), task("d"))

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asyncio.run(main())
        self.exported()
        lanes = {event["name"]: event["tid"] for event in self.events}
        self.assertEqual(len(set(lanes.values())), 4)
        self.assertEqual(self.names[lanes["a"]], "T-a")
        self.assertRegex(self.names[lanes["c"]], r"^Task-\d+ \(MainThread\)$")
        self.assertGreaterEqual(lanes["c"], 1 << 22)

    def test_coroutines_generators_and_futures_are_spans(self):
        @plimsoll.timed("coroutine")
        async def coroutine():
            await asyncio.sleep(0.01)

        @plimsoll.timed("generator")
        def generator():
            yield 1
            yield 2

        @plimsoll.timed("async_generator")
        async def async_generator():
            yield 1

        @plimsoll.timed("future")
        def future():
            return asyncio.ensure_future(asyncio.sleep(0.01))

        async def main():
            await coroutine()
            async for _ in async_generator():
                pass
            await future()

        asyncio.run(main())
        self.assertEqual(list(generator()), [1, 2])
        self.exported()
        self.assertGreaterEqual(self.only("coroutine")["dur"], 10_000)
        self.assertGreaterEqual(self.only("future")["dur"], 10_000)
        # One for each time that it ran, the end included.
        self.assertEqual((len(self.of("generator")), len(self.of("async_generator"))), (3, 2))
        self.assertNotEqual(self.only("future")["tid"], self.only("coroutine")["tid"])

    def test_a_step_has_its_gaps_and_its_critical_path(self):
        def beside():
            with plimsoll.timer("beside"):
                time.sleep(0.03)

        thread = threading.Thread(target=beside)
        thread.start()
        with plimsoll.step("train") as step:
            with step.phase("input"), plimsoll.timer("read"):
                time.sleep(0.004)
            time.sleep(0.006)
            with step.phase("compute"):
                time.sleep(0.004)
        thread.join()
        self.exported()
        gap = max(self.gaps, key=lambda of: of["dur"])
        self.assertEqual((gap["name"], gap["tid"]), ("gap", self.only("train")["tid"]))
        self.assertGreaterEqual(gap["dur"], 6_000)
        marked = {event["name"] for event in self.events if event["args"].get("critical")}
        # Work of a thread that has nothing to do with the step does not bound it.
        self.assertEqual(marked, {"train.input", "read", "train.compute"})

    def test_nothing_is_kept_when_off(self):
        plimsoll.trace(0)
        self.assertEqual(spans.RINGS, [])
        with plimsoll.timer("block"):
            pass
        with self.assertRaisesRegex(RuntimeError, "PLIMSOLL_TRACE_SECONDS=60"):
            plimsoll.export_trace("/nowhere/trace.json")
        plimsoll.trace(60)
        self.exported()
        self.assertEqual(self.events, [])
        # The master switch ends it, and brings it back.
        plimsoll.configure(enable=False)
        self.assertEqual(spans.RINGS, [])
        plimsoll.configure(enable=True)
        self.assertEqual(len(spans.RINGS), 1)

    def test_other_settings_leave_kept_spans(self):
        with plimsoll.timer("block"):
            pass
        plimsoll.configure(labels={"run": "r7"})
        self.addCleanup(plimsoll.configure, labels={"run": None})
        self.exported()
        self.only("block")

    def test_seconds_out_of_bounds_are_refused(self):
        for seconds in (-1, 601):
            with self.subTest(seconds), self.assertRaisesRegex(ValueError, "0 to 600"):
                plimsoll.trace(seconds)

    def test_many_threads_lose_no_span(self):
        def work():
            for _ in range(500):
                with plimsoll.timer("block"):
                    pass

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.exported()
        self.assertEqual((len(self.of("block")), self.summary.dropped), (4_000, 0))


class Process(unittest.TestCase):
    """Processes of their own."""

    def setUp(self):
        self.node = Listening()
        self.addCleanup(self.node.close)

    def printed(self, program, **more):
        return run(program, self.node.address, self.node, **more).splitlines()

    def test_the_environment_switches_it_on(self):
        program = "from plimsoll import spans; print(len(spans.RINGS))"
        for value, switch, kept in [("5", "1", "1"), ("0", "1", "0"), ("5", "0", "0")]:
            with self.subTest(value):
                more = {"PLIMSOLL_TRACE_SECONDS": value, "PLIMSOLL_ENABLE_TIMERS": switch}
                self.assertEqual(self.printed(program, **more), [kept])
        program = "import plimsoll; from plimsoll import spans; print(len(spans.RINGS))"
        for wrong in ("1h", "601"):
            lines = self.printed(program, PLIMSOLL_TRACE_SECONDS=wrong)
            fault = f"PLIMSOLL_TRACE_SECONDS: '{wrong}' is no whole number of seconds from 0 to 600"
            self.assertIn(fault, lines[0])
            self.assertEqual(lines[-1], "0")

    def test_a_process_leaves_its_trace_in_a_folder_when_it_ends(self):
        program = "import plimsoll\nwith plimsoll.timer('block'): pass\nprint('end')"
        with tempfile.TemporaryDirectory() as folder:
            more = {"PLIMSOLL_TRACE_SECONDS": "60", "PLIMSOLL_TRACE_DIR": folder}
            self.assertEqual(self.printed(program, **more), ["end"])
            (name,) = os.listdir(folder)
            self.assertTrue(name.endswith(".trace.json.gz"), name)
            with gzip.open(os.path.join(folder, name)) as file:
                events = json.load(file)["traceEvents"]
            self.assertIn("block", [event["name"] for event in events])
            # Without spans there is no file, and without the folder a warning.
            more["PLIMSOLL_TRACE_SECONDS"] = "0"
            self.assertEqual(self.printed(program, **more), ["end"])
            self.assertEqual(os.listdir(folder), [name])
        more["PLIMSOLL_TRACE_SECONDS"] = "60"
        lines = self.printed(program, **more)
        self.assertIn("PLIMSOLL_TRACE_DIR: no trace in", "".join(lines))
        self.assertIn("end", lines)

    def test_a_forked_child_keeps_its_own_spans_alone(self):
        program = """
import json, os, threading, plimsoll
def names():
    path = "%s/%d.json" % (FOLDER, os.getpid())
    plimsoll.export_trace(path)
    events = json.load(open(path))["traceEvents"]
    own = os.getpid(), threading.get_native_id()
    events = [of for of in events if of["ph"] == "X" and of["cat"] != "gap"]
    return [of["name"] for of in events if (of["pid"], of["tid"]) == own]
with plimsoll.timer("before"):
    pass
with plimsoll.step("train") as step:
    with step.phase("input"):
        child = os.fork()
    with plimsoll.timer("after"):
        pass
if child:
    os.wait()
print(names(), flush=True)
if child == 0:
    os._exit(0)
"""
        with tempfile.TemporaryDirectory() as folder:
            program = f"FOLDER = {folder!r}\n{program}"
            lines = self.printed(program, PLIMSOLL_TRACE_SECONDS="60")
        # What the parent began is the parent's.
        self.assertEqual(lines, ["['after']", "['before', 'train', 'train.input', 'after']"])


class Bounds(unittest.TestCase):
    """A ring by itself."""

    def test_old_spans_go_and_are_not_dropped(self):
        enter(self, mock.patch.object(spans, "clock", lambda: 2_500 * MS))
        ring = Ring(1)
        for ended_ms in (100, 1_400, 1_500, 2_400):
            ring.add(span(str(ended_ms), 0, ended_ms))
        self.assertEqual([of.name for of in ring.spans()], ["1500", "2400"])
        self.assertEqual(ring.dropped, 0)

    def test_spans_beyond_the_number_are_dropped_and_counted(self):
        enter(self, mock.patch.object(spans, "clock", lambda: 100 * MS))
        enter(self, mock.patch.object(limits, "SPANS_MAX", 3))
        ring = Ring(1)
        for number in range(5):
            ring.add(span(str(number), 0, number))
        self.assertEqual([of.name for of in ring.spans()], ["2", "3", "4"])
        self.assertEqual(ring.dropped, 2)

    def test_spans_beyond_the_bytes_are_dropped_and_counted(self):
        enter(self, mock.patch.object(spans, "clock", lambda: 100 * MS))
        enter(self, mock.patch.object(limits, "SPAN_BYTES_MAX", 1_500))
        ring = Ring(1)
        for number in range(4):
            ring.add(span(str(number) * 100, 0, number))
        self.assertEqual([of.name[0] for of in ring.spans()], ["2", "3"])
        self.assertEqual(ring.dropped, 2)

    def test_labels_are_text_in_bounds_and_keep_no_object(self):
        ring = Ring(60)
        spans.RINGS.append(ring)
        self.addCleanup(spans.RINGS.remove, ring)
        labels = {f"k{number}": ["x" * 500] for number in range(40)}
        now_ns = time.perf_counter_ns()
        spans.note("n" * 500, now_ns, now_ns, {"class_": "sync", **labels})
        [found] = ring.spans()
        self.assertEqual((len(found.name), len(found.labels)), (128, limits.LABELS_MAX))
        self.assertEqual(found.labels["class"], "sync")
        self.assertTrue(all(type(of) is str and len(of) <= 128 for of in found.labels.values()))


class CriticalPath(unittest.TestCase):
    """The pure parts."""

    def marked(self, *found):
        path = critical(found)
        return [of.name for of in found if id(of) in path]

    def test_of_parallel_tasks_the_last_one_bounds(self):
        root = span("step", 0, 100, root=0, own=1)
        self.assertEqual(
            self.marked(
                span("short", 10, 50, POOL),
                span("long", 10, 90, OTHER),
                span("before", 0, 10),
                root,
            ),
            ["long", "before"],
        )

    def test_it_goes_down_into_what_a_span_waited_for(self):
        found = [
            span("inner", 20, 40, POOL),
            span("handed", 10, 60, POOL),
            span("aside", 12, 58, OTHER, origin=OTHER),
            span("waits", 5, 70),
            span("step", 0, 100, root=0, own=1),
        ]
        self.assertEqual(self.marked(*found), ["inner", "handed", "waits"])

    def test_spans_of_other_steps_do_not_count(self):
        found = [span("stranger", 80, 90, POOL, root=2), span("step", 0, 100, root=0, own=1)]
        self.assertEqual(self.marked(*found), [])

    def test_spans_of_equal_bounds_end(self):
        found = [span("inner", 0, 5), span("outer", 0, 5), span("step", 0, 5, root=0, own=1)]
        self.assertEqual(self.marked(*found), ["inner", "outer"])

    def test_a_path_in_one_lane_is_all_that_is_nested_there(self):
        # Of spans that follow each other and nest, each bounds the end: a naive model.
        chance = random.Random(7)
        for _ in range(50):
            found = []

            def nest(begun, ended, depth, found=found):
                while depth and ended - begun > 4 and chance.random() < 0.8:
                    first = chance.randint(begun, ended - 2)
                    last = chance.randint(first + 1, ended)
                    nest(first, last, depth - 1)
                    found.append(span(f"{first}-{last}", first, last))
                    begun = last

            nest(0, 200, 4)
            root = span("step", 0, 200, root=0, own=1)
            self.assertEqual(self.marked(*found, root), [of.name for of in found])
            covered = set()
            for of in found:
                covered |= set(range(of.begun_ns // MS, of.ended_ns // MS))
            waits = [(of.begun_ns // MS, of.ended_ns // MS) for of in gaps([*found, root])]
            open_ms = {ms for begun, ended in waits for ms in range(begun, ended)}
            self.assertEqual(open_ms, set(range(200)) - covered)

    def test_short_gaps_are_left_out(self):
        root = span("step", 0, 10, root=0, own=1)
        found = [span("a", 0.5, 4), span("b", 4.9, 8), root]
        self.assertEqual([(of.begun_ns, of.ended_ns) for of in gaps(found)], [(8 * MS, 10 * MS)])

    def test_spans_that_overlap_have_rows_of_their_own(self):
        found = [span("a", 0, 10), span("b", 5, 15), span("in b", 6, 14), span("c", 15, 20)]
        trace = chrome_trace.trace_events(found, 0)
        self.assertEqual(left_out(trace), [])
        tids = {of["name"]: of["tid"] for of in trace["traceEvents"] if of["ph"] == "X"}
        self.assertEqual((tids["a"], tids["b"]), (tids["c"], tids["in b"]))
        self.assertNotEqual(tids["a"], tids["b"])
        names = {of["tid"]: of["args"]["name"] for of in trace["traceEvents"] if of["ph"] == "M"}
        self.assertEqual((names[tids["a"]], names[tids["b"]]), ("main", "main +1"))
        enter(self, mock.patch.object(limits, "TRACE_ROWS_MAX", 2))
        many = [span(str(of), of, of + 100) for of in range(50)]
        tids = {of["tid"] for of in chrome_trace.trace_events(many, 0)["traceEvents"]}
        self.assertEqual(len(tids), 3, "two rows, and the process")

    def test_perfetto_leaves_out_no_span_whatever_overlaps(self):
        chance = random.Random(3)
        # The clock of a machine that has been up for more than half a year.
        boot_ns = 200 * 86_400_000 * MS
        for _ in range(200):
            times = [boot_ns + chance.randint(0, 10_000_000) for _ in range(20)]
            found = []
            for name in range(30):
                begun, ended = sorted(chance.choices(times, k=2))
                lane = chance.choice([MAIN, OTHER])
                found.append(span(str(name), 0, 0, lane)._replace(begun_ns=begun, ended_ns=ended))
            trace = chrome_trace.trace_events(found, 0)
            self.assertEqual(left_out(trace), [])
            self.assertEqual(sum(of["ph"] == "X" for of in trace["traceEvents"]), len(found))

    def test_files_have_no_lane_twice(self):
        names = [Lane(7, "main", ""), Lane(7, "main", "Task-1"), Lane(7, "main", "Task-2")]
        trace = chrome_trace.trace_events([span("a", 0, 1, lane) for lane in names], 3)
        tids = [event["tid"] for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(len(set(tids)), 3)
        self.assertEqual(trace["otherData"], {"dropped_spans": 3})


if __name__ == "__main__":
    unittest.main()
