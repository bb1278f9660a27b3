"""What recording costs in the job itself: runs the clients' own benchmarks and judges them.

Each prints one JSON object {"rows": [..]}, whose figures are medians over interleaved rounds.
A row of Rust: name, ns_per_record, and where it has them threads (1) and records_per_second, of
all threads together. A row of Python: variant, ns_over_bare (above an untimed call). What begins
with "plimsoll" is ours.
"""

import json

from speed import peers
from speed.process import Failed, output, say
from speed.programs import ROOT

RUST = ("plimsoll-client", "record_cost")
TIMED = ROOT / "node/client-python/bench/timed_cost.py"
RUST_NS = 3.0
TWO_THREADS = 1.9
PYTHON_SHARE = 0.5


def rows(told, name, cost):
    """The rows that a benchmark told, each with its `name`, its `ns` and whether it is `ours`."""
    try:
        found = json.loads(told)["rows"]
        return [
            {**row, "name": row[name], "ns": row[cost], "ours": row[name].startswith("plimsoll")}
            for row in found
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"the benchmark's JSON cannot be read: {error!r}") from error


def rust(programs, quick):
    """A record through the Rust client, beside other crates."""
    if not programs.has_example(*RUST):
        return {"skipped": "absent: plimsoll-client has no example record_cost"}
    say("rust: building and running record_cost")
    command = ["cargo", "run", "--release", "--locked", "-p", RUST[0], "--example", RUST[1], "--"]
    command += ["--json", *(["--quick"] if quick else [])]
    found = rows(output(command, cwd=ROOT, timeout=900), "name", "ns_per_record")
    for row in found:
        row.setdefault("threads", 1)
        row.setdefault("records_per_second", row["threads"] * 1e9 / row["ns"])
    return {"rows": found, "targets": rust_targets(found)}


def rust_targets(found):
    ours = [row for row in found if row["ours"]]
    best = min((row["ns"] for row in ours if row["threads"] == 1), default=float("inf"))
    targets = [{"name": f"a record <= {RUST_NS:g} ns", "met": best <= RUST_NS}]
    by_threads = {(row["name"], row["threads"]): row["records_per_second"] for row in ours}
    for (name, threads), two in by_threads.items():
        one = by_threads.get((name, 1))
        if threads == 2 and one:
            text = f"{name}, two threads >= {TWO_THREADS:g} x one: {two / one:.2f} x"
            targets.append({"name": text, "met": two >= TWO_THREADS * one})
    return targets


def python(cache, quick):
    """A timed call through the Python client, beside other packages."""
    if not TIMED.exists():
        return {"skipped": "absent: no client-python/bench/timed_cost.py"}
    program, versions = peers.python(cache)
    say("python: running timed_cost.py")
    command = [program, str(TIMED), "--json", *(["--rounds", "9"] if quick else [])]
    found = rows(output(command, timeout=600), "variant", "ns_over_bare")
    return {"rows": found, "versions": versions, "targets": python_targets(found)}


def python_targets(found):
    ours = [row["ns"] for row in found if row["ours"] and "@timed" in row["name"]]
    others = [row["ns"] for row in found if not row["ours"] and row["ns"] > 0]
    if not ours or not others:
        return []
    share = min(ours) / min(others)
    text = f"@timed <= {PYTHON_SHARE:g} of the cheapest other: {share:.2f}"
    return [{"name": text, "met": share <= PYTHON_SHARE}]
