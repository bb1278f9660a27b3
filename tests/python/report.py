"""Judges the JSON report of a local mesh, read from standard input.

    deploy/up --seconds 20 --json | python report.py --nodes 3

Prints what is wrong, one line each, and exits with 1; or prints one line and exits with 0.
"""

import argparse
import json
import sys

OPERATIONS = ("epoch_hook", "kernel_fetch", "publish")


def ledger_faults(who, ledger):
    """A settled ledger that lost nothing."""
    rest = {key: ledger[key] for key in ("held", "unaccounted", "lost") if ledger[key]}
    if rest:
        yield f"{who}: not all samples were merged: {rest}"
    if ledger["recorded"] == 0:
        yield f"{who}: nothing was recorded"
    parts = ledger["merged"] + ledger["held"] + ledger["unaccounted"]
    if ledger["recorded"] != parts + sum(ledger["lost"].values()):
        yield f"{who}: the ledger does not add up: {ledger}"


def operation_faults(who, operations):
    """Every budgeted operation with samples and quantiles in order."""
    for name in OPERATIONS:
        figures = operations.get(name)
        if figures is None or figures["count"] == 0:
            yield f"{who}: no samples of {name}"
            continue
        order = [figures[key] for key in ("min_ns", "p50_ns", "p99_ns", "max_ns")]
        if None in order or order != sorted(order):
            yield f"{who}: {name} has min, p50, p99, max of {order}"


def sum_faults(report):
    """The fleet is the sum of its nodes, and each node what its job sent."""
    nodes = report["nodes"].values()
    for name in OPERATIONS:
        total = sum(node["operations"].get(name, {"count": 0})["count"] for node in nodes)
        fleet = report["fleet"].get(name, {"count": 0})["count"]
        if fleet != total:
            yield f"fleet: {fleet} samples of {name}, its nodes have {total}"
    for who, node in report["nodes"].items():
        for name, sent in node["raw"].items():
            merged = node["operations"].get(name, {"count": 0})["count"]
            if merged != sent:
                yield f"{who}: {merged} samples of {name} merged, the job sent {sent}"


def faults(report, nodes):
    """All that is wrong with a report of this many nodes."""
    if len(report["nodes"]) != nodes:
        yield f"{len(report['nodes'])} nodes, not {nodes}: {sorted(report['nodes'])}"
    scopes = {"fleet": (report["ledger"], report["fleet"])}
    scopes |= {who: (node["ledger"], node["operations"]) for who, node in report["nodes"].items()}
    for who, (ledger, operations) in scopes.items():
        yield from ledger_faults(who, ledger)
        yield from operation_faults(who, operations)
    yield from sum_faults(report)
    if report["accounted"] is not True:
        yield "the report itself states unaccounted samples"


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, required=True, help="how many nodes there must be")
    arguments = parser.parse_args()
    report = json.load(sys.stdin)
    found = list(faults(report, arguments.nodes))
    for fault in found:
        print(fault)
    if found:
        sys.exit(1)
    print(f"{report['ledger']['merged']} samples of {arguments.nodes} nodes, all accounted for")


if __name__ == "__main__":
    main()
