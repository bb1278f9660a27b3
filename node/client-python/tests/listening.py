"""A socket in place of a node, which reads as strictly as one: what tests hold the client to.

It is a real socket of the kernel; only what the node does with the lines is left out. Every
datagram must begin with its sequence line, numbers must have no holes, `before` must be the
samples of all datagrams before it, and none may follow the final one, for each client by itself.
"""

import contextlib
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import defaultdict

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEADLINE_S = 20.0
_SEQUENCE = re.compile(r"_seq\|([A-Za-z0-9_-]{1,64})\|(\d+)\|(\d+)\|(\d+)(\|last)?")
_LINE = re.compile(r"([A-Za-z0-9_./-]+):([^|]+)\|(ms|c|g|ps|bytes|count)(?:\|@([^|]+))?(?:\|#([^|]*))?")


class Client:
    """What the sequence lines of one client state."""

    def __init__(self, number, before):
        self.number = number - 1
        self.counted = before
        self.samples = 0
        # Datagrams that are a number alone; and the sequence line of the final one.
        self.tails = 0
        self.final = None


class Listening:
    """A bound socket and all that came in through it."""

    def __init__(self, path=None):
        self.path = path
        if path is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.bind(("127.0.0.1", 0))
        else:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.bind(path)
        self._socket.setblocking(False)
        self.sizes = []
        self.clients = {}
        self.events = []
        # Name with tags to (value in ns, weight), to the sum, to the last value.
        self.latencies = defaultdict(list)
        self.counters = defaultdict(float)
        self.gauges = {}

    @property
    def address(self):
        """As PLIMSOLL_SOCKET takes it."""
        return self.path or "udp://127.0.0.1:%d" % self._socket.getsockname()[1]

    def close(self):
        """The node is gone, its socket file too."""
        self._socket.close()
        if self.path and os.path.exists(self.path):
            os.unlink(self.path)

    def read(self):
        """Reads what is there."""
        while True:
            try:
                datagram = self._socket.recv(65_536)
            except BlockingIOError:
                return self
            self._take(datagram)

    @contextlib.contextmanager
    def reading(self):
        """Reads on in a thread while the block runs, as a node does."""
        is_over = threading.Event()
        faults = []

        def read_on():
            try:
                while not is_over.is_set():
                    self.read()
                    select.select([self._socket], [], [], 0.01)
            except Exception as fault:
                faults.append(fault)

        thread = threading.Thread(target=read_on)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
        assert not faults, faults[0]
        self.read()

    def poll_until(self, is_enough):
        """Reads until `is_enough()`; fails after DEADLINE_S."""
        deadline = time.monotonic() + DEADLINE_S
        while not is_enough():
            assert time.monotonic() < deadline, f"not in time: {self}"
            self.read()
            time.sleep(0.002)
        return self

    def count(self, series):
        """Samples of a latency, weights included."""
        return sum(weight for _, weight in self.latencies.get(series, []))

    def samples(self):
        """Samples of all latencies."""
        return sum(map(self.count, self.latencies))

    def counts(self):
        """Each latency with its samples."""
        return {series: self.count(series) for series in self.latencies}

    def finals(self):
        """Sequence lines of all final datagrams, in the order of the clients' first ones."""
        return [client.final for client in self.clients.values() if client.final]

    def values_ns(self, series):
        """Values of a latency, sorted, each as often as it counts."""
        return sorted(value for value, weight in self.latencies[series] for _ in range(weight))

    def _take(self, datagram):
        self.sizes.append(len(datagram))
        first, *lines = datagram.decode().split("\n")
        name, number, before, samples, last = _SEQUENCE.fullmatch(first).groups()
        client = self.clients.setdefault(name, Client(int(number), int(before)))
        assert client.final is None, f"{first} after the final {client.final}"
        assert int(number) == client.number + 1, f"{first} after {client.number}"
        assert int(before) == client.counted, f"{first} after {client.counted} samples"
        taken = sum(map(self._line, lines))
        assert taken == int(samples), f"{first} holds {taken} samples"
        client.number += 1
        client.counted += taken
        client.samples += taken
        client.tails += not (lines or last)
        client.final = first if last else None

    def _line(self, line):
        if line.startswith("_e{"):
            self.events.append(line)
            return 0
        assert _LINE.fullmatch(line), f"not a line: {line!r}"
        name, values, kind, rate, tags = _LINE.fullmatch(line).groups()
        series = f"{name}{{{tags}}}" if tags else name
        if kind == "c":
            self.counters[series] += sum(map(float, values.split(":")))
            return 0
        if kind == "g":
            self.gauges[series] = float(values)
            return 0
        weight = 1 / float(rate) if rate else 1
        assert weight.is_integer() if rate else True, f"{rate} is no exact share"
        series += "" if kind == "ms" else f":{kind}"
        raw = 1e6 if kind == "ms" else 1
        read = [(round(float(text) * raw), int(weight)) for text in values.split(":")]
        self.latencies[series] += read
        return len(read) * int(weight)

    def __repr__(self):
        counts = f"{self.counts()}, {dict(self.counters)}, {self.gauges}"
        return f"{len(self.sizes)} datagrams, {counts}"


@contextlib.contextmanager
def unix_socket():
    """A listening Unix socket in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        listening = Listening(os.path.join(folder, "node.sock"))
        try:
            yield listening
        finally:
            listening.close()


def enter(test, context):
    """`TestCase.enterContext`, which Python has from 3.11 on."""
    value = context.__enter__()
    test.addCleanup(context.__exit__, None, None, None)
    return value


def until(what, is_so):
    """Waits until something is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what} in time"
        time.sleep(0.01)


def environment(address, **more):
    """Variables for a process in which everything is on and goes to `address`."""
    switches = ["", "_TIMERS", "_SHARDS", "_EXPERIMENTS"]
    # The tests themselves may run as a rank.
    others = ("PLIMSOLL", "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_", "OMPI_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(others)}
    return {
        **clean,
        "PYTHONPATH": PACKAGE,
        "PYTHONDONTWRITEBYTECODE": "1",
        # Of a fork beside threads, which each of these processes has from Python 3.12 on.
        "PYTHONWARNINGS": "ignore:This process:DeprecationWarning",
        **{f"PLIMSOLL_ENABLE{switch}": "1" for switch in switches},
        "PLIMSOLL_SOCKET": address,
        **more,
    }


def run(script, address, reader=None, code=0, **more):
    """Runs a script to its end in a new interpreter, `reader` reading on; what it printed."""
    return run_command(["-c", script], address, reader, code, **more)


def require_semaphores():
    """Skips the test where processes cannot share semaphores, as a pool does: another interpreter
    makes one."""
    script = "import multiprocessing; multiprocessing.get_context('fork').Lock()"
    tried = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    if tried.returncode != 0:
        error = tried.stderr.strip().splitlines()[-1]
        raise unittest.SkipTest(f"processes cannot share semaphores: {error}")


def run_command(arguments, address, reader=None, code=0, **more):
    """Runs a new interpreter with these arguments to its end, with this exit code unless it is
    None; what it printed."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment(address, **more),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            if reader is not None:
                reader.poll_until(lambda: process.poll() is not None)
            process.wait(DEADLINE_S * 3)
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        printed = output.read()
    is_expected = code in (None, process.returncode)
    assert is_expected, f"exit code {process.returncode} in place of {code}\n{printed}"
    return printed
