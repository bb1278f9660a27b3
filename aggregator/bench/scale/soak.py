"""Five thousand nodes, a pair of aggregators and random faults for one hour: what grows, and whether
both answer the same."""

import json

from scale import plot
from scale.fleets import MIB, reported
from scale.verdict import Result
from speed import kernel
from speed.process import progress
from speed.table import table

NODES, SECONDS = 5_000, 3_600
QUICK_NODES, QUICK_SECONDS = 500, 600
FLAGS = ("--secured", "--pair", "--faults-every", "60s")
# Distributions since a node's start grow with the logarithm of their samples. Each node begins with
# as many as it records in eight hours, so that what is left to grow would be a leak.
FLAGS += ("--first-samples", "300000", "--join-within", "150s")
# With one message a second on each connection of its own two cores would be full without a fault.
INTERVAL = "5s"
ROWS_MAX = 400
PROCESSES = ("broker", "aggregator", "second_aggregator", "generator")
LEDGER = ("recorded", "merged", "unread", "unaccounted")
KEPT = ("nodes", "connections", "seconds", "interval_seconds", "seed", "messages", "samples", "lost")
KEPT += ("messages_per_second", "resent", "duplicates", "settled_seconds", "freshness", "metrics")
KEPT += ("processes", "faults", "pair", "slopes", "restarted")
MINUTE = 60
HELD = "resident bytes between bursts"


def section(programs, pinned, quick):
    """One run."""
    nodes, seconds = (QUICK_NODES, QUICK_SECONDS) if quick else (NODES, SECONDS)
    flags = ("--connections", str(nodes), "--interval", INTERVAL, *FLAGS)
    facts = kernel.describe() | {"pinned": len(pinned)}
    return {"machine": facts, **kept(reported(programs, pinned, nodes, seconds, *flags))}


def kept(report):
    """What is committed of a run: a few hundred rows by column, and the verdicts."""
    figures = report["fleet"]
    found = {key: figures[key] for key in KEPT if key in figures}
    found["passed"] = report["passed"]
    found["expectations"] = [
        {key: one[key] for key in ("name", "verdict", "seen")} for one in report["expectations"]
    ]
    for one in found["expectations"]:
        if one["verdict"] == "missed":
            progress(f"missed: {one['name']}: {one['seen']}")
    rows = figures["timeline"]
    found["columns"] = columns(rows[:: -(-len(rows) // ROWS_MAX)])
    return found


def columns(rows):
    """Each figure over time; None where a process is down."""
    found = {key: [round(row[key], 2) for row in rows] for key in ("at", "behind", "shown")}
    for name in PROCESSES:
        used = [(row.get("usage") or {}).get(name) or {} for row in rows]
        for key in ("resident_bytes", "handles", "threads"):
            found[f"{name}_{key}"] = [one.get(key) or None for one in used]
    for name in ("ledger", "second_ledger"):
        sums = [row.get(name) or {} for row in rows]
        for key in ("pending", "held", "lost", *LEDGER):
            found[f"{name}_{key}"] = [one.get(key) for one in sums]
    return found


def targets(found):
    """Everything that the drill expects, and that it could judge."""
    return [
        Result(one["name"], one["seen"], one["verdict"] == "met")
        for one in found["expectations"]
        if one["verdict"] != "skipped"
    ]


def tables(found):
    """Each process, the faults, and the targets."""
    facts = found["machine"]
    machine = f"{facts['cores']} x {facts['cpu']}, {facts['kernel']}, all on {facts['pinned']} cores."
    run = f"{found['nodes']} nodes, each with a connection of TLS and a key, send every "
    run += f"{found['interval_seconds']:g} s for {found['seconds'] / MINUTE:.0f} minutes: "
    run += f"{found['messages_per_second']:.0f} messages a second, {found['samples']} samples. "
    run += f"{found['restarted']} nodes begin again."
    return [machine, run, "", *processes(found), "", *faults(found), "", *(one.line() for one in targets(found))]


def processes(found):
    slopes = {slope["of"]: slope for slope in found["slopes"]}
    costs = found.get("processes") or {}
    rows = []
    for name in PROCESSES:
        words = name.replace("_", " ")
        memory, handles, threads = (
            slopes.get(f"{what} of the {words}") for what in (HELD, "handles", "threads")
        )
        cores = f"{costs[name]['cores']:.2f}" if name in costs else "-"
        rows.append(
            [
                words, cores, *grown(memory, MIB), *grown(handles, 1),
                f"{threads['median']:.0f}" if threads else "-",
            ]
        )
    head = ["process, after the first quarter", "cores", "MiB", "in % an hour", "handles"]
    return table([*head, "in % an hour", "threads"], rows)


def grown(slope, unit):
    """The median and the growth."""
    if slope is None:
        return ["-", "-"]
    return [f"{slope['median'] / unit:.0f}", f"{slope['percent_per_hour']:+.2f}"]


def faults(found):
    """By kind: how many, and how long until the lag was gone."""
    kinds = {}
    for fault in found["faults"]:
        kinds.setdefault(fault["kind"], []).append(fault)
    rows = []
    for kind, all_of in sorted(kinds.items()):
        took = [one["recovered_seconds"] for one in all_of if one["recovered_seconds"] is not None]
        cut_short = sum(one["cut_short"] for one in all_of)
        rows.append(
            [
                kind.replace("_", " "), str(len(all_of)),
                f"{max(one['seconds'] for one in all_of):.1f}",
                f"{max(took):.0f}" if took else "-",
                str(len(all_of) - len(took) - cut_short),
                str(cut_short),
            ]
        )
    head = ["fault", "times", "seconds at most", "then recovered after s at most"]
    return table([*head, "not within 60 s", "followed by another too soon"], rows)


def picture(found):
    """Memory, handles, lag and ledger over time; a thin line at each fault."""
    of = found["columns"]
    minutes = [at / MINUTE for at in of["at"]]
    marks = [fault["at"] / MINUTE for fault in found["faults"]]

    def line(key, unit=1):
        return [(x, y / unit) for x, y in zip(minutes, of[key]) if y is not None]

    def lines(key, unit=1):
        names = {name: line(f"{name}_{key}", unit) for name in PROCESSES}
        return {name.replace("_", " "): points for name, points in names.items() if points}

    lag = {"shown by /metrics": line("shown"), "waits for the broker": line("behind")}
    ledger = {name: line(f"second_ledger_{name}", 1e6) for name in LEDGER}
    panels = [
        ("Resident memory", "MiB", lines("resident_bytes", MIB)),
        ("Open handles", "", lines("handles")),
        ("Lag", "s", lag),
        ("Samples in the ledger of the second aggregator", "million", ledger),
    ]
    return plot.document([plot.Times(title, unit, drawn, marks) for title, unit, drawn in panels])


def text(found):
    """The figures as JSON, a line for each."""
    parts = {key: value for key, value in found.items() if key != "columns"}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in parts.items()]
    columns = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in found["columns"].items())
    lines.append(' "columns": {\n' + ",\n".join(columns) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"
