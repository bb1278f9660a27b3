"""Orders of the node, answered from inside of the process."""

import gzip
import json
import os
import socket
import sys
import threading
import tracemalloc
import unittest
from time import perf_counter_ns as clock
from unittest import mock

from plimsoll import allocations, captures, spans
from plimsoll.pprof import encode, encode_growth
from plimsoll.sampler import Frame, Stack

from .listening import Listening, run

NAME = captures.NAME.format(os.getpid())


def ask(order):
    """The response and the profile, over the socket."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(NAME)
        stream.settimeout(20)
        stream.sendall(json.dumps(order).encode() + b"\n")
        with stream.makefile("rb") as answer:
            line = answer.readline()
            return (json.loads(line) if line else None), answer.read()


def order(**more):
    """An order of this process."""
    return {"pid": os.getpid(), "seconds": 1, "hz": 50, "alive_at": None, **more}


@unittest.skipUnless(sys.platform == "linux", "abstract sockets are those of Linux")
class Orders(unittest.TestCase):
    """A process that listens."""

    @classmethod
    def setUpClass(cls):
        cls.listener = captures.listen("/nowhere")
        cls.addClassCleanup(cls.listener.close)

    def test_stacks_of_this_process_come_back(self):
        response, profile = ask(order())
        self.assertEqual((response["state"], response["facts"]["rung"]), ("kept", "client"))
        self.assertEqual(response["bytes"], len(profile))
        self.assertGreater(response["facts"]["samples"], 40)
        read = gzip.decompress(profile)
        self.assertIn(b"test_stacks_of_this_process_come_back", read)
        # The thread that answers is none of the job's.
        self.assertNotIn(captures.THREAD.encode(), read)

    def test_what_is_no_order_of_this_process_has_its_reason(self):
        for wrong, state in [
            (order(pid=1), {"refused": "process_not_found"}),
            # It started later than the process that sent.
            (order(alive_at=1), {"refused": "process_not_found"}),
            (order(seconds=10_000), None),
            (order(hz="x"), None),
            ({}, None),
            ([], None),
        ]:
            with self.subTest(wrong):
                response, profile = ask(wrong)
                self.assertEqual((response or {}).get("state"), state)
                self.assertEqual(profile, b"")

    def test_memory_that_is_allocated_and_kept_comes_back(self):
        kept = []

        def leak():
            kept.append(bytearray(5_000_000))

        timer = threading.Timer(0.3, leak)
        timer.start()
        response, profile = ask(order(kind="memory"))
        timer.join()
        self.assertEqual((response["state"], response["bytes"]), ("kept", len(profile)))
        self.assertGreater(response["facts"]["samples"], 0)
        read = fields(gzip.decompress(profile))
        texts = [value.decode() for number, value in read if number == 6]
        types = [[texts[of] for _, of in fields(value)] for number, value in read if number == 1]
        self.assertEqual(types, [["inuse_objects", "count"], ["inuse_space", "bytes"]])
        self.assertEqual([texts[value] for number, value in read if number == 14], ["inuse_space"])
        comments = dict(text.split("=") for text in texts if text.startswith("plimsoll."))
        self.assertEqual(comments["plimsoll.kind"], "memory")
        self.assertEqual(response["facts"]["kind"], "memory")
        self.assertGreater(int(comments["plimsoll.leaked_bytes"]), 5_000_000)
        self.assertGreater(int(comments["plimsoll.peak_bytes"]), 5_000_000)
        self.assertEqual(comments["plimsoll.allocations"], str(response["facts"]["samples"]))
        self.assertTrue([text for text in texts if text.endswith("leak")])
        self.assertFalse(tracemalloc.is_tracing())

    def test_memory_of_a_job_that_stops_tracing_has_its_reason(self):
        with mock.patch.object(allocations, "watched", lambda *_: None):
            self.assertEqual(ask(order(kind="memory"))[0]["state"], {"failed": "cancelled"})

    def test_spans_of_the_capture_come_back(self):
        given = ("block", clock(), clock(), {})
        spans.note(*given)
        timer = threading.Timer(0.3, spans.note, given)
        timer.start()
        response, trace = ask(order(kind="trace"))
        timer.join()
        facts = response["facts"]
        self.assertEqual((response["state"], facts["samples"], facts["kind"]), ("kept", 1, "trace"))
        events = json.loads(gzip.decompress(trace))["traceEvents"]
        self.assertEqual([of["name"] for of in events if of["ph"] == "X"], ["block"])
        self.assertEqual(spans.RINGS, [])

    def test_kinds_have_their_names_and_others_are_not_supported(self):
        for kind, state in [
            ("cpu", "kept"),
            ("heap", {"failed": "not_supported"}),
            (None, {"failed": "not_supported"}),
            ([], None),
        ]:
            with self.subTest(kind):
                response, _ = ask(order(kind=kind))
                self.assertEqual((response or {}).get("state"), state)
        for kind in ("memory", "trace"):
            with self.subTest(kind):
                self.assertIsNone(ask(order(kind=kind, seconds=10_000))[0])
                refused = {"refused": "process_not_found"}
                self.assertEqual(ask(order(kind=kind, pid=1))[0]["state"], refused)

    def test_what_is_too_large_is_not_sent(self):
        large = mock.patch.object(captures.limits, "PROFILE_BYTES_MAX", 10)
        for kind in ("memory", "trace"):
            with self.subTest(kind), large:
                response, profile = ask(order(kind=kind))
                self.assertEqual((response["state"], profile), ({"failed": "too_large"}, b""))

    def test_a_second_order_waits_for_its_turn_elsewhere(self):
        with mock.patch.object(captures, "is_sampling", lambda: True):
            self.assertEqual(ask(order())[0]["state"], {"failed": "profiler_busy"})

    def test_another_user_is_not_answered(self):
        with mock.patch.object(captures.os, "geteuid", lambda: 4_711):
            with mock.patch.object(captures, "ROOT", 4_712):
                with self.assertRaises(ConnectionError):
                    ask(order())


class Switch(unittest.TestCase):
    """A process listens once it records, if it is switched on."""

    def test_a_child_of_fork_listens_under_its_own_number(self):
        program = """
import os, socket
def is_listening():
    with socket.socket(socket.AF_UNIX) as stream:
        return stream.connect_ex('\\0plimsoll-captures.%d' % os.getpid()) == 0
import plimsoll
print(is_listening())
plimsoll.count("a")
print(is_listening(), flush=True)
if os.fork() == 0:
    print(is_listening())
    plimsoll.count("b")
    print(is_listening(), flush=True)
    os._exit(0)
os.wait()
"""
        for switch, expected in [("1", "False True False True"), ("0", "False False False False")]:
            with self.subTest(switch):
                node = Listening()
                self.addCleanup(node.close)
                printed = run(program, node.address, node, PLIMSOLL_CAPTURES=switch)
                self.assertEqual(printed.split(), expected.split())


def fields(body):
    """The fields of a message in their order: numbers, or the bytes of what is within."""
    found, place = [], 0

    def varint():
        nonlocal place
        number, shift = 0, 0
        while True:
            byte = body[place]
            place += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while place < len(body):
        key = varint()
        value = varint()
        if key & 7 == 2:
            value, place = body[place : place + value], place + value
        found.append((key >> 3, value))
    return found


class Pprof(unittest.TestCase):
    """The fields of a file, by the numbers of profile.proto."""

    def test_a_file_has_stacks_from_the_leaf_with_their_values_and_thread(self):
        stack = Stack("main", (Frame("f", "a/b.py", 300), Frame("g", "a/b.py", 2)))
        found = fields(gzip.decompress(encode({stack: 3}, 10, 5, 7, ["remark"])))
        texts = [value.decode() for number, value in found if number == 6]
        self.assertEqual(texts[0], "")

        def of(number):
            return [value for of, value in found if of == number]

        kinds = [[texts[value] for _, value in fields(kind)] for kind in of(1)]
        self.assertEqual(kinds, [["samples", "count"], ["wall", "nanoseconds"]])
        functions = {}
        for function in map(dict, map(fields, of(5))):
            functions[function[1]] = (texts[function[2]], texts[function[4]])
        frames = {}
        for location in map(dict, map(fields, of(4))):
            line = dict(fields(location[4]))
            frames[location[1]] = (*functions[line[1]], line[2])
        [sample] = [dict(fields(sample)) for sample in of(2)]
        leaf_first = [frames[number] for number in sample[1]]
        self.assertEqual(leaf_first, [("g", "a/b.py", 2), ("f", "a/b.py", 300)])
        self.assertEqual(list(sample[2]), [3, 30])
        label = dict(fields(sample[3]))
        self.assertEqual((texts[label[1]], texts[label[2]]), ("thread", "main"))
        self.assertEqual((of(9), of(10), of(12)), ([5], [7], [10]))
        self.assertEqual([texts[number] for number in of(13)[0]], ["remark"])
        self.assertEqual([texts[number] for number in of(14)], ["wall"])

    def test_growth_has_blocks_and_bytes_of_its_stack_and_no_thread(self):
        stack = Stack("", (Frame("f", "a/b.py", 3),))
        found = fields(gzip.decompress(encode_growth([allocations.Growth(stack, 2, 70)], 5, 7)))
        [sample] = [dict(fields(value)) for number, value in found if number == 2]
        self.assertEqual((list(sample[2]), sample.get(3)), ([2, 70], None))


if __name__ == "__main__":
    unittest.main()
