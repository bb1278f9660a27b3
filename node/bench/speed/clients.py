"""What recording costs in the job itself: runs the clients' own benchmarks and judges them.

Each prints one JSON object {"rows": [..]}, whose figures are medians over interleaved rounds.
A row of Rust: name, ns_per_record; beside the rows stands scaling, the throughput of two threads
over that of one. A row of Python: variant, ns_over_bare, which is the cost above an untimed call.
"""

import json

from speed import peers
from speed.process import Failed, output, say
from speed.programs import ROOT

RUST = "record_cost"
TIMED = ROOT / "node/client-python/bench/timed_cost.py"
PACKAGES = {"prometheus_client": "prometheus_client", "statsd": "statsd"}
OTHERS = ("hdrhistogram", "prometheus", "statsd")
RUST_NS = 3.0
TWO_THREADS = 1.9
PYTHON_SHARE = 0.5


def parsed(told, name, cost):
    """What a benchmark told; each row with its `name`, its `ns` and whether it is an `other`."""
    try:
        found = json.loads(told)
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
    if not programs.has_example(RUST):
        return {"skipped": f"absent: there is no example {RUST}"}
    say(f"rust: running {RUST}")
    told = output([programs.example(RUST), "--json"], timeout=600)
    found = parsed(told, "name", "ns_per_record")
    ours, scaling = cheapest(found["rows"], "plimsoll record"), found.get("scaling")
    targets = []
    if ours is not None:
        targets.append({"name": f"a record <= {RUST_NS:g} ns", "met": ours <= RUST_NS})
    if scaling is not None:
        text = f"two threads >= {TWO_THREADS:g} x one: {scaling:.2f} x"
        targets.append({"name": text, "met": scaling >= TWO_THREADS})
    return {"rows": found["rows"], "targets": targets}


def python(cache, quick):
    """A timed call through the Python client, beside other packages."""
    if not TIMED.exists():
        return {"skipped": "absent: no client-python/bench/timed_cost.py"}
    program, versions = peers.python(cache, PACKAGES)
    say("python: running timed_cost.py")
    command = [program, str(TIMED), "--json", *(["--rounds", "9"] if quick else [])]
    rows = parsed(output(command, timeout=600), "variant", "ns_over_bare")["rows"]
    ours, other = cheapest(rows, "plimsoll @timed"), cheapest(rows, OTHERS)
    targets = []
    if ours is not None and other is not None:
        text = f"@timed <= {PYTHON_SHARE:g} of the cheapest other: {ours / other:.2f}"
        targets.append({"name": text, "met": ours <= PYTHON_SHARE * other})
    return {"rows": rows, "versions": versions, "targets": targets}
