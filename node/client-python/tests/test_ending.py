"""A process that ends in good order states so with its last datagram, and no other one does."""

import os
import signal
import time
import unittest

import plimsoll

from .listening import DEADLINE_S, enter, require_semaphores, run, run_command, unix_socket
from .recording import Recording

START = """
import atexit, multiprocessing, os, signal, sys, threading, time
import plimsoll

def record(n, who="a"):
    for _ in range(n):
        plimsoll.record("op", seconds=0.001, who=who)
"""


class Ends(unittest.TestCase):
    """Real interpreters; each script ends as the table states."""

    def setUp(self):
        self.listening = enter(self, unix_socket())

    def run_script(self, script, **more):
        printed = run(START + script, self.listening.path, PLIMSOLL_FLUSH_MS="60000", **more)
        self.listening.read()
        return printed

    def clients(self, samples):
        """The clients, most samples first, which must be as many as stated."""
        clients = sorted(self.listening.clients.items(), key=lambda pair: -pair[1].samples)
        self.assertEqual([client.samples for _, client in clients], samples)
        return clients

    def assert_ended(self, name, client, tails=1):
        """The final datagram is a number alone, behind all others and the ordinary tail."""
        self.assertEqual(client.final, f"_seq|{name}|{client.number}|{client.samples}|0|last")
        self.assertEqual(client.tails, tails)

    def run_each(self, table):
        for script, code in table:
            with self.subTest(script), unix_socket() as self.listening:
                self.run_script(f"record(100)\n{script}", code=code)
                [(name, client)] = self.clients([100])
                yield name, client

    def test_an_end_in_good_order_is_stated_last_and_once(self):
        table = [
            ("", 0),
            ("plimsoll.flush()", 0),
            ("sys.exit(0)", 0),
            ("sys.exit(3)", 3),
            ("sys.exit('a text')", 1),
            ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); signal.raise_signal(15)", 3),
            ("thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()", 0),
            ("try:\n    1 / 0\nexcept ValueError.__base__:\n    sys.exit(4)", 4),
            # The last of all statements are not the last values.
            ("atexit.register(plimsoll.count, 'last_counter')", 0),
            ("plimsoll.configure(enable=False)", 0),
            # A session with a prompt goes on after an exception.
            ("sys.ps1 = '>>> '; sys.last_value = ValueError('x')", 0),
        ]
        for name, client in self.run_each(table):
            self.assert_ended(name, client)

    def test_a_failure_is_no_end_in_good_order(self):
        table = [
            ("raise ValueError('x')", 1),
            ("raise KeyboardInterrupt", -signal.SIGINT),
            ("sys.excepthook = lambda *_: print('mine')\nraise ValueError('x')", 1),
            ("import asyncio\nasync def fail(): 1 / 0\nasyncio.run(fail())", 1),
        ]
        for _, client in self.run_each(table):
            self.assertEqual((client.final, client.tails), (None, 1))

    def test_the_hook_of_the_program_prints_its_exception(self):
        script = "record(1)\nsys.excepthook = lambda *_: print('mine')\nraise ValueError('x')"
        self.assertEqual(self.run_script(script, code=1), "mine\n")

    def test_what_ends_without_the_interpreter_states_nothing(self):
        table = [
            ("plimsoll.flush(); os._exit(0)", 0),
            ("plimsoll.flush(); os.execv(sys.executable, [sys.executable, '-c', ''])", 0),
            ("plimsoll.flush(); signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
            ("plimsoll.flush(); signal.raise_signal(signal.SIGKILL)", -signal.SIGKILL),
        ]
        for _, client in self.run_each(table):
            self.assertEqual(client.final, None)

    def test_a_process_that_records_nothing_sends_nothing(self):
        self.run_script("")
        self.run_script("plimsoll.flush()")
        self.assertEqual(self.listening.sizes, [])

    def test_an_idle_process_ends_after_the_end_it_has_sent(self):
        # The ordinary tail was sent after half a second; at the end it is not repeated.
        self.run_script("record(1)\nplimsoll.flush()\nplimsoll.flush()")
        [(name, client)] = self.clients([1])
        self.assert_ended(name, client)
        self.assertEqual(client.number, 3)

    def test_a_child_states_its_own_end_and_never_that_of_its_parent(self):
        self.run_script(
            """
record(100)
plimsoll.flush()
for ending in ["sys.exit(0)", "1 / 0", "os._exit(1)", ""]:
    child = os.fork()
    if child == 0:
        if ending:
            record(len(ending))
            plimsoll.flush()
            exec(ending)
        sys.exit(0)
    os.waitpid(child, 0)
record(1)
""",
            reader=self.listening,
        )
        (name, parent), *rest = self.clients([101, 11, 11, 5])
        self.assert_ended(name, parent)
        *ordered, (_, failed) = rest
        self.assertEqual(failed.final, None)
        # `os._exit` and `sys.exit` are equally long.
        self.assertEqual(sorted(client.final is None for _, client in ordered), [False, True])

    def test_a_child_that_was_forked_where_an_exception_was_handled_has_not_failed(self):
        self.run_script(
            """
context = multiprocessing.get_context("fork")
try:
    raise ValueError("x")
except ValueError:
    worker = context.Process(target=record, args=(3,))
    worker.start()
    worker.join()
    child = os.fork()
    if child == 0:
        record(2)
        sys.exit(0)
    os.waitpid(child, 0)
"""
        )
        for name, client in self.clients([3, 2]):
            self.assert_ended(name, client)

    def test_the_end_of_a_child_that_a_thread_forked_is_unknown(self):
        self.run_script(
            """
def fork():
    child = os.fork()
    if child == 0:
        record(50)
        sys.exit(0)
    os.waitpid(child, 0)

thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""
        )
        [(_, client)] = self.clients([50])
        self.assertEqual((client.final, client.tails), (None, 1))

    def test_values_that_come_after_the_end_have_a_numbering_that_ends_too(self):
        late = """
import atexit
import sys

def late():
    for n in (2, 1):
        record(n, "late")
        assert plimsoll.flush(), plimsoll.flush()

atexit.register(late)
"""
        script = f"{late}{START}\nrecord(100)\n"
        for ending, finals in [("", ["1|0|2|last", "1|0|1|last"]), ("1 / 0", [])]:
            with self.subTest(ending), unix_socket() as self.listening:
                run(script + ending, self.listening.path, code=int(bool(ending)))
                self.listening.read()
                counts = {"op{who:a}": 100, "op{who:late}": 3}
                self.assertEqual(self.listening.counts(), counts)
                late_finals = self.listening.finals()[1:]
                self.assertEqual([line.split("|", 2)[2] for line in late_finals], finals)

    def test_values_that_are_sent_after_the_end_without_a_flush_end_too(self):
        late = """
import atexit, time

def late():
    before = plimsoll.stats().datagrams
    record(2, "late")
    while plimsoll.stats().datagrams == before:
        time.sleep(0.001)

atexit.register(late)
"""
        run(f"{late}{START}\nrecord(100)\n", self.listening.path, PLIMSOLL_FLUSH_MS="10")
        (name, client), *rest = self.listening.read().clients.items()
        self.assert_ended(name, client)
        self.assertEqual([client.final is None for _, client in rest], [False] * len(rest))
        self.assertEqual(self.listening.count("op{who:late}"), 2)

    def test_a_node_that_reads_late_gets_the_end(self):
        gate = f"{self.listening.path}.gate"

        class Late:
            """Reads only once the process ends and its socket is full."""

            def poll_until(reader, is_over):
                deadline = time.monotonic() + DEADLINE_S
                while not os.path.exists(gate):
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
                self.listening.poll_until(is_over)

        self.run_script(
            f"""
atexit.register(lambda: open({gate!r}, "w").close())
for number in range(100_000):
    plimsoll.record_ns("op", number)
assert plimsoll.flush(0.3).outcome == "timeout"
""",
            reader=Late(),
        )
        [(name, client)] = self.clients([100_000])
        self.assert_ended(name, client)

    def test_a_node_that_never_reads_gets_no_end_and_stops_no_exit(self):
        self.run_script("[plimsoll.record_ns('op', n) for n in range(100_000)]")
        self.assertEqual(self.listening.finals(), [])

    def test_an_interrupted_exit_still_states_the_end(self):
        self.run_script(
            """
record(100)
sender = plimsoll.CLIENT._sender
plain, is_raised = sender.flush, threading.Event()

def leave(*_):
    is_raised.set()
    sys.exit(3)

def interrupted():
    sender.flush = plain
    os.kill(os.getpid(), signal.SIGTERM)
    is_raised.wait()
    return plain()

signal.signal(signal.SIGTERM, leave)
assert plimsoll.flush()
sender.flush = interrupted
""",
            code=None,
        )
        [(name, client)] = self.clients([100])
        self.assert_ended(name, client)


class Workers(unittest.TestCase):
    """Workers of multiprocessing, which end by `os._exit` or, when spawned, by `sys.exit` too."""

    PROGRAM = f"""{START}
import concurrent.futures

def leave(n, code):
    record(n)
    sys.exit(code)

def fail(n):
    record(n)
    1 / 0

def feed(n):
    # In a thread of its own, while the main one fails.
    thread = threading.Thread(target=record, args=(n,))
    thread.start()
    thread.join()
    1 / 0

def wait(n):
    record(n)
    plimsoll.flush()
    is_ready.set()
    signal.pause()

def share(event):
    global is_ready
    is_ready = event

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for target, *args in [
        (record, 1), (record, 2), (leave, 3, 0), (leave, 4, None),
        (leave, 5, 3), (leave, 6, "text"), (fail, 7), (feed, 8),
    ]:
        worker = context.Process(target=target, args=args)
        worker.start()
        worker.join()
    event = context.Event()
    with context.Pool(1, share, (event,)) as pool:
        pool.apply_async(wait, (9,))
        event.wait()
        pool.terminate()
    with context.Pool(1) as pool:
        pool.map(record, [4, 5])
        # A task that fails ends no worker.
        pool.apply_async(fail, (1,)).wait()
        pool.close()
        pool.join()
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(record, 11).result()
"""

    def test_workers_state_their_end_unless_they_fail_or_are_killed(self):
        require_semaphores()
        for method in ["fork", "spawn", "forkserver"]:
            with self.subTest(method), unix_socket() as listening:
                # Spawned workers import the program, so it must be a file.
                path = os.path.join(os.path.dirname(listening.path), "program.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(self.PROGRAM)
                run_command([path, method], listening.path, listening)
                clients = listening.read().clients.values()
                totals = sorted(client.samples for client in clients)
                self.assertEqual(totals, list(range(1, 12)))
                ended = sorted(client.samples for client in clients if client.final)
                self.assertEqual(ended, [1, 2, 3, 4, 10, 11])


class Moves(Recording):
    """`configure(socket=..)` ends what the former node gets."""

    def clients(self, listening):
        return list(listening.read().clients.items())

    def test_the_former_node_gets_the_end_and_the_next_one_a_numbering_of_its_own(self):
        former, following = self.listening, enter(self, unix_socket())
        plimsoll.record_ns("op", 1)
        self.received()
        name = plimsoll.stats().client
        plimsoll.configure(socket=former.path)
        self.assertEqual(former.read().finals(), [])
        plimsoll.configure(socket=following.path)
        [(client_name, client)] = self.clients(former)
        self.assertEqual((client_name, client.final), (name, f"_seq|{name}|3|1|0|last"))
        plimsoll.record_ns("op", 2)
        self.listening = following
        self.received()
        [(client_name, client)] = self.clients(following)
        self.assertEqual(client_name, plimsoll.stats().client)
        self.assertEqual(client.number, len(following.sizes), "numbers begin with 1")
        self.assertNotEqual(client_name, name)
        self.assertEqual(following.values_ns("op"), [2])

    def test_a_node_that_got_nothing_gets_no_end(self):
        plimsoll.configure(socket=enter(self, unix_socket()).path)
        self.assertEqual(self.listening.read().sizes, [])

    def test_what_a_full_node_did_not_take_goes_to_the_next_one_numbered_anew(self):
        former, self.listening = self.listening, enter(self, unix_socket())
        # Of one series, values fold into a few cells when the flush thread comes late.
        for number in range(60_000):
            plimsoll.record_ns(f"op{number % 64}", number)
        self.assertEqual(plimsoll.flush(0.3).outcome, "timeout")
        plimsoll.configure(socket=self.listening.path)
        self.received()
        # No end, since the former node did not get all that was numbered for it.
        self.assertEqual(former.read().finals(), [])
        [(_, client)] = self.clients(self.listening)
        self.assertEqual(client.samples + former.samples(), 60_000)

    def test_a_node_that_is_gone_costs_nothing(self):
        plimsoll.record_ns("op", 1)
        self.received()
        self.listening.close()
        self.listening = enter(self, unix_socket())
        plimsoll.record_ns("op", 2)
        plimsoll.configure(socket=self.listening.path)
        self.received()
        self.assertEqual(self.listening.values_ns("op"), [2])


if __name__ == "__main__":
    unittest.main()
