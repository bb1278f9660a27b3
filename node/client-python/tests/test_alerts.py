"""Alerts in the job: read once, and followed through whatever an aggregator does."""

import contextlib
import math
import os
import random
import socket
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

import plimsoll
from plimsoll import aggregator, alerts, limits
from plimsoll.callbacks import CALLBACKS

from .aggregating import Aggregating, row
from .listening import DEADLINE_S, enter, run, until
from .recording import Recording

FAST = {
    "ALERTS_READ_EVERY_S": 0.0,
    "ALERTS_READ_SHARE": 1.0,
    "STREAM_RETRY_MIN_S": 0.02,
    "STREAM_RETRY_MAX_S": 0.05,
    "STREAM_SILENCE_S": 0.3,
}


def seen(called):
    return [(alert.node, alert.state, alert.since) for alert in called]


class Following(Recording):
    """A watch of an aggregator, both in this process."""

    def setUp(self):
        super().setUp()
        for name, value in FAST.items():
            enter(self, mock.patch.object(limits, name, value))
        enter(self, mock.patch.dict(os.environ))
        os.environ.pop("PLIMSOLL_TOKEN", None)
        self.aggregating = Aggregating()
        enter(self, self.aggregating)
        self.called = []

    def watch(self, callback=None, **more):
        url = self.aggregating.url
        watch = plimsoll.on_alert(callback or self.called.append, url=url, **more)
        self.addCleanup(watch.stop)
        until("the first list", lambda: watch.reads)
        return watch

    def await_calls(self, *expected):
        until(f"{expected}, not {self.called}", lambda: len(self.called) >= len(expected))
        self.assertEqual(seen(self.called), list(expected))

    def test_an_alert_is_passed_on_when_it_fires_and_when_it_ends(self):
        os.environ.update(PLIMSOLL_URL=self.aggregating.url, PLIMSOLL_TOKEN="secret")
        watch = plimsoll.on_alert(self.called.append, severity="critical")
        self.addCleanup(watch.stop)
        until("the first list", lambda: watch.reads)
        self.aggregating.rows = [row(1, state="pending")]
        self.aggregating.rows = [row(1, since_seconds=1_001.0)]
        until("it fires", lambda: self.called)
        [alert] = self.called
        self.assertEqual((alert.rule, alert.operation), ("epoch_hook", "epoch_hook"))
        self.assertEqual((alert.scope, alert.node, alert.severity), ("node", "n1", "critical"))
        self.assertEqual((alert.state, alert.since), ("firing", 1_001.0))
        self.assertEqual(alert.firing_since, 1_000.0)
        self.assertEqual(alert.evidence["limit_seconds"], 0.01)
        self.assertEqual((alert.summary, alert.fields["rule"]), ("p99 of n1 is 30 ms", alert.rule))
        self.aggregating.rows = [row(1, state="resolved", since_seconds=1_002.0)]
        self.await_calls(("n1", "firing", 1_001.0), ("n1", "resolved", 1_002.0))
        self.aggregating.rows = []
        self.aggregating.rows = [row(2, scope="fleet")]
        until("another one fires", lambda: len(self.called) == 3)
        self.assertEqual((self.called[2].scope, self.called[2].node), ("fleet", ""))
        lists = {path for path in self.aggregating.paths if "stream" not in path}
        self.assertEqual(lists, {"/api/v1/alerts?severity=critical"})
        self.assertEqual(self.aggregating.tokens, {"Bearer secret"})
        self.assertEqual(watch.fault, "")

    def test_those_that_fire_come_first_and_those_that_ended_before_do_not(self):
        self.aggregating.rows = [row(1), row(2, state="resolved"), row(3, state="pending")]
        self.watch()
        self.aggregating.rows = [row(1), row(4, state="resolved", since_seconds=1_009.0)]
        # It fired and ended between two reads.
        self.await_calls(("n1", "firing", 1_000.0), ("n4", "resolved", 1_009.0))

    def test_a_restart_of_the_aggregator_repeats_nothing_and_loses_nothing(self):
        self.aggregating.rows = [row(1), row(2)]
        watch = self.watch()
        self.await_calls(("n1", "firing", 1_000.0), ("n2", "firing", 1_000.0))
        self.aggregating.__exit__()
        until("it is away", lambda: watch.fault)
        # It reads what came before its start: what is missing may come yet.
        self.aggregating.rows, self.aggregating.ready = [row(2)], False
        self.aggregating.__enter__()
        reads = watch.reads
        until("a list of the new one", lambda: watch.reads > reads and not watch.fault)
        self.assertEqual(len(self.called), 2)
        self.aggregating.ready = True
        until("the other one is gone", lambda: len(self.called) == 3)
        gone = self.called[2]
        self.assertEqual((gone.node, gone.state, gone.fields), ("n1", "inactive", {}))

    def test_garbage_is_a_fault_and_followed_by_what_is_right_again(self):
        watch = self.watch()
        pulse = b'event: pulse\ndata: {"ready":true}\n\n'
        table = [
            ("stream_bytes", b"\x00\xff garbage \r\n\r\n", "has ended"),
            ("stream_bytes", b"event: pulse\ndata: {\n\n", "JSONDecodeError"),
            ("stream_bytes", b"event: pulse\ndata: 7\n\n", "TypeError"),
            ("stream_bytes", pulse + b"event: pu", "half a line"),
            ("stream_bytes", b"x" * 100_000, "half a line"),
            ("stream_status", 503, "503: no: give the token"),
            ("list_bytes", b"<html>", "no list of alerts"),
            ("list_bytes", b"", "no list of alerts"),
            ("list_bytes", b'{"mesh":"m","at_seconds":1.0,"ready":true,"alerts":[{"ru', "no alert"),
            ("list_bytes", b'{"at_seconds":1.0,"ready":true,"alerts":[{"rule":1}]}', "no alert"),
            ("list_bytes", b'{"at_seconds":1.0,"ready":true,"alerts":[' + b"[" * 9_999, "no alert"),
            ("list_bytes", b'{"at_seconds":NaN,"ready":true,"alerts":[]}', "nan is no time"),
            ("list_status", 401, "401: no: give the token"),
        ]
        for number, (field, value, fault) in enumerate(table):
            before = getattr(self.aggregating, field)
            found = []
            with mock.patch.object(watch, "_on_fault", found.append):
                setattr(self.aggregating, field, value)
                # A stream that goes on reads no list: it is opened anew.
                self.aggregating.rows = [row(0, since_seconds=float(number))]
                self.aggregating.__exit__()
                self.aggregating.__enter__()
                until(fault, lambda found=found, fault=fault: any(fault in of for of in found))
                setattr(self.aggregating, field, before)
            until("it is followed", lambda number=number: self.is_last(number))
        self.assertEqual(len(set(seen(self.called))), len(self.called))

    def is_last(self, since):
        return bool(self.called) and self.called[-1].since == float(since)

    def test_the_list_is_read_when_an_event_states_a_change_and_not_otherwise(self):
        watch = self.watch()
        pulses = mock.Mock(side_effect=self.aggregating.is_over.wait)
        with mock.patch.object(self.aggregating, "wait", pulses):
            until("fifty events", lambda: pulses.call_count > 50)
        self.assertEqual(watch.reads, 1)

    def test_without_a_stream_changes_are_read_at_each_attempt(self):
        self.aggregating.stream_status = 429
        watch = self.watch()
        self.aggregating.rows = [row(1)]
        self.await_calls(("n1", "firing", 1_000.0))
        self.assertEqual(watch.fault, "")

    def test_a_silent_stream_is_opened_again(self):
        is_silent = threading.Event()
        events = mock.Mock(side_effect=lambda: iter([is_silent.wait(DEADLINE_S) or b"x"]))
        with mock.patch.object(self.aggregating, "events", events):
            watch = self.watch()
            self.aggregating.rows = [row(1)]
            self.await_calls(("n1", "firing", 1_000.0))
            self.assertGreater(self.aggregating.paths.count("/api/v1/stream"), 1)
            watch.stop()
            is_silent.set()

    def test_a_callback_that_raises_is_counted_and_warned_of_once(self):
        raised = plimsoll.stats().raised

        def fail(alert):
            self.called.append(alert)
            raise SystemExit(3)

        with mock.patch.object(plimsoll.client.DIAGNOSTICS, "_warned", set()):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.aggregating.rows = [row(1), row(2)]
                self.watch(fail)
                until("both were called", lambda: plimsoll.stats().raised == raised + 2)
                self.aggregating.rows = [row(1), row(2, state="resolved", since_seconds=1_001.0)]
                until("the next one", lambda: plimsoll.stats().raised == raised + 3)
        texts = [str(warning.message) for warning in caught]
        self.assertEqual(len(texts), 1, texts)
        self.assertIn("fail raised SystemExit(3)", texts[0])

    def test_a_callback_that_hangs_delays_calls_alone(self):
        hangs = threading.Event()

        def hang(alert):
            hangs.wait(DEADLINE_S)
            self.called.append(alert)

        dropped = plimsoll.stats().dropped["callbacks"]
        for name, value in {"CALLS_MAX": 2, "CALLS_WAIT_S": 0.05}.items():
            enter(self, mock.patch.object(limits, name, value))
        self.aggregating.rows = [row(number) for number in range(5)]
        watch = self.watch(hang)
        # One is called and two wait.
        until("calls without a place", lambda: plimsoll.stats().dropped["callbacks"] > dropped)
        plimsoll.record("op", seconds=0.001)
        self.assertEqual(self.received().count("op"), 1)
        self.aggregating.rows[3] = row(3, since_seconds=1_001.0)
        self.aggregating.rows[4] = row(4, since_seconds=1_002.0)
        reads = watch.reads
        until("further reads", lambda: watch.reads > reads + 1)
        self.assertEqual(self.called, [])
        hangs.set()
        self.await_calls(
            ("n0", "firing", 1_000.0),
            ("n1", "firing", 1_000.0),
            ("n2", "firing", 1_000.0),
            ("n3", "firing", 1_001.0),
            ("n4", "firing", 1_002.0),
        )

    def test_ten_thousand_alerts_come_once_each(self):
        self.aggregating.rows = [row(number) for number in range(10_000)]
        self.watch()
        until("all of them", lambda: len(self.called) >= 10_000)
        self.aggregating.rows = []
        until("all ends", lambda: len(self.called) >= 20_000)
        self.assertEqual(len({alert.key for alert in self.called[:10_000]}), 10_000)
        self.assertEqual({alert.state for alert in self.called[10_000:]}, {"inactive"})

    def test_a_watch_that_is_stopped_makes_room_for_another_one(self):
        watches = [self.watch() for _ in range(limits.WATCHES_MAX)]
        with self.assertRaisesRegex(ValueError, "more than 8 watches"):
            plimsoll.on_alert(print, url=self.aggregating.url)
        watches[0].stop()
        self.watch()

    def test_any_schedule_passes_each_change_on_once_and_ends_with_the_truth(self):
        for seed in range(200):
            chance = random.Random(seed)
            watch = alerts.AlertWatch(mock.sentinel.aggregator, None, None)
            called, truth = [], {}
            for now in range(30):
                for number in range(3):
                    if chance.random() < 0.3:
                        state = chance.choice(["firing", "resolved", "pending", None])
                        truth[number] = (state, float(now))
                has_room = chance.random() < 0.7 or now == 29
                rows = [
                    alerts._alert(row(number, state=state, since_seconds=since))
                    for number, (state, since) in truth.items()
                    if state
                ]
                page = alerts._Page(now == 29 or chance.random() < 0.8, float(now), iter(rows))
                post = self.post(called, has_room, chance)
                with mock.patch.object(CALLBACKS, "post", post), mock.patch.object(
                    limits, "CALLS_WAIT_S", 0
                ), mock.patch.object(limits, "CALLS_POLL_S", 0):
                    watch.reads += watch._pass_on(page)
            with self.subTest(seed=seed):
                found = seen(called)
                self.assertEqual(len(set(found)), len(found))
                last = {node: (state, since) for node, state, since in found}
                for number, (state, since) in truth.items():
                    if state == "firing":
                        self.assertEqual(last[f"n{number}"], (state, since))
                    elif state != "pending":
                        self.assertNotEqual(last.get(f"n{number}", ("none",))[0], "firing")

    @staticmethod
    def post(called, has_room, chance):
        def post(_callback, alert):
            if has_room or chance.random() < 0.5:
                called.append(alert)
                return True
            return False

        return post


class Reading(unittest.TestCase):
    """`get_alerts`, and how an aggregator is found."""

    def setUp(self):
        enter(self, mock.patch.dict(os.environ))
        for name in ("PLIMSOLL_URL", "PLIMSOLL_TOKEN", "PLIMSOLL_CA_FILE"):
            os.environ.pop(name, None)
        self.aggregating = enter(self, Aggregating())

    def test_the_list_is_read_whole_or_of_one_severity(self):
        self.aggregating.rows = [row(1), row(2, state="pending")]
        found = plimsoll.get_alerts(url=self.aggregating.url + "/")
        self.assertEqual(seen(found), [("n1", "firing", 1_000.0), ("n2", "pending", 1_000.0)])
        os.environ["PLIMSOLL_URL"] = self.aggregating.url
        plimsoll.get_alerts("info")
        paths = ["/api/v1/alerts", "/api/v1/alerts?severity=info"]
        self.assertEqual(self.aggregating.paths, paths)

    def test_what_cannot_be_used_is_named_with_its_fix(self):
        for arguments, words in [
            ({}, "no aggregator: give url=, or set PLIMSOLL_URL"),
            ({"url": "127.0.0.1:9900"}, "write one such as http://127.0.0.1:9900"),
            ({"url": "ftp://a"}, "is no URL of an aggregator"),
            ({"url": "http://"}, "is no URL of an aggregator"),
            ({"url": "http://a:b"}, "is no URL of an aggregator"),
            ({"url": "http://[::1"}, "is no URL of an aggregator"),
            ({"url": "http://user:word@a"}, "is no URL of an aggregator"),
            ({"url": "http://a/\r\nX: y"}, "is no URL of an aggregator"),
            ({"severity": "urgent"}, "none of info, warning, critical"),
        ]:
            for call in (plimsoll.get_alerts, on_alert):
                expected = self.assertRaisesRegex(ValueError, words)
                with self.subTest(arguments=arguments, call=call), expected:
                    call(**arguments)
        with self.assertRaisesRegex(TypeError, "wants a function"):
            plimsoll.on_alert("print")

    def test_a_token_is_of_a_file_that_others_cannot_read(self):
        url = self.aggregating.url
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "token")
            with open(path, "w", encoding="ascii") as file:
                file.write(" of the file\n")
            os.chmod(path, 0o644)
            with self.assertRaisesRegex(ValueError, "everyone can access it .*: chmod 0600"):
                plimsoll.get_alerts(url=url, token_file=path)
            os.chmod(path, 0o600)
            os.environ["PLIMSOLL_TOKEN"] = "of the variable"
            plimsoll.get_alerts(url=url, token_file=path)
            plimsoll.get_alerts(url=url)
            # That of the packages goes to this machine alone.
            os.environ.pop("PLIMSOLL_TOKEN")
            with mock.patch.object(aggregator, "TOKEN_OF_THIS_MACHINE", path):
                own = aggregator.find("http://localhost:1", None).headers
                others = aggregator.find("http://127.0.0.1.example", None).headers
            with self.assertRaises(OSError):
                plimsoll.get_alerts(url=url, token_file=path + ".absent")
        self.assertEqual(self.aggregating.tokens, {"Bearer of the file", "Bearer of the variable"})
        self.assertEqual((own, others), ({"Authorization": "Bearer of the file"}, {}))
        os.environ["PLIMSOLL_TOKEN"] = "a\nb"
        with self.assertRaisesRegex(ValueError, "PLIMSOLL_TOKEN has no token"):
            plimsoll.get_alerts(url=url)
        os.environ["PLIMSOLL_CA_FILE"] = "/absent"
        os.environ["PLIMSOLL_TOKEN"] = ""
        with self.assertRaisesRegex(ValueError, "PLIMSOLL_CA_FILE '/absent' cannot be used"):
            plimsoll.get_alerts(url="https://127.0.0.1:1")

    def test_an_aggregator_that_does_not_answer_is_an_error_of_its_own(self):
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            absent = f"http://127.0.0.1:{bound.getsockname()[1]}"
            with self.assertRaisesRegex(plimsoll.AggregatorError, f"{absent}: .*refused"):
                plimsoll.get_alerts(url=absent)
            bound.listen()
            with self.assertRaisesRegex(plimsoll.AggregatorError, "timed out"):
                plimsoll.get_alerts(url=absent, timeout_s=0.05)
        self.aggregating.list_status = 403
        with self.assertRaisesRegex(plimsoll.AggregatorError, "alerts: 403: no: give the token"):
            plimsoll.get_alerts(url=self.aggregating.url)
        self.aggregating.list_status, self.aggregating.list_bytes = 404, b""
        with self.assertRaisesRegex(plimsoll.AggregatorError, "404: Not Found; .* is url= the"):
            plimsoll.get_alerts(url=self.aggregating.url)
        for timeout_s in (0, -1, math.nan, "5"):
            with self.assertRaisesRegex(ValueError, f"timeout_s={timeout_s!r} leaves no time"):
                plimsoll.get_alerts(url=self.aggregating.url, timeout_s=timeout_s)
        self.aggregating.list_status, self.aggregating.list_bytes = 200, None
        enter(self, mock.patch.object(limits, "ALERTS_BYTES_MAX", 10))
        with self.assertRaisesRegex(plimsoll.AggregatorError, "more than 10 bytes"):
            plimsoll.get_alerts(url=self.aggregating.url)

    def test_a_list_that_trickles_is_given_up_in_time(self):
        def trickle(server):
            with contextlib.suppress(OSError):
                stream, _ = server.accept()
                stream.recv(4_096)
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while True:
                    stream.sendall(b" ")
                    time.sleep(0.02)

        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=trickle, args=(server,))
            thread.start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            with self.assertRaisesRegex(plimsoll.AggregatorError, "not read within 0.1 s"):
                plimsoll.get_alerts(url=url, timeout_s=0.1)
            thread.join()


def on_alert(**arguments):
    """`on_alert` where it is switched on."""
    enabled = plimsoll.CLIENT.settings.changed(enable=True)
    with mock.patch.object(plimsoll.CLIENT, "settings", enabled):
        plimsoll.on_alert(print, **arguments)


class Processes(unittest.TestCase):
    """Switches and forks."""

    def test_off_it_needs_no_aggregator_and_starts_nothing(self):
        script = """
import threading, plimsoll
watch = plimsoll.on_alert(print)
print(watch.is_stopped, watch.fault, threading.active_count())
"""
        printed = run(script, "/absent", PLIMSOLL_ENABLE="0")
        self.assertEqual(printed, "True the master switch is off 1\n")

    def test_a_forked_child_has_watches_of_its_own_alone(self):
        script = """
import os, sys, threading, time, plimsoll
from plimsoll import alerts
called = []
def wait(count):
    for _ in range(2_000):
        time.sleep(0.01)
        if len(called) >= count:
            return
    os._exit(1)
watch = plimsoll.on_alert(called.append)
wait(1)
child = os.fork()
if child == 0:
    assert threading.active_count() == 1 and alerts._watches == []
    plimsoll.on_alert(called.append)
    wait(2)
    os._exit(0)
print(os.waitpid(child, 0)[1], len(called))
"""
        with Aggregating() as aggregating:
            aggregating.rows = [row(1)]
            printed = run(script, "/absent", PLIMSOLL_URL=aggregating.url, PYTHONWARNINGS="ignore")
        self.assertEqual(printed, "0 1\n")
