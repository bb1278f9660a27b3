"""`python -m plimsoll self-test` against a real node, and against sockets that misbehave."""

import http.server
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from plimsoll import limits
from plimsoll.self_test import _EXPECTED, _read

from .listening import DEADLINE_S, PACKAGE, enter, run, unix_socket
from .test_command import command

ROOT = os.path.dirname(os.path.dirname(PACKAGE))
BUILT = [os.path.join(ROOT, "target", kind, "plimsoll-node") for kind in ("debug", "release")]
NODE = next(filter(os.path.exists, [os.environ.get("PLIMSOLL_NODE", ""), *BUILT]), None)
SAMPLES, VALUES, EVENTS = (metric for metric, _ in _EXPECTED.values())


def self_test(address, *arguments, **variables):
    """Exit code, and the checks by name."""
    code, printed = command("self-test", "--json", *arguments, address=address, **variables)
    report = json.loads(printed[printed.index("{") :])
    assert report["exit_code"] == code
    assert report["passed"] == (code == 0)
    return code, {check["name"]: check for check in report["checks"]}


class Page:
    """A metrics page over HTTP that counts what comes into a listening socket."""

    def __init__(self, listening, lines):
        self.listening = listening
        self.lines = lines
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = page.text().encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def text(self):
        read = self.listening.read()
        samples = read.samples()
        counts = {
            SAMPLES: samples,
            # Each run sends a counter and a gauge.
            VALUES: samples + 2 * len(read.clients),
            EVENTS: len(read.events),
        }
        return "# HELP x y\n" + "".join(f"{name} {counts[name]}\n" for name in self.lines)


class Checks(unittest.TestCase):
    """Each exit code, with its fix."""

    def setUp(self):
        self.listening = enter(self, unix_socket())

    def page(self, *lines):
        return enter(self, Page(self.listening, lines or (SAMPLES, VALUES, EVENTS)))

    def test_numbered_values_of_every_kind_are_sent_and_found(self):
        code, checks = self_test(self.listening.path, "--metrics", self.page().url)
        self.assertEqual((code, {check["passed"] for check in checks.values()}), (0, {True}))
        expected = list(range(1_000_000, 20_000_001, 1_000_000))
        self.assertEqual(self.listening.values_ns("plimsoll_self_test"), expected)
        self.assertEqual(dict(self.listening.counters), {"plimsoll_self_test.count": 20})
        self.assertEqual(self.listening.gauges, {"plimsoll_self_test.gauge": 20})
        self.assertIn("plimsoll self-test|sent 20 latencies", self.listening.events[0])
        self.assertEqual(len(self.listening.clients), 1)

    def test_an_absent_socket_is_1_and_what_needs_it_is_not_run(self):
        absent = f"{self.listening.path}.absent"
        code, checks = self_test(absent, "--metrics", self.page().url)
        self.assertEqual(code, 1)
        self.assertIn(f"{absent}: [Errno 2]", checks["socket"]["detail"])
        self.assertIn(f"start `plimsoll-node --unix {absent}`", checks["socket"]["fix"])
        self.assertEqual([checks[name]["passed"] for name in ("send", "arrival")], [None, None])
        self.assertTrue(checks["metrics"]["passed"])

    def test_a_socket_that_is_full_is_1(self):
        filling = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(filling.close)
        filling.setblocking(False)
        with self.assertRaises(BlockingIOError):
            while True:
                filling.sendto(b"x", self.listening.path)
        code, checks = self_test(self.listening.path, "--metrics", "http://127.0.0.1:9/")
        self.assertEqual((code, checks["send"]["passed"]), (1, False))
        self.assertIn("the node does not read", checks["send"]["fix"])

    def test_wrong_usage_is_2(self):
        for arguments in [["--metrics", "file:///x"], ["--metrics"], ["--socket", "a://b"]]:
            self.assertEqual(command("self-test", *arguments)[0], 2, arguments)

    def test_an_invalid_switch_or_variable_is_3_and_the_rest_is_run(self):
        url = self.page().url
        table = [
            ("switches", {"PLIMSOLL_ENABLE": "true"}, "set PLIMSOLL_ENABLE=1"),
            ("switches", {"PLIMSOLL_ENABLE_TIMERS": "1"}, "timers need the master switch: set"),
            ("variables", {"PLIMSOLL_FLUSH_MS": "soon"}, "PLIMSOLL_FLUSH_MS: 'soon'"),
            ("variables", {"PLIMSOLL_LABELS": "rank"}, "write PLIMSOLL_LABELS=run=r7,rank=3"),
        ]
        for name, variables, fix in table:
            with self.subTest(variables):
                code, checks = self_test(self.listening.path, "--metrics", url, **variables)
                self.assertEqual((code, checks[name]["passed"]), (3, False))
                self.assertIn(fix, checks[name]["fix"])
                self.assertTrue(checks["arrival"]["passed"])

    def test_a_page_that_cannot_be_read_or_is_no_nodes_is_4(self):
        empty = self.page(EVENTS).url
        for url, detail in [("http://127.0.0.1:9/", "refused"), (empty, "not the page of a node")]:
            code, checks = self_test(self.listening.path, "--metrics", url)
            self.assertEqual((code, checks["send"]["passed"]), (4, True))
            self.assertIn(detail, checks["metrics"]["detail"])
            self.assertIn("self-test --metrics URL", checks["metrics"]["fix"])

    def test_values_that_the_node_does_not_count_are_5(self):
        code, checks = self_test(self.listening.path, "--metrics", self.page(SAMPLES, VALUES).url)
        self.assertEqual((code, checks["arrival"]["passed"]), (5, False))
        detail = "the node counted 20 latencies of 20, 22 values of 22, 0 events of 1"
        self.assertEqual(checks["arrival"]["detail"], detail)
        self.assertIn("this page may be of another node than", checks["arrival"]["fix"])

    def test_the_table_for_people_shows_outcomes_and_fixes(self):
        absent = f"{self.listening.path}.absent"
        code, printed = command("self-test", "--metrics", self.page().url, address=absent)
        self.assertEqual(code, 1)
        self.assertRegex(printed, r"(?m)^FAILED   socket      /.*\n +fix: start `plimsoll-node ")
        self.assertRegex(printed, r"(?m)^passed   switches    master off, .*PLIMSOLL_ENABLE=1")
        self.assertRegex(printed, r"(?m)^not run  arrival     needs the checks above$")


@unittest.skipUnless(NODE, "no plimsoll-node: build it, or set PLIMSOLL_NODE to its path")
class Node(unittest.TestCase):
    """A real node, without a broker."""

    def setUp(self):
        self.path = os.path.join(enter(self, tempfile.TemporaryDirectory()), "node.sock")
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = "127.0.0.1:%d" % free.getsockname()[1]
        self.url = f"http://{address}/metrics"
        flags = ["--nats", "nats://127.0.0.1:9", "--unix", self.path, "--udp", "", "--http", address]
        quiet = subprocess.DEVNULL
        node = subprocess.Popen([NODE, *flags], stdout=quiet, stderr=quiet)
        self.addCleanup(node.wait)
        self.addCleanup(node.kill)
        self.poll_until_served(self.url)

    def test_a_real_node_counts_all_values(self):
        for _ in range(2):
            code, checks = self_test(self.path, "--metrics", self.url)
            self.assertEqual((code, checks["arrival"]["passed"]), (0, True), checks)
        detail = "the node counted 20 latencies of 20, 22 values of 22, 1 events of 1"
        self.assertEqual(checks["arrival"]["detail"], detail)

    def test_a_name_that_ends_in_seconds_is_milliseconds_from_this_client(self):
        run("import plimsoll\nplimsoll.record('load_seconds', seconds=10)", self.path)
        self.poll_until_counted("plimsoll_agent_samples_total", 1)
        self.assertEqual(_read(self.url)["plimsoll_agent_clamped_samples_total"], 0)
        # The same number from another client, read by the name: 10 000 s, which is above an hour.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.sendto(b"load_seconds:10000|h", self.path)
        self.poll_until_counted("plimsoll_agent_clamped_samples_total", 1)

    def poll_until_counted(self, metric, count):
        deadline = time.monotonic() + DEADLINE_S
        while _read(self.url)[metric] < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def poll_until_served(self, url):
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                urllib.request.urlopen(url, timeout=limits.METRICS_WAIT_S).close()
            except OSError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            else:
                return


if __name__ == "__main__":
    unittest.main()
