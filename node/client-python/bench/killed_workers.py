"""What workers that are killed lose: by how they were started and by how they end.

    python node/client-python/bench/killed_workers.py [--json]
    PLIMSOLL_SOCKET=/run/plimsoll/node.sock python .. killed_workers.py --ending sigkill --json

Each worker times calls of a few milliseconds and appends the time of each to a file of its own,
which no death can take back. Without PLIMSOLL_SOCKET a socket here takes what they send and counts
it by worker; since a worker sends in order, what is missing are its last calls. With it, a node
counts, and this program prints what was recorded, and how much of it within the last moments
before each death (`--recent-ms`). Judges nothing; the exit code is 0 unless a worker fails.
"""

import argparse
import json
import multiprocessing
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import plimsoll  # noqa: E402

OPERATION = "killed_worker"
STARTS = ("fork", "forkserver", "spawn")
ENDINGS = ("pool", "rest", "closed", "sigterm", "sigkill", "exit", "exception")
_LINE = re.compile(rf"{OPERATION}:([^|]+)\|ms(?:\|@([^|]+))?\|#worker:(\d+)")
_TIME = struct.Struct("=Q")


class Case(NamedTuple):
    """One table row's worth of workers."""

    start: str
    ending: str
    workers: int
    calls: int
    """Of each worker."""
    call_ms: float
    rest_s: float
    """Between the last call and the end, for the ending `rest`."""


class Recorded(NamedTuple):
    """What the workers' own files hold, and when each worker was killed."""

    times_ns: Dict[str, List[int]]
    ended_ns: Dict[str, int]

    def recent(self, recent_ms: float) -> int:
        """Calls recorded in the last moments before the end of their worker."""
        return sum(
            time_ns > self.ended_ns[worker] - recent_ms * 1e6
            for worker, times_ns in self.times_ns.items()
            for time_ns in times_ns
        )

    def total(self) -> int:
        """All calls."""
        return sum(map(len, self.times_ns.values()))


def call(folder: str, call_ms: float) -> None:
    """One timed call, and its line in the worker's own file."""
    with plimsoll.timer(OPERATION, worker=os.getpid()):
        time.sleep(call_ms / 1_000)
    with open(os.path.join(folder, str(os.getpid())), "ab", buffering=0) as file:
        file.write(_TIME.pack(time.monotonic_ns()))


def work(folder: str, calls: int, call_ms: float, ending: str) -> None:
    """The calls of a worker outside a pool; one that is to be killed goes on until it is."""
    done = 0
    while done < calls or ending.startswith("sig"):
        call(folder, call_ms)
        done += 1
    if ending == "exit":
        os._exit(0)
    sys.stderr = open(os.devnull, "w")  # The traceback is no news.
    raise ValueError("the end of this worker")


def run_pool(case: Case, folder: str) -> Dict[str, int]:
    """A pool; leaving it kills its workers, as soon as the last result is there."""
    with multiprocessing.get_context(case.start).Pool(case.workers) as pool:
        tasks = [(folder, case.call_ms)] * (case.workers * case.calls)
        pool.starmap(call, tasks, chunksize=1)
        time.sleep(case.rest_s if case.ending == "rest" else 0)
        if case.ending == "closed":
            pool.close()
            pool.join()
        ended_ns = time.monotonic_ns()
    return dict.fromkeys(os.listdir(folder), ended_ns)


def run_processes(case: Case, folder: str) -> Dict[str, int]:
    """Workers without a pool; those that end by themselves do so after their last call."""
    context = multiprocessing.get_context(case.start)
    given = (folder, case.calls, case.call_ms, case.ending)
    workers = [context.Process(target=work, args=given) for _ in range(case.workers)]
    for worker in workers:
        worker.start()
    ended_ns = {}
    if case.ending.startswith("sig"):
        await_calls(folder, case)
        for worker in workers:
            ended_ns[str(worker.pid)] = time.monotonic_ns()
            os.kill(worker.pid or 0, signal.Signals[case.ending.upper()])
    for worker in workers:
        worker.join()
    return ended_ns


def await_calls(folder: str, case: Case) -> None:
    """Until every worker has done its calls."""
    while True:
        sizes = [os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)]
        if len(sizes) == case.workers and min(sizes) >= case.calls * _TIME.size:
            return
        time.sleep(0.005)


def run(case: Case) -> Recorded:
    """Runs the workers of one case to their end."""
    with tempfile.TemporaryDirectory() as folder:
        is_pool = case.ending in ("pool", "rest", "closed")
        ended_ns = (run_pool if is_pool else run_processes)(case, folder)
        times_ns = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                times_ns[name] = [found for (found,) in _TIME.iter_unpack(file.read())]
    last_ns = {worker: found[-1] for worker, found in times_ns.items()}
    return Recorded(times_ns, {**last_ns, **ended_ns})


class Reader:
    """Stands in for a node: counts what arrives by worker."""

    def __init__(self, path: str) -> None:
        self.arrived: Dict[str, int] = {}
        self.datagrams = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.settimeout(0.3)
        self._is_over = False
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Reads until nothing comes any more.
        self._is_over = True
        self._thread.join()
        self._is_over = False
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        while True:
            try:
                datagram = self._socket.recv(65_536).decode()
            except socket.timeout:
                if self._is_over:
                    return
                continue
            self.datagrams += 1
            for values, rate, worker in _LINE.findall(datagram):
                count = (values.count(":") + 1) * round(1 / float(rate or 1))
                self.arrived[worker] = self.arrived.get(worker, 0) + count


def measure(case: Case, reader: Reader) -> Dict[str, Any]:
    """One case: a row."""
    datagrams = reader.datagrams
    with reader:
        recorded = run(case)
    missing = oldest_ns = 0
    for worker, times_ns in recorded.times_ns.items():
        lost = len(times_ns) - reader.arrived.get(worker, 0)
        if lost > 0:
            missing += lost
            oldest_ns = max(oldest_ns, recorded.ended_ns[worker] - times_ns[-lost])
    return {
        **case._asdict(),
        "recorded": recorded.total(),
        "missing": missing,
        "oldest_missing_ms": round(oldest_ns / 1e6, 1),
        "datagrams": reader.datagrams - datagrams,
    }


def cases(given: argparse.Namespace) -> List[Case]:
    """Those that the arguments name: all, unless they do."""
    return [
        Case(start, ending, given.workers, given.calls, given.call_ms, given.rest_s)
        for ending in ([given.ending] if given.ending else ENDINGS)
        for start in ([given.start] if given.start else STARTS)
    ]


def main(arguments: Optional[List[str]] = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--start", choices=STARTS, help="only workers that are started so")
    parser.add_argument("--ending", choices=ENDINGS, help="only workers that end so")
    parser.add_argument("--workers", type=int, default=8, help="workers of a case")
    parser.add_argument("--calls", type=int, default=25, help="calls of a worker")
    parser.add_argument("--call-ms", type=float, default=10, help="time of a call")
    parser.add_argument("--rest-s", type=float, default=0.4, help="rest before the end `rest`")
    parser.add_argument("--recent-ms", type=float, default=50, help="what counts as recent")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args(arguments)
    # Before the first worker: they read it when they import the package.
    os.environ.update(PLIMSOLL_ENABLE="1", PLIMSOLL_ENABLE_TIMERS="1")
    plimsoll.configure(enable=True)
    rows: List[Dict[str, Any]] = []
    if os.environ.get("PLIMSOLL_SOCKET"):
        for case in cases(given):
            found = run(case)
            recent = found.recent(given.recent_ms)
            rows.append({**case._asdict(), "recorded": found.total(), "recent": recent})
    else:
        # One socket for all: the server of `forkserver` keeps the environment of its start.
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PLIMSOLL_SOCKET"] = path = os.path.join(folder, "node.sock")
            plimsoll.configure(socket=path)
            reader = Reader(path)
            rows = [measure(case, reader) for case in cases(given)]
    if given.json:
        print(json.dumps({"rows": rows}))
        return
    columns = list(rows[0])
    print("  ".join(columns))
    for row in rows:
        print("  ".join(f"{row[name]!s:>{len(name)}}" for name in columns))


if __name__ == "__main__":
    main()
