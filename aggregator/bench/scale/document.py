"""Writes what was measured as Markdown. Knows the figures' names and computes only ratios."""

from scale import micro, pages
from speed.table import table

MIB = 1024 * 1024
PROCESSES = ("broker", "aggregator", "generator")
TWO_CORES = 2.0
METRICS_MAX, NODES_MAX = 0.1, 1.0


def verdict(met):
    return "met" if met else "**missed**"


def ms(value):
    return f"{value * 1e3:.0f}" if value >= 0.1 else f"{value * 1e3:.1f}"


def machine(facts):
    load = f"load {facts['load']:.2f} at the start, {facts['load_at_end']:.2f} at the end"
    lines = [
        f"{facts['date']}, commit {facts['commit']}, {facts['cores']} x {facts['cpu']},",
        f"{facts['kernel']}, {facts['broker']}, fleets on {facts['pinned']} cores,",
        f"{load}.",
    ]
    if facts["busy"]:
        lines.append("The machine was busy with other work: trust the ratios, not the figures.")
    return lines


def fleets(runs):
    """One row for each run: what it cost, how long things took, whether it kept up."""
    rows = []
    for run in runs:
        costs = run.get("processes") or {}
        cores = [f"{costs[name]['cores']:.2f}" if costs else "-" for name in PROCESSES]
        memory = [
            f"{costs[name]['resident_bytes_max'] / MIB:.0f}" if costs else "-"
            for name in PROCESSES[:2]
        ]
        fresh, pages, nodes = run["freshness"], run["metrics"], run["metrics_nodes"]
        rows.append(
            [
                f"{run['nodes']} for {run['seconds']:.0f} s",
                f"{run['messages_per_second']:.0f}",
                " / ".join(cores),
                " / ".join(memory),
                f"{ms(fresh['p50'])} / {ms(fresh['p99'])}" if fresh["count"] else "-",
                f"{ms(pages['took']['p50'])} / {ms(pages['took']['p99'])}",
                f"{ms(nodes['took']['max'])}" if nodes["took"]["count"] else "-",
                verdict(run["passed"]),
            ]
        )
    head = ["nodes", "messages/s", "cores: broker / aggregator / generator"]
    head += ["MiB: broker / aggregator", "shown after ms, p50 / p99", "`/metrics` ms, p50 / p99"]
    head += ["`/metrics/nodes` ms, most", "ledger exact, no lag grows"]
    return [*table(head, rows), *missed(runs)]


def missed(runs):
    told = [f"- {run['nodes']} nodes: {what}" for run in runs for what in run["missed"]]
    return ["", "Missed:", "", *told] if told else []


def sweep(runs):
    return ["Bus and hardware messages once in ten intervals.", "", *fleets(runs)]


def long(runs):
    lines = fleets(runs)
    for run in runs:
        costs = run.get("processes") or {}
        total = sum(costs[name]["cores"] for name in PROCESSES) if costs else None
        pages, nodes = run["metrics"], run["metrics_nodes"]
        lines += ["", f"- no lag grows, every node's ledger exact: {verdict(run['passed'])}"]
        lines.append(
            f"- `/metrics` under {METRICS_MAX * 1e3:.0f} ms: p99 {ms(pages['took']['p99'])} ms, "
            f"most {ms(pages['took']['max'])} ms, {pages['bytes'] / 1024:.0f} KiB: "
            f"{verdict(pages['took']['p99'] < METRICS_MAX and not pages['failed'])}"
        )
        lines.append(
            f"- `/metrics/nodes` under {NODES_MAX:.0f} s: most {ms(nodes['took']['max'])} ms, "
            f"{nodes['bytes'] / MIB:.1f} MiB: "
            f"{verdict(nodes['took']['count'] and nodes['took']['max'] < NODES_MAX)}"
        )
        if total:
            lines.append(f"- all on two cores: {total:.2f} cores: {verdict(total <= TWO_CORES)}")
            lines += limits(run, costs, total)
        lines += growth(run)
    return lines


def limits(run, costs, total):
    """Where the next limit lies, if all costs stay in proportion to the messages."""
    one = run["nodes"] / max(costs["aggregator"]["cores"], 1e-9)
    two = run["nodes"] * TWO_CORES / total
    return [
        f"- the next limits, in proportion: two cores are full at {two:.0f} nodes, one core of the "
        f"aggregator at {one:.0f}"
    ]


def growth(run):
    """Memory at a third of the run and at its end."""
    timeline = [second for second in run["timeline"] if second.get("usage")]
    if len(timeline) < 3:
        return []
    early, late = timeline[len(timeline) // 3], timeline[-1]
    told = ", ".join(
        f"{name} {early['usage'][name]['resident_bytes'] / MIB:.0f} to "
        f"{late['usage'][name]['resident_bytes'] / MIB:.0f} MiB"
        for name in PROCESSES[:2]
    )
    return [f"- resident from {early['at']:.0f} s to {late['at']:.0f} s: {told}"]


def mix(runs):
    told = "Bus and hardware messages in every interval, as real nodes send them."
    return [told, "", *fleets(runs)]


SECTIONS = {
    "parts": ("Its parts alone", micro.tables),
    "sweep": ("Fleets of several sizes", sweep),
    "mix": ("With the messages of real nodes", mix),
    "long": ("Ten thousand nodes for long", long),
    "pages": ("False pages", pages.tables),
}


def document(report, names):
    """The machine, and what was measured of these sections."""
    return "\n".join([*machine(report["machine"]), *sections(report, names)])


def sections(report, names):
    """Those of these names that were measured, each under its heading."""
    lines = []
    now = f"{report['machine']['date']}, commit {report['machine']['commit']}"
    for name in names:
        title, write = SECTIONS[name]
        if name in report["sections"]:
            found = report["sections"][name]
            failed = isinstance(found, dict) and "failed" in found
            body = [f"Not measured: {found['failed']}"] if failed else write(found)
            made = report["made"].get(name, now)
            earlier = [f"Measured earlier: {made}.", ""] if made != now else []
            lines += ["", f"### {title}", "", *earlier, *body]
    return lines
