"""Whatever becomes of a process and its threads, what was recorded arrives once."""

import os
import signal
import subprocess
import sys
import unittest

from .listening import enter, environment, require_semaphores, run, run_command, unix_socket

START = """
import atexit, gc, multiprocessing, os, signal, sys, threading, time
import plimsoll

@plimsoll.timed("call", who="parent")
def call():
    return os.getpid()

def record(n, who):
    for _ in range(n):
        plimsoll.record("op", seconds=0.001, who=who)
"""


class Processes(unittest.TestCase):
    """Real interpreters; each script ends as its name states."""

    def setUp(self):
        self.listening = enter(self, unix_socket())

    def run_script(self, script, **more):
        return run(START + script, self.listening.path, **more)

    def received(self):
        return self.listening.read().counts()

    def test_the_end_of_a_program_sends_the_rest_and_an_end(self):
        self.run_script("record(1000, 'a')", PLIMSOLL_FLUSH_MS="60000")
        self.assertEqual(self.received(), {"op{who:a}": 1_000})
        [client] = self.listening.clients.values()
        self.assertEqual(client.tails, 1)

    def test_a_signal_handler_that_flushes_never_waits_for_what_it_interrupted(self):
        printed = self.run_script(
            """
sender = plimsoll.CLIENT._sender
plain = sender.flush

def interrupted():
    signal.raise_signal(signal.SIGUSR1)
    return plain()

signal.signal(signal.SIGUSR1, lambda *_: print(plimsoll.flush(0.05).outcome))
sender.flush = interrupted
print(plimsoll.flush().outcome)
"""
        )
        self.assertEqual(printed.split(), ["timeout", "nothing"])

    def test_a_run_can_be_fed_in_a_child_that_was_forked_while_a_thread_fed_it(self):
        self.run_script(
            """
run = plimsoll.experiment("run")
is_held, is_over = threading.Event(), threading.Event()

def hold():
    with run._lock:
        is_held.set()
        is_over.wait(60)

holder = threading.Thread(target=hold)
holder.start()
is_held.wait(60)
if child := os.fork():
    is_over.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
else:
    signal.alarm(20)
    run.record_timing("op", seconds=0.001)
    plimsoll.flush()
    os._exit(0)
"""
        )
        self.assertEqual(self.received(), {"op": 1})

    def test_other_ends_lose_nothing_either(self):
        table = [
            ("sys.exit(0)", 0),
            ("raise ValueError('x')", 1),
            ("raise KeyboardInterrupt", -signal.SIGINT),
            ("atexit.register(record, 5, 'late')", 0),
            ("plimsoll.flush(); os._exit(0)", 0),
            ("plimsoll.flush(); os.execv(sys.executable, [sys.executable, '-c', ''])", 0),
            ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); signal.raise_signal(15)", 3),
        ]
        for ending, code in table:
            with self.subTest(ending), unix_socket() as listening:
                script = f"{START}\nrecord(100, 'a')\n{ending}"
                run(script, listening.path, code=code, PLIMSOLL_FLUSH_MS="60000")
                late = 5 if "late" in ending else 0
                self.assertEqual(listening.read().samples(), 100 + late)

    def test_a_handler_that_raises_while_the_process_ends_does_not_stop_the_last_flush(self):
        script = """
import time
record(100, "a")
assert plimsoll.flush()
is_raised = threading.Event()
sender = plimsoll.CLIENT._sender
plain = sender.flush

def leave(*_):
    is_raised.set()
    sys.exit(3)

def interrupted():
    sender.flush = plain
    os.kill(os.getpid(), signal.SIGTERM)
    is_raised.wait()
    # Long enough for a process that waits no more to be gone.
    time.sleep(0.2)
    return plain()

signal.signal(signal.SIGTERM, leave)
sender.flush = interrupted
record(7, "b")
"""
        # The exit code depends on the version of Python.
        self.run_script(script, code=None, PLIMSOLL_FLUSH_MS="60000")
        self.assertEqual(self.received(), {"op{who:a}": 100, "op{who:b}": 7})

    def test_death_by_signal_costs_what_was_recorded_since_the_last_flush(self):
        script = START + "record(100, 'a'); plimsoll.flush(); record(7, 'b'); signal.pause()"
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            env=environment(self.listening.path, PLIMSOLL_FLUSH_MS="60000"),
        )
        self.listening.poll_until(lambda: self.listening.samples() == 100)
        process.terminate()
        self.assertEqual(process.wait(), -signal.SIGTERM)
        self.assertEqual(self.received(), {"op{who:a}": 100})

    def test_values_arrive_unrequested(self):
        script = START + "record(3, 'a'); signal.pause()"
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            env=environment(self.listening.path, PLIMSOLL_FLUSH_MS="20"),
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        # And a datagram that marks the end.
        self.listening.poll_until(lambda: len(self.listening.sizes) == 2)
        self.assertEqual(self.received(), {"op{who:a}": 3})

    def test_an_exit_without_a_node_is_quick_and_with_one_that_sleeps_is_bounded(self):
        # Both would run into the time limit of `run`.
        self.run_script("record(100_000, 'a')", PLIMSOLL_SOCKET="/nonexistent/node.sock")
        self.run_script("[plimsoll.record_ns('op', n) for n in range(100_000)]")
        self.assertGreater(self.listening.read().samples(), 5_000)

    def test_a_forked_child_starts_empty_and_both_lose_nothing(self):
        self.run_script(
            """
record(1000, "before")
[call() for _ in range(10)]
child = os.fork()
if child == 0:
    record(500, "child")
    [call() for _ in range(10)]
    sys.exit(0)
record(300, "parent")
assert os.waitpid(child, 0)[1] == 0
""",
            PLIMSOLL_FLUSH_MS="60000",
        )
        self.assertEqual(
            self.received(),
            {
                "op{who:before}": 1_000,
                "op{who:child}": 500,
                "op{who:parent}": 300,
                "call{who:parent}": 20,
            },
        )
        self.assertEqual(len(self.listening.clients), 2)

    def test_a_child_that_records_nothing_sends_nothing(self):
        self.run_script(
            """
record(10, "a")
child = os.fork()
if child == 0:
    assert threading.active_count() == 1
    sys.exit(0)
os.waitpid(child, 0)
"""
        )
        self.assertEqual(self.received(), {"op{who:a}": 10})
        self.assertEqual(len(self.listening.clients), 1)

    def test_a_child_that_a_thread_forked_ends_and_loses_nothing(self):
        # Such a process ends with the last of its threads, without an exit of its interpreter.
        self.run_script(
            """
def fork():
    child = os.fork()
    if child == 0:
        record(50, "child")
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0

record(10, "parent")
thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""
        )
        self.assertEqual(self.received(), {"op{who:parent}": 10, "op{who:child}": 50})

    def test_forks_amid_recording_threads_and_flushes_lose_and_double_nothing(self):
        self.run_script(
            """
def busy():
    for _ in range(20_000):
        plimsoll.record_ns("thread", 5_000_000)

threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
children = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        record(50, "child")
        sys.exit(0)
    children.append(child)
    record(1, "parent")
for thread in threads:
    thread.join()
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
while not plimsoll.flush():
    pass
""",
            PLIMSOLL_FLUSH_MS="10",
            reader=self.listening,
        )
        self.assertEqual(
            self.received(),
            {"thread": 60_000, "op{who:child}": 1_000, "op{who:parent}": 20},
        )
        self.assertEqual(len(self.listening.clients), 21)

    def test_workers_of_multiprocessing_lose_nothing_at_their_end(self):
        require_semaphores()
        for method in ["fork", "spawn", "forkserver"]:
            with self.subTest(method), unix_socket() as listening:
                # Spawned workers import the program, so it must be a file.
                path = os.path.join(os.path.dirname(listening.path), "program.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(
                        START
                        + """
def work(n):
    record(n, "worker")
    call()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    record(10, "parent")
    workers = [context.Process(target=work, args=(100,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    with context.Pool(2) as pool:
        pool.map(work, [10] * 20)
        pool.close()
        pool.join()
"""
                    )
                run_command([path, method], listening.path, listening, PLIMSOLL_FLUSH_MS="60000")
                self.assertEqual(
                    listening.read().counts(),
                    {"op{who:parent}": 10, "op{who:worker}": 500, "call{who:parent}": 23},
                )

    def test_a_signal_handler_may_record_while_the_program_does(self):
        self.run_script(
            """
def on_alarm(*_):
    record(3, "handler")
    call()

signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
count = 0
while count < 300_000:
    plimsoll.record_ns("main", count)
    count += 1
signal.setitimer(signal.ITIMER_REAL, 0)
while not plimsoll.flush():
    pass
""",
            PLIMSOLL_FLUSH_MS="10",
            reader=self.listening,
        )
        counts = self.received()
        self.assertEqual(counts["main"], 300_000)
        self.assertEqual(counts["op{who:handler}"], 3 * counts["call{who:parent}"])

    def test_finalizers_may_record_whenever_the_collector_runs_them(self):
        self.run_script(
            """
class Thing:
    def __init__(self):
        self.me = self

    def __del__(self):
        plimsoll.record_ns("finalized", 1000)
        plimsoll.record_ns("main", 1000)

gc.set_threshold(10)
for number in range(30_000):
    Thing()
    plimsoll.record_ns("main", number * 10_000)
gc.collect()
while not plimsoll.flush():
    pass
""",
            # So that both series fill up, and a finalizer runs while its own thread folds.
            PLIMSOLL_FLUSH_MS="60000",
            reader=self.listening,
        )
        self.assertEqual(self.received(), {"finalized": 30_000, "main": 60_000})


if __name__ == "__main__":
    unittest.main()
