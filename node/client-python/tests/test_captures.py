"""Orders of the node, answered from inside of the process."""

import gzip
import json
import os
import socket
import sys
import unittest
from unittest import mock

from plimsoll import captures
from plimsoll.pprof import encode
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


if __name__ == "__main__":
    unittest.main()
