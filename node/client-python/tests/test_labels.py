"""Default labels: on every series, from the moment of their change, and in worker processes."""

import collections
import os
import random
import tempfile
import threading
import unittest
from unittest import mock

import plimsoll
from plimsoll import limits
from plimsoll.link import Link
from plimsoll.registry import OVERFLOW, Registry
from plimsoll.sender import Sender
from plimsoll.settings import Settings, from_environment

from .listening import enter, run_command, unix_socket
from .recording import Recording

WORKER = """
import multiprocessing, os, sys
import plimsoll

def work():
    plimsoll.record("op", seconds=0.001)
    plimsoll.record("op", seconds=0.001, rank=5)

if __name__ == "__main__":
    plimsoll.configure(labels={"run": "r7", "rank": 3})
    context = multiprocessing.get_context(sys.argv[1])
    worker = context.Process(target=work)
    worker.start()
    worker.join()
    sys.exit(worker.exitcode)
"""


class Labelled(Recording):
    """The client of this process; each test begins and ends without default labels."""

    def setUp(self):
        super().setUp()
        variables = mock.patch.dict(os.environ)
        enter(self, variables)
        self.addCleanup(self.clear)

    def clear(self):
        names = [name for name, _ in plimsoll.CLIENT.settings.labels]
        plimsoll.configure(labels=dict.fromkeys(names))

    def test_every_kind_of_value_has_them_and_a_label_of_the_call_wins(self):
        plimsoll.configure(labels={"run": "r7", "rank": 3})
        plimsoll.timed("timed")(int)()
        with plimsoll.timer("timer", phase="train", rank=0) as timer:
            timer.label(run="mine")
        plimsoll.count("count")
        plimsoll.gauge("gauge", 1, rank=1)
        with self.assertRaises(OSError), plimsoll.read_shard("s"):
            raise OSError("x")
        with plimsoll.experiment("e", rank=2) as run, run.time("step"):
            pass
        received = self.received()
        self.assertEqual(
            {series: received.count(series) for series in received.latencies},
            {
                "timed{rank:3,run:r7}": 1,
                "timer{phase:train,rank:0,run:mine}": 1,
                "shard_read{rank:3,run:r7}": 1,
                "step{rank:2,run:r7}": 1,
            },
        )
        counters = {"count{rank:3,run:r7}": 1, "shard_read.errors{rank:3,run:r7}": 1}
        self.assertEqual(dict(received.counters), counters)
        self.assertEqual(received.gauges, {"gauge{rank:1,run:r7}": 1})

    def test_a_change_applies_to_what_is_recorded_after_it(self):
        call = plimsoll.timed("call", phase="x")(int)
        timer = plimsoll.timer("timer")
        plain = plimsoll.CLIENT.registry.latency("call", {"phase": "x"})
        for run in ["a", "b", "a"]:
            plimsoll.configure(labels={"run": run})
            for _ in range(10):
                call()
            with timer:
                plimsoll.count("changes", 2)
            plimsoll.gauge("g", ord(run))
        # The call's series is the same object, so that the call itself does nothing for labels.
        self.assertIs(plimsoll.CLIENT.registry.latency("call", {"phase": "x"}), plain)
        received = self.received()
        self.assertEqual(
            {series: received.count(series) for series in received.latencies},
            {
                "call{phase:x,run:a}": 20,
                "call{phase:x,run:b}": 10,
                "timer{run:a}": 2,
                "timer{run:b}": 1,
            },
        )
        self.assertEqual(dict(received.counters), {"changes{run:a}": 4, "changes{run:b}": 2})
        self.assertEqual(received.gauges, {"g{run:a}": ord("a"), "g{run:b}": ord("b")})
        self.assertEqual(plimsoll.get_summary_stats("call", phase="x", run="a")["count"], 20)
        self.assertEqual(plimsoll.metrics_snapshot()["changes"]["total"], 6)

    def test_code_adds_to_them_replaces_one_and_removes_one(self):
        plimsoll.configure(labels={"run": "r7", "rank": 3})
        plimsoll.configure(labels={"rank": None, "run": "r8", "class_": "a,b|c"})
        self.assertEqual(os.environ["PLIMSOLL_LABELS"], "class=a_b_c,run=r8")
        plimsoll.count("c")
        self.assertEqual(dict(self.received().counters), {"c{class:a_b_c,run:r8}": 1})
        for labels in [{"": 1}, {3: 1}, {f"k{n}": n for n in range(limits.LABELS_MAX)}]:
            with self.assertRaisesRegex(ValueError, "^labels: "):
                plimsoll.configure(labels=labels)

    def test_an_event_has_them_too(self):
        from plimsoll.events import send_event

        plimsoll.configure(labels={"run": "r7"})
        send_event("title", "text", "info", {"operation": "op"})
        plimsoll.count("c")
        self.assertEqual(
            [event.split("|#")[1] for event in self.received().events], ["operation:op,run:r7"]
        )

    def test_threads_that_record_while_labels_change_lose_nothing(self):
        is_over = threading.Event()
        calls = []

        def record():
            call = plimsoll.timed("op")(int)
            number = 0
            while not is_over.is_set():
                call()
                number += 1
            calls.append(number)

        threads = [threading.Thread(target=record) for _ in range(3)]
        with self.listening.reading():
            for thread in threads:
                thread.start()
            for number in range(30):
                plimsoll.configure(labels={"run": number % 7})
            is_over.set()
            for thread in threads:
                thread.join()
            while not plimsoll.flush():
                pass
        self.assertEqual(self.listening.samples(), sum(calls))
        self.assertEqual(plimsoll.CLIENT.registry.cells, 0)


class Inherited(unittest.TestCase):
    """Workers of multiprocessing, and variables."""

    def test_workers_inherit_them_however_they_are_started(self):
        for method in ["fork", "spawn", "forkserver"]:
            with self.subTest(method), unix_socket() as listening:
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "job.py")
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(WORKER)
                    run_command([path, method], listening.path, listening)
                received = listening.read()
                counts = {series: received.count(series) for series in received.latencies}
                self.assertEqual(counts, {"op{rank:3,run:r7}": 1, "op{rank:5,run:r7}": 1})

    def test_the_variable_is_read_and_its_invalid_parts_are_reported(self):
        table = [
            ("run=r7,rank=3", {"run": "r7", "rank": "3"}, 0),
            (" run = a=b|c , class_=llm,,", {"run": "a=b_c", "class": "llm"}, 0),
            ("run", {}, 1),
            ("=x,run=r7", {"run": "r7"}, 1),
            (",".join(f"k{n}={n}" for n in range(18)), {f"k{n}": str(n) for n in range(16)}, 2),
            ("x," * 1_000, {}, limits.FAULTS_MAX),
        ]
        for text, labels, faults in table:
            with self.subTest(text[:30]):
                settings = from_environment({"PLIMSOLL_LABELS": text})
                self.assertEqual(dict(settings.labels), labels)
                self.assertEqual(len(settings.invalid_variables), faults)
        [fault] = from_environment({"PLIMSOLL_LABELS": "rank"}).invalid_variables
        fix = "'rank' is not KEY=VALUE and is ignored: write PLIMSOLL_LABELS=run=r7,rank=3"
        self.assertEqual(fault, f"PLIMSOLL_LABELS: {fix}")
        changed = from_environment({"PLIMSOLL_LABELS": "run=r7"}).changed(labels={"rank": 3})
        self.assertEqual(changed.labels, (("rank", "3"), ("run", "r7")))
        self.assertEqual(Settings().changed(enable=True).labels, ())


class Moves(unittest.TestCase):
    """One registry and one sender, without a thread: what becomes of values when labels change."""

    def setUp(self):
        self.listening = enter(self, unix_socket())
        self.registry = Registry(lambda: None)
        self.registry.wake()
        self.sender = Sender(self.registry, Link(self.listening.path))
        self.addCleanup(lambda: self.sender.link.close())

    def flush(self):
        with self.listening.reading():
            while self.sender.flush().value != "sent":
                pass
        return self.listening

    def test_labels_of_the_call_have_their_place_before_default_ones(self):
        self.registry.relabel(tuple((f"a{n:02}", "d") for n in range(limits.LABELS_MAX)))
        own = {f"z{n}": "own" for n in range(3)}
        self.registry.latency("op", own).add(1)
        [series] = self.flush().latencies
        tags = dict(tag.split(":") for tag in series[3:-1].split(","))
        self.assertEqual(len(tags), limits.LABELS_MAX)
        self.assertEqual({key: tags[key] for key in own}, own)
        self.assertEqual(sum(value == "d" for value in tags.values()), limits.LABELS_MAX - 3)

    def test_whatever_the_order_each_value_has_the_labels_of_its_moment(self):
        for seed in range(10):
            with self.subTest(seed):
                self.run_schedule(random.Random(seed))
                self.doCleanups()
                self.setUp()

    def run_schedule(self, chance):
        expected, amounts = collections.Counter(), collections.Counter()
        tags = ""
        for _ in range(200):
            action = chance.choice(["latency", "latency", "count", "relabel", "flush", "fold"])
            name = chance.choice("ab")
            if action == "latency":
                values = [chance.randrange(10**9) for _ in range(chance.randrange(40))]
                for value in values:
                    self.registry.latency(name, {}).add(value)
                expected[name + tags] += len(values)
            elif action == "count":
                self.registry.counter(name, {}).add(2)
                amounts[name + tags] += 2
            elif action == "relabel":
                run = chance.choice("xyz")
                tags = f"{{run:{run}}}"
                self.registry.relabel((("run", run),))
            elif action == "flush":
                self.flush()
            else:
                for series in self.registry.all():
                    series.settle(series.take(10))
        received = self.flush()
        counts = {series: received.count(series) for series in received.latencies}
        self.assertEqual(counts, dict(+expected))
        self.assertEqual(dict(received.counters), dict(amounts))
        self.assertEqual((self.registry.cells, self.registry.held()), (0, 0))
        latencies = [series for series in self.registry.all() if hasattr(series, "recorded")]
        recorded = sum(len(series.recorded) for series in latencies)
        self.assertEqual(recorded, self.registry.recorded_cells)
        samples = sum(cell[0] for series in latencies for cell in series.samples()[0].values())
        self.assertEqual(samples, sum(expected.values()))

    def test_beyond_the_bound_former_series_are_merged_into_other(self):
        for name in ["a", "b"]:
            self.registry.latency(name, {})
        runs = limits.FORMER_SERIES_MAX // 2 + 50
        for run in range(runs):
            self.registry.relabel((("run", str(run)),))
            self.registry.latency("a", {}).add(run)
            self.registry.counter("b", {}).add(1)
            self.registry.gauge("g", {}).add(run)
        self.registry.relabel(())
        self.assertLessEqual(len(self.registry.all()), limits.FORMER_SERIES_MAX + 20)
        received = self.flush()
        self.assertEqual(received.samples(), runs)
        dropped = self.registry.dropped()["series"]
        self.assertEqual(sum(received.counters.values()), runs + dropped)
        other = [series for series in self.registry.all() if series.name == OVERFLOW]
        latencies = [series for series in other if hasattr(series, "recorded")]
        samples = sum(cell[0] for series in latencies for cell in series.samples()[0].values())
        self.assertGreater(samples, 50)


if __name__ == "__main__":
    unittest.main()
