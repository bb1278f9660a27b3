"""The cost of an OTLP point in the receiving process: the node beside a collector.

Both are up all the time and get the same bodies in turn, one after the other on one connection.
Counted is the CPU time of the receiving process, over the points that it took; the collector only
reads them and drops them, the node adds them to its histograms and publishes those.
"""

import json
import re
from dataclasses import replace
from statistics import median

from speed import peers
from speed.process import Failed, output, progress
from speed.programs import ROOT
from speed.targets import Target

LOAD = str(ROOT / "node/bench/speed/otlp_load.py")
PACKAGES = {
    "opentelemetry-proto": "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2",
    "grpcio": "grpc",
}
KINDS = ("histogram", "exponential", "sum")
LOADS = [*((kind, protocol) for protocol in ("http", "grpc") for kind in KINDS)]
LOADS.append(("histogram", "json"))
POINTS = 1_000
COLLECTOR_TARGET = Target("160 exponential buckets over a dropping collector", "<=", 3.0, "x")


def section(programs, stack, folder, cache, quick):
    """All loads in rounds, and the benchmarks of the node's core alone."""
    python, versions = peers.python(cache, PACKAGES)
    url, _ = programs.broker(stack, folder)
    flags = ("--set", "hardware.enabled=false")
    node, to = programs.otlp_node(stack, folder, url, "otlp", *flags)
    servers, skipped = {"plimsoll-node": (node.process, to)}, {}
    heads = {"plimsoll-node": node.version}
    try:
        process, to, version = peers.rotel(stack, folder, cache)
        servers["Rotel"], heads["Rotel"] = (process, to), version
    except Failed as why:
        progress(f"without Rotel: {why}")
        skipped["Rotel"] = str(why)
    seconds, rounds = (2, 1) if quick else (5, 3)
    runs = []
    for turn in range(rounds):
        for kind, protocol in LOADS:
            progress(f"otlp: round {turn + 1} of {rounds}, {kind} over {protocol}")
            for name, (process, to) in servers.items():
                command = [python, LOAD, "--kind", kind, "--protocol", protocol]
                command += ["--to", to[protocol], "--seconds", str(seconds)]
                run = {"server": name, "kind": kind, "protocol": protocol, "round": turn}
                try:
                    runs.append(run | measure(process, command))
                except Failed as why:
                    if process is node.process:
                        raise
                    runs.append(run | {"points": 0, "unanswered": str(why)})
    sent = sum(run["points"] for run in runs if run["server"] == "plimsoll-node")
    decoding = json.loads(output([python, LOAD, "--decode"]))
    rows = [load_row(runs, servers, kind, protocol, decoding) for kind, protocol in LOADS]
    return {
        "servers": heads,
        "versions": versions,
        "skipped": skipped,
        "rounds": rounds,
        "seconds": seconds,
        "rows": rows,
        "targets": targets(rows),
        "unaccounted": sent - node.figure("plimsoll_agent_points_total"),
        "core": [line for name in ("otlp_cost", "points_cost") for line in core(programs, name)],
        "runs": runs,
    }


def measure(process, command):
    """One run: CPU nanoseconds a point."""
    cpu = process.cpu_seconds()
    sent = json.loads(output(command, timeout=120))
    cpu = process.cpu_seconds() - cpu
    if sent["refused"]:
        raise Failed(f"{sent['refused']} points were refused")
    return sent | {"ns_per_point": cpu * 1e9 / sent["points"]}


def load_row(runs, servers, kind, protocol, decoding):
    """Medians over the rounds, and the ratio of the medians."""
    here = [run for run in runs if (run["kind"], run["protocol"]) == (kind, protocol)]
    found = {}
    for server in servers:
        costs = [run["ns_per_point"] for run in here if run["server"] == server and run["points"]]
        found[server] = median(costs) if costs else None
    ours, theirs = found["plimsoll-node"], found.get("Rotel")
    return {
        "kind": kind,
        "protocol": protocol,
        "bytes": max(run.get("bytes", 0) for run in here) / POINTS,
        "ns": found,
        "beside": ours / theirs if ours and theirs else None,
        "decoding": None if protocol == "json" else decoding[kind],
    }


def targets(rows):
    """The verdicts on exponential histograms, when there is a collector beside the node."""
    rows = [row for row in rows if row["kind"] == "exponential" and row["beside"]]
    named = [(f"{COLLECTOR_TARGET.name}, {row['protocol']}", row["beside"]) for row in rows]
    return [replace(COLLECTOR_TARGET, name=name).judge(value) for name, value in named]


def core(programs, bench):
    """The lines that a benchmark of the core alone prints."""
    progress(f"otlp: running {bench}")
    lines = output([programs.bench(bench)], timeout=300).splitlines()
    return [f"{bench}: {re.sub(' +', ' ', line)}" for line in lines]
