"""Runs the benchmarks that measure one part of the aggregator alone."""

import json

from scale.verdict import Result, Target
from speed.process import Failed, output, progress
from speed.table import table

# The least that any reader does with the bytes of a snapshot.
SCAN = Target("core_way / scan", most=1.3)

# Benchmarks of one part, with their arguments and their subject.
BENCHES = {
    "merge_speed": (["--json"], "decode and merge of a snapshot, beside `hdrhistogram` and a scan"),
    "exposition_speed": (["--json"], "exposition of 100 000 series beside the client libraries"),
    "restart_speed": (["1000", "usual"], "a restart with the state of 1 000 nodes"),
}


def section(programs, _pinned, _quick):
    """The output of each benchmark, as JSON or as text; or why it failed."""
    found = {}
    for name, (flags, _) in BENCHES.items():
        progress(name)
        try:
            printed = output([programs.bench(name), *flags], timeout=900)
            found[name] = json.loads(printed) if "--json" in flags else {"words": printed.splitlines()}
        except (Failed, ValueError) as why:
            progress(f"{name}: {why}")
            found[name] = {"failed": str(why)}
    return found


def merging(shapes):
    """Nanoseconds of each way to take a snapshot, and their ratios, by shape of the latencies."""
    head = ["ns for a snapshot of 1 000 samples", *(one["shape"] for one in shapes)]
    rows = [[name, *(f"{one['ns'][name]:.0f}" for one in shapes)] for name in shapes[0]["ns"]]
    for name in shapes[0]["ratios"]:
        rows.append([f"**{name}**", *(f"**{one['ratios'][name]:.2f}**" for one in shapes)])
    return table(head, rows)


def targets(found):
    """A snapshot of each shape against a bare scan of its bytes."""
    shapes = found.get("merge_speed", [])
    if isinstance(shapes, dict):
        # It failed, which is a failure of its own.
        return []
    return [
        Result(
            f"{SCAN.name} at most {SCAN.most}, {one['shape']}",
            f"{one['ratios'][SCAN.name]:.2f}",
            SCAN.is_met(one["ratios"][SCAN.name]),
        )
        for one in shapes
    ]


def exposition(found):
    """Milliseconds and megabytes of each writer, and of the aggregator's own pages."""
    lines = []
    for title, part in (
        (f"{found['series'][0].get('count', 100_000)} series", found["series"]),
        (f"pages of {found['nodes']} nodes x 3 operations", found["pages"]),
    ):
        rows = [[one["what"], f"{one['ms']:.1f}", f"{one['bytes'] / 1e6:.2f}"] for one in part]
        lines += [*table([title, "ms", "MB"], rows), ""]
    return [*lines, f"Ours as text beside the better crate: **{found['ratio']:.1f} times** as fast."]


def restart(found):
    """The last lines: what reading took, and that nothing differs."""
    return ["```text", *found["words"][-5:], "```"]


WRITERS = {
    "merge_speed": merging,
    "exposition_speed": exposition,
    "restart_speed": restart,
}


def tables(found):
    """Each benchmark's figures as Markdown."""
    lines = []
    for name, figures in found.items():
        lines += ["", f"`{name}`: {BENCHES[name][1]}", ""]
        failed = isinstance(figures, dict) and "failed" in figures
        lines += [f"Not measured: {figures['failed']}"] if failed else WRITERS[name](figures)
        if name == "merge_speed":
            lines += ["", *(result.line() for result in targets(found))]
    return lines[1:]
