"""Profiles of single requests, through real WSGI servers and the messages of ASGI."""

import asyncio
import http.client
import json
import threading
import time
import unittest
import wsgiref.simple_server
from unittest import mock
from wsgiref.validate import validator

import plimsoll
from plimsoll import limits, request_profiles, spans
from plimsoll.sampler import StackSampler

from .listening import Listening, enter, run
from .recording import Recording

LAST = "/api/v1/profiles/last"


def busy(seconds):
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        pass


def handler(seconds=0.03):
    with plimsoll.timer("query"):
        busy(seconds)


class Block(Recording):
    """`profile_request` in this process."""

    def setUp(self):
        super().setUp()
        request_profiles._results.clear()

    def tearDown(self):
        super().tearDown()
        self.assertEqual(spans.RINGS, [])

    def test_a_block_has_its_spans_and_stacks(self):
        with plimsoll.profile_request("GET /a") as profile:
            with plimsoll.step("train"):
                handler(0.1)
        found = json.loads(json.dumps(profile.result))
        self.assertEqual((found["id"], found["name"]), (profile.id, "GET /a"))
        self.assertGreaterEqual(found["duration_ms"], 100)
        events = {of["name"]: of for of in found["trace"]["traceEvents"] if of["ph"] == "X"}
        self.assertEqual(set(events) - {"gap"}, {"query", "train", "GET /a"})
        self.assertEqual(events["GET /a"]["cat"], "request")
        self.assertTrue(events["train"]["args"]["critical"])
        self.assertGreater(found["samples"], 1)
        top = found["stacks"][0]["frames"]
        self.assertRegex(top[-1], r"^busy \(tests/test_request_profiles.py:\d+\)$")
        self.assertEqual(plimsoll.request_profile(), profile.result)

    def test_its_samples_cover_its_time(self):
        # Beside other computing threads each tick is several switch intervals late.
        is_over = threading.Event()
        threads = [threading.Thread(target=lambda: [busy(0.01) for _ in iter(is_over.is_set, True)])
                   for _ in range(3)]
        for thread in threads:
            thread.start()
        with plimsoll.profile_request() as profile:
            busy(0.6)
        is_over.set()
        for thread in threads:
            thread.join()
        sampled_ms = profile.result["samples"] / profile.result["hz"] * 1e3
        duration_ms = profile.result["duration_ms"]
        # The time behind the last one is in none; one count for each tick would make a sixth.
        self.assertGreater(sampled_ms, 0.5 * duration_ms)
        self.assertLess(sampled_ms, 1.05 * duration_ms)

    def test_a_late_tick_counts_for_a_bounded_time(self):
        sampler = request_profiles._RequestSampler()
        sampler.of = threading.get_ident()
        sampler._take(10**6)
        self.assertEqual(list(sampler._folding.stacks().values()), [limits.REQUEST_LATE_TICKS_MAX])

    def test_other_threads_and_requests_leave_nothing_in_it(self):
        is_over = threading.Event()

        def other():
            while not is_over.is_set():
                with plimsoll.timer("stranger"):
                    time.sleep(0.001)

        thread = threading.Thread(target=other)
        thread.start()
        with plimsoll.profile_request() as profile:
            handler(0.1)
        is_over.set()
        thread.join()
        text = json.dumps(profile.result)
        self.assertNotIn("stranger", text)
        self.assertNotIn("in other", text)
        self.assertIn("busy (", text)

    def test_one_at_a_time_and_others_go_on(self):
        with plimsoll.profile_request() as first:
            with plimsoll.profile_request() as second:
                handler(0.001)
        self.assertIsNotNone(first.id)
        self.assertEqual((second.id, second.result), (None, {}))
        with plimsoll.profile_request() as third:
            pass
        self.assertIsNotNone(third.id)

    def test_a_capture_of_the_process_goes_first(self):
        sampler = StackSampler(0.3)
        sampler.start()
        with plimsoll.profile_request() as profile:
            pass
        sampler.join()
        self.assertIsNone(profile.id)

    def test_one_that_never_ends_gives_way_in_time(self):
        enter(self, mock.patch.object(limits, "REQUEST_S_MAX", 0.05))
        stuck = plimsoll.profile_request()
        stuck.__enter__()
        time.sleep(0.2)
        with plimsoll.profile_request() as profile:
            pass
        self.assertIsNotNone(profile.id)
        stuck.end()
        stuck.end()
        self.assertEqual(len(request_profiles._results), 2)

    def test_a_block_that_raises_is_kept(self):
        with self.assertRaises(ValueError), plimsoll.profile_request() as profile:
            raise ValueError
        self.assertEqual(plimsoll.request_profile(profile.id), profile.result)

    def test_results_are_bounded_and_found_by_id(self):
        ids = []
        for _ in range(limits.REQUESTS_KEPT_MAX + 1):
            with plimsoll.profile_request() as profile:
                pass
            ids.append(profile.id)
        self.assertIsNone(plimsoll.request_profile(ids[0]))
        self.assertEqual(plimsoll.request_profile(ids[1])["id"], ids[1])
        self.assertEqual(plimsoll.request_profile()["id"], ids[-1])

    def test_switched_off_nothing_is_profiled(self):
        plimsoll.configure(enable=False)
        with plimsoll.profile_request() as profile:
            pass
        self.assertIsNone(profile.id)
        plimsoll.configure(enable=True)

    def test_a_task_has_no_stacks_of_other_tasks(self):
        async def other():
            for _ in range(20):
                busy_other()
                await asyncio.sleep(0)

        def busy_other():
            busy(0.005)

        async def request():
            with plimsoll.profile_request() as profile:
                handler(0.05)
                await asyncio.sleep(0.08)
            return profile

        async def main():
            profile, _ = await asyncio.gather(request(), other())
            return profile

        found = asyncio.run(main()).result
        self.assertNotIn("busy_other", json.dumps(found))
        self.assertGreater(found["samples"], 0)
        self.assertGreater(found["waiting_samples"], 0)

    def test_a_forked_child_is_not_busy_with_its_parents_request(self):
        program = """
import os, plimsoll
from plimsoll import spans
with plimsoll.profile_request() as profile:
    child = os.fork()
    if child == 0:
        print(len(spans.RINGS))
        with plimsoll.profile_request() as inner:
            pass
        print(inner.id is not None)
    else:
        os.wait()
print(bool(profile.result), flush=True)
os._exit(0)
"""
        node = Listening()
        self.addCleanup(node.close)
        printed = run(program, node.address, node)
        self.assertEqual(printed.split(), ["0", "True", "False", "True"])


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


class Wsgi(Recording):
    """A real server, checked against the standard."""

    def setUp(self):
        super().setUp()
        request_profiles._results.clear()

    def serve(self, app, **options):
        wrapped = plimsoll.profile_middleware(app, **options)
        make = wsgiref.simple_server.make_server
        self.server = make("127.0.0.1", 0, validator(wrapped), handler_class=Quiet)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def get(self, path="/work", **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        client = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=20)
        try:
            client.request("GET", path, headers=headers)
            response = client.getresponse()
            return response, response.read()
        finally:
            client.close()

    @staticmethod
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])

        def parts():
            yield b"one "
            handler()
            yield b"two"

        return parts()

    def test_a_request_with_the_header_is_profiled_to_its_last_part(self):
        self.serve(self.app, last_path=LAST)
        response, body = self.get(X_Profile="true")
        self.assertEqual((response.status, body), (200, b"one two"))
        id = response.headers["X-Profile-Id"]
        _, body = self.get(LAST)
        found = json.loads(body)
        self.assertEqual((found["id"], found["name"]), (id, "GET /work"))
        self.assertIn("query", [of["name"] for of in found["trace"]["traceEvents"]])
        self.assertEqual(json.loads(self.get(f"{LAST}?id={id}")[1]), found)
        self.assertEqual(self.get(f"{LAST}?id=x")[0].status, 404)

    def test_without_the_header_nothing_happens(self):
        self.serve(self.app)
        for headers in ({}, {"X_Profile": "false"}):
            response, body = self.get(**headers)
            self.assertEqual(body, b"one two")
            self.assertFalse([key for key in response.headers if key.startswith("X-Profile")])
        self.assertIsNone(plimsoll.request_profile())
        # Without `last_path` the path is the application's.
        self.assertEqual(self.get(LAST)[1], b"one two")

    def test_a_second_request_is_busy_and_goes_on(self):
        self.serve(self.app)
        with plimsoll.profile_request():
            response, body = self.get(X_Profile="1")
        self.assertEqual((response.headers["X-Profile"], body), ("busy", b"one two"))
        self.assertIsNone(response.headers["X-Profile-Id"])

    def test_clients_that_may_not_go_on_unprofiled(self):
        def refuse(_):
            return False

        def broken(_):
            raise KeyError("broken")

        for allow in (refuse, broken):
            self.serve(self.app, allow=allow, last_path=LAST)
            response, body = self.get(X_Profile="true")
            self.assertEqual(body, b"one two")
            self.assertFalse([key for key in response.headers if key.startswith("X-Profile")])
            self.assertEqual(self.get(LAST)[1], b"one two")
        self.serve(self.app, allow=lambda environ: environ["HTTP_X_KEY"] == "k")
        self.assertTrue(self.get(X_Profile="true", X_Key="k")[0].headers["X-Profile-Id"])

    def test_clients_behind_a_proxy_may_not_by_default(self):
        self.serve(self.app)
        for header in ("X_Forwarded_For", "Forwarded", "X_Real_IP"):
            response, _ = self.get(X_Profile="true", **{header: "203.0.113.7"})
            self.assertIsNone(response.headers["X-Profile-Id"])

    def test_only_addresses_of_this_machine_are_loopback(self):
        self.assertEqual(
            [
                peer
                for peer in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "10.0.0.1", ""]
                + ["::ffff:10.0.0.1", "localhost", "0.0.0.0", None]
                if plimsoll.profile_middleware(self.app)._may({}, peer, ())
            ],
            ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"],
        )

    def test_an_application_that_raises_frees_the_place(self):
        def app(environ, start_response):
            raise ValueError

        wrapped = plimsoll.profile_middleware(app, allow=lambda _: True)
        environ = {"HTTP_X_PROFILE": "true", "REQUEST_METHOD": "GET", "PATH_INFO": "/"}
        for _ in range(2):
            with self.assertRaises(ValueError):
                wrapped(environ, lambda *_: None)
        self.assertEqual(len(request_profiles._results), 2)
        self.assertEqual(spans.RINGS, [])

    def test_a_client_that_leaves_early_frees_the_place(self):
        wrapped = plimsoll.profile_middleware(self.app, allow=lambda _: True)
        environ = {"HTTP_X_PROFILE": "true", "REQUEST_METHOD": "GET", "PATH_INFO": "/"}
        body = wrapped(environ, lambda *_: None)
        self.assertEqual(next(body), b"one ")
        self.assertEqual(len(spans.RINGS), 1)
        body.close()
        self.assertEqual(spans.RINGS, [])
        # Not each server calls `close`.
        self.assertEqual(list(wrapped(environ, lambda *_: None)), [b"one ", b"two"])
        self.assertEqual(spans.RINGS, [])


class Asgi(Recording):
    """An application that is called with its messages."""

    def setUp(self):
        super().setUp()
        request_profiles._results.clear()

    async def app(self, scope, receive, send):
        if scope["type"] != "http":
            await send({"type": scope["type"]})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        handler()
        await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b"done"})

    def call(self, app, path="/work", client=("127.0.0.1", 9), type="http", query=b"", **headers):
        sent = []

        async def send(message):
            sent.append(message)

        names = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
        scope = {"type": type, "method": "GET", "path": path, "headers": names, "client": client}
        scope["query_string"] = query
        asyncio.run(app(scope, None, send))
        return dict(sent[0].get("headers", ())), sent

    def test_a_request_with_the_header_is_profiled(self):
        app = plimsoll.profile_middleware(self.app, last_path=LAST)
        headers, sent = self.call(app, x_profile="true")
        self.assertEqual((headers[b"a"], sent[-1]["body"]), (b"b", b"done"))
        id = headers[b"x-profile-id"].decode()
        for query in (b"", b"id=" + id.encode()):
            headers, sent = self.call(app, LAST, query=query)
            found = json.loads(sent[-1]["body"])
            self.assertEqual((found["id"], found["name"]), (id, "GET /work"))
            self.assertEqual(headers[b"content-length"], str(len(sent[-1]["body"])).encode())
        self.assertIn("query", [of["name"] for of in found["trace"]["traceEvents"]])
        self.assertEqual(self.call(app, LAST, query=b"id=x")[1][0]["status"], 404)

    def test_all_others_go_on_unprofiled(self):
        app = plimsoll.profile_middleware(self.app, last_path=LAST)
        for given in [
            {},
            {"x_profile": "no"},
            {"x_profile": "true", "client": ("10.0.0.1", 9)},
            {"x_profile": "true", "client": None},
            {"x_profile": "true", "x_forwarded_for": "10.0.0.1"},
            {"path": LAST, "client": ("10.0.0.1", 9)},
        ]:
            with self.subTest(given):
                headers, sent = self.call(app, **given)
                self.assertEqual((headers, sent[-1]["body"]), ({b"a": b"b"}, b"done"))
        _, sent = self.call(app, type="websocket", x_profile="true")
        self.assertEqual(sent, [{"type": "websocket"}])
        self.assertIsNone(plimsoll.request_profile())

    def test_a_second_request_is_busy(self):
        app = plimsoll.profile_middleware(self.app)
        with plimsoll.profile_request():
            headers, _ = self.call(app, x_profile="true")
        self.assertEqual(headers[b"x-profile"], b"busy")

    def test_objects_and_functions_are_told_apart(self):
        class Awaited:
            async def __call__(self, scope, receive, send):
                pass

        async def function(scope, receive, send):
            pass

        kinds = [
            type(plimsoll.profile_middleware(app)).__name__
            for app in (Awaited(), function, self.app, Wsgi.app, lambda environ, respond: [])
        ]
        self.assertEqual(kinds, ["_Asgi"] * 3 + ["_Wsgi"] * 2)

    def test_children_of_a_request_are_in_its_profile(self):
        async def app(scope, receive, send):
            async def child(name):
                with plimsoll.timer(name):
                    await asyncio.sleep(0.01)

            await asyncio.gather(child("left"), child("right"))
            await send({"type": "http.response.start", "status": 200})

        headers, _ = self.call(plimsoll.profile_middleware(app), x_profile="1")
        found = plimsoll.request_profile(headers[b"x-profile-id"].decode())
        events = {of["name"]: of for of in found["trace"]["traceEvents"] if of["ph"] == "X"}
        self.assertTrue({"left", "right"} <= set(events))
        self.assertEqual(len({events[name]["tid"] for name in ("left", "right", "GET /work")}), 3)


if __name__ == "__main__":
    unittest.main()
