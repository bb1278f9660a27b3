"""What `@timed` costs a call, beside prometheus_client's `Histogram.time()` and statsd's `timer`.

    pip install prometheus_client statsd
    python node/client-python/bench/timed_cost.py [--json]

Each round times every variant once, in turn, so that a slow moment of the machine hits all of
them; the figure of a variant is the median of its rounds, less that of the bare function. All
record into what a job would use: plimsoll into its Unix socket, with a thread here that reads
it, statsd into a UDP socket that is read likewise, prometheus_client into its registry.
Without one of the two packages its row is missing. Judges nothing; the exit code is always 0.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import plimsoll  # noqa: E402

READER = """
import socket, sys
family = socket.AF_UNIX if sys.argv[1] == "unix" else socket.AF_INET
reader = socket.socket(family, socket.SOCK_DGRAM)
reader.bind(sys.argv[2] if sys.argv[1] == "unix" else ("127.0.0.1", 0))
print(reader.getsockname()[1] if sys.argv[1] != "unix" else "", flush=True)
while True:
    reader.recv(65536)
"""

Function = Callable[[int], int]


def bare(value: int) -> int:
    """What is timed: nearly nothing, so that the rest is the cost of timing."""
    return value


def nanoseconds_per_call(function: Function, calls: int) -> float:
    """Mean over one round."""
    numbers = range(calls)
    begun = time.perf_counter_ns()
    for number in numbers:
        function(number)
    return (time.perf_counter_ns() - begun) / calls


def variants(statsd_port: int) -> Dict[str, Function]:
    """The same function, timed by each."""
    made: Dict[str, Function] = {
        "bare": bare,
        "two clock readings": with_clock,
        "decorator that does nothing": decorated(bare),
        "plimsoll @timed": plimsoll.timed("bench_timed")(bare),
        "plimsoll with timer()": with_timer,
        "plimsoll step(), three phases": with_step,
        "plimsoll @timed, cpu=True": plimsoll.timed("bench_idle", cpu=True)(bare),
    }
    try:
        import prometheus_client

        histogram = prometheus_client.Histogram("bench_seconds", "A benchmark")
        made["prometheus_client Histogram.time()"] = histogram.time()(bare)
    except ImportError:
        print("prometheus_client is not installed", file=sys.stderr)
    try:
        import statsd

        client: Any = statsd.StatsClient("127.0.0.1", statsd_port)
        made["statsd timer"] = client.timer("bench")(bare)
    except ImportError:
        print("statsd is not installed", file=sys.stderr)
    return made


def with_clock(value: int) -> int:
    """What no way of timing can do without."""
    time.perf_counter_ns()
    time.perf_counter_ns()
    return value


def decorated(function: Function) -> Function:
    """What no decorator can do without."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            pass

    return call


def with_timer(value: int) -> int:
    """The context manager around the same."""
    with plimsoll.timer("bench_timer"):
        return value


def with_step(value: int) -> int:
    """A step of three phases, of which one has the same inside."""
    with plimsoll.step("bench_step") as step:
        with step.phase("input"):
            pass
        with step.phase("compute"):
            value = bare(value)
        with step.phase("sync"):
            return value


def reader(kind: str, where: str) -> "subprocess.Popen[str]":
    """A process that reads what is sent, on a core of its own if there is one."""
    command = [sys.executable, "-c", READER, kind, where]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measure(rounds: int, calls: int) -> List[Dict[str, Any]]:
    """A row for each variant."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "node.sock")
        readers = [reader("unix", path), reader("udp", "")]
        try:
            ports = [process.stdout.readline() for process in readers if process.stdout]
            plimsoll.configure(enable=True, socket=path)
            timings: Dict[str, List[float]] = {}
            made = variants(int(ports[1]))
            for _ in range(rounds):
                for name, function in made.items():
                    timings.setdefault(name, []).append(nanoseconds_per_call(function, calls))
            plimsoll.flush()
        finally:
            for process in readers:
                process.kill()
                process.communicate()
    return rows(timings)


def rows(timings: Dict[str, List[float]]) -> List[Dict[str, Any]]:
    """Medians, less the bare function's, and how many times plimsoll's that is."""
    medians = {name: statistics.median(rounds) for name, rounds in timings.items()}
    ours = medians["plimsoll @timed"] - medians["bare"]
    return [
        {
            "variant": name,
            "ns_per_call": round(median, 1),
            "ns_over_bare": round(median - medians["bare"], 1),
            "times_plimsoll_timed": round((median - medians["bare"]) / ours, 2),
        }
        for name, median in medians.items()
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=41, help="rounds of every variant")
    parser.add_argument("--calls", type=int, default=20_000, help="calls in a round")
    given = parser.parse_args()
    measured = measure(given.rounds, given.calls)
    if given.json:
        version = sys.version.split()[0]
        print(json.dumps({"python": version, "rounds": given.rounds, "rows": measured}, indent=2))
        return
    print(f"{'':36}{'ns/call':>10}{'over bare':>11}{'x @timed':>10}")
    for row in measured:
        figures = f"{row['ns_per_call']:10.1f}{row['ns_over_bare']:11.1f}"
        print(f"{row['variant']:36}{figures}{row['times_plimsoll_timed']:10.2f}")


if __name__ == "__main__":
    main()
