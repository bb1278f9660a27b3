"""The report as Markdown. It knows the names of the figures and computes only ratios."""

from scale import breaks, connections, hard, history, micro, pages, recorded, soak
from scale import fleets as of_fleets
from scale.fleets import PROCESSES, cores_used, ms
from speed.table import table, verdict

MIB = 1024 * 1024
TWO_CORES = of_fleets.CORES.most


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
    """A row per run: costs, times, and whether it kept up."""
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
    return [*table(head, rows), *missed_expectations(runs)]


def missed_expectations(runs):
    items = [f"- {run['nodes']} nodes: {what}" for run in runs for what in run["missed"]]
    return ["", "Missed:", "", *items] if items else []


def sweep(runs):
    return fleets(runs)


def long(runs):
    lines = [*fleets(runs), ""]
    for run in runs:
        lines += [result.line() for result in of_fleets.long_targets([run])]
        total = cores_used(run)
        if total:
            lines += limits(run, run["processes"], total)
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
    """Memory at a third of the run and at its end, warm or not."""
    timeline = [second for second in run["timeline"] if second.get("usage")]
    if len(timeline) < 3:
        return []
    early, late = timeline[len(timeline) // 3], timeline[-1]
    growth_of = ", ".join(
        f"{name} {early['usage'][name]['resident_bytes'] / MIB:.0f} to "
        f"{late['usage'][name]['resident_bytes'] / MIB:.0f} MiB"
        for name in PROCESSES[:2]
    )
    return [f"- resident from {early['at']:.0f} s to {late['at']:.0f} s: {growth_of}"]


SECTIONS = {
    "parts": ("Parts alone", micro.tables),
    "sweep": ("Fleets of several sizes", sweep),
    "limits": ("What breaks first", breaks.tables),
    "long": ("Ten thousand nodes for a long time", long),
    "connections": ("A connection for each of ten thousand nodes", connections.tables),
    "hard": ("Fleets that misuse the mesh", hard.tables),
    "pages": ("False pages", pages.tables),
    "history": ("The past beside Prometheus", history.tables),
    "recorded": ("The past of a hundred nodes", recorded.tables),
    "soak": ("One hour with faults", soak.tables),
}
# The targets of each section; those without any measure only.
TARGETS = {
    "parts": micro.targets,
    "sweep": of_fleets.kept_up,
    "long": of_fleets.long_targets,
    "connections": connections.targets,
    "hard": hard.targets,
    "pages": pages.targets,
    "history": history.targets,
    "recorded": recorded.targets,
    "soak": soak.targets,
}


def failures(sections):
    """Sections, and parts of them, that could not be measured."""
    parts = sections.get("parts")
    parts = parts if isinstance(parts, dict) and "failed" not in parts else {}
    named = {**sections, **parts}
    return [name for name, one in named.items() if isinstance(one, dict) and "failed" in one]


def missed(sections):
    """The targets that these sections miss, as lines of text."""
    lines = []
    for name, of in TARGETS.items():
        found = sections.get(name)
        if found is None or (isinstance(found, dict) and "failed" in found):
            continue
        lines += [f"{name}: {one.name}: {one.measured}" for one in of(found) if not one.met]
    return lines


def document(report, names):
    """The machine, then these sections."""
    return "\n".join([*machine(report["machine"]), *sections(report, names)])


def sections(report, names):
    """Those of the named sections that were measured, each under its heading."""
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
