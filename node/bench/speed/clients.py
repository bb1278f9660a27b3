"""The cost of recording in the job itself: runs the benchmarks of the clients and judges them.

Each prints one JSON object {"rows": [..]}, whose figures are medians over interleaved rounds.
A row of Rust: name, ns_per_record; beside the rows stands scaling, the throughput of two threads
over that of one. A row of Python: variant, ns_over_bare, which is the cost above an untimed call.
"""

import json

from speed import peers
from speed.process import Failed, output, progress
from speed.programs import ROOT
from speed.targets import Target

RUST = "record_cost"
TIMED = ROOT / "node/client-python/bench/timed_cost.py"
PACKAGES = {"prometheus_client": "prometheus_client", "statsd": "statsd"}
OTHERS = ("hdrhistogram", "prometheus", "statsd")
TARGETS = {
    "record": Target("a record in Rust", "<=", 3.0, "ns"),
    "two_threads": Target("throughput of two threads over one", ">=", 1.9, "x"),
    "timed": Target("@timed over the cheapest alternative", "<=", 0.5, "x"),
}


def parsed(printed, name, cost):
    """The output of a benchmark; each row with its `name`, its `ns` and whether it is an `other`."""
    try:
        found = json.loads(printed)
        found["rows"] = [
            {"name": row[name], "ns": row[cost], "other": row[name].startswith(OTHERS)}
            for row in found["rows"]
        ]
        return found
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"the benchmark's JSON cannot be read: {error!r}") from error


def cheapest(rows, name):
    """The lowest cost among rows whose name begins so; None when there is none."""
    return min((row["ns"] for row in rows if row["name"].startswith(name)), default=None)


def rust(programs):
    """A record through the Rust client, beside other crates."""
    progress(f"rust: running {RUST}")
    printed = output([programs.bench(RUST), "--json"], timeout=600)
    found = parsed(printed, "name", "ns_per_record")
    ours = cheapest(found["rows"], "plimsoll record")
    if ours is None or "scaling" not in found:
        raise Failed(f"{RUST} has no row of ours or no scaling")
    judged = [TARGETS["record"].judge(ours), TARGETS["two_threads"].judge(found["scaling"])]
    return {"rows": found["rows"], "targets": judged}


def python(cache, quick):
    """A timed call through the Python client, beside other packages."""
    program, versions = peers.python(cache, PACKAGES)
    progress("python: running timed_cost.py")
    command = [program, str(TIMED), "--json", *(["--rounds", "9"] if quick else [])]
    rows = parsed(output(command, timeout=600), "variant", "ns_over_bare")["rows"]
    ours, other = cheapest(rows, "plimsoll @timed"), cheapest(rows, OTHERS)
    if ours is None:
        raise Failed(f"{TIMED.name} has no row of ours")
    # Without an alternative there is nothing to compare with; the table shows that.
    judged = [] if other is None else [TARGETS["timed"].judge(ours / other)]
    return {"rows": rows, "versions": versions, "targets": judged}
