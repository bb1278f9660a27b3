"""What the flush thread costs a process, by how often it flushes and how much is recorded.

    python node/client-python/bench/flush_cost.py [--json]

Each row is a process of its own that calls a `@timed` function at a rate for some seconds, beside
a reader of its datagrams. The CPU time is that of the flush thread alone, by its own clock; the
datagrams are counted by the client. Judges nothing; the exit code is always 0.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, List

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
READER = """
import socket, sys
reader = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
reader.bind(sys.argv[1])
print(flush=True)
while True:
    reader.recv(65536)
"""
JOB = """
import json, sys, threading, time
import plimsoll

rate, seconds = float(sys.argv[1]), float(sys.argv[2])

@plimsoll.timed("flush_cost")
def call():
    pass

call()
time.sleep(1.0)
[flusher] = [t for t in threading.enumerate() if t.name == "plimsoll-flush"]
cpu = time.pthread_getcpuclockid(flusher.ident)
before, cpu_before = plimsoll.stats(), time.clock_gettime(cpu)
begun = time.monotonic()
calls = 0
while (elapsed := time.monotonic() - begun) < seconds:
    due = int(elapsed * rate)
    while calls < due:
        call()
        calls += 1
    time.sleep(max(0.001, min(0.1, 1 / rate if rate else 0.1)))
cpu_after, after = time.clock_gettime(cpu), plimsoll.stats()
print(json.dumps({
    "calls_per_s": round(calls / seconds),
    "cpu_percent": round((cpu_after - cpu_before) / seconds * 100, 3),
    "datagrams_per_s": round((after.datagrams - before.datagrams) / seconds, 1),
}))
"""
RATES = (0, 10, 100, 1_000, 10_000)
FLUSHES_MS = (500, 50, 40, 10)


def measure(seconds: float) -> List[Dict[str, Any]]:
    """A row for each rate and time between flushes."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "node.sock")
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, path], stdout=subprocess.PIPE, text=True
        )
        try:
            assert reader.stdout and reader.stdout.readline()
            for rate in RATES:
                for flush_ms in FLUSHES_MS:
                    rows.append({"flush_ms": flush_ms, **job(rate, flush_ms, seconds, path)})
        finally:
            reader.kill()
            reader.communicate()
    return rows


def job(rate: int, flush_ms: int, seconds: float, path: str) -> Dict[str, Any]:
    """One process."""
    variables = {
        **os.environ,
        "PYTHONPATH": os.environ.get("PYTHONPATH") or PACKAGE,
        "PLIMSOLL_ENABLE": "1",
        "PLIMSOLL_ENABLE_TIMERS": "1",
        "PLIMSOLL_FLUSH_MS": str(flush_ms),
        "PLIMSOLL_SOCKET": path,
    }
    command = [sys.executable, "-c", JOB, str(rate), str(seconds)]
    found: Dict[str, Any] = json.loads(subprocess.check_output(command, env=variables))
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--seconds", type=float, default=5, help="time of a row")
    given = parser.parse_args()
    rows = measure(given.seconds)
    if given.json:
        print(json.dumps({"python": sys.version.split()[0], "rows": rows}, indent=2))
        return
    columns = list(rows[0])
    print("  ".join(columns))
    for row in rows:
        print("  ".join(f"{row[name]!s:>{len(name)}}" for name in columns))


if __name__ == "__main__":
    main()
