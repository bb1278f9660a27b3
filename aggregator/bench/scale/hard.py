"""Fleets that misuse the mesh: what that does to the time until a sample is shown, to pages and to
memory."""

from scale.fleets import MIB, PROCESSES, fleet, ms
from scale.verdict import Result
from speed.table import table

NODES, SECONDS = 2_000, 20
EXACT = "every node's ledger exact, nothing lost without a name"
# The flags of each run; the first one is for comparison.
CASES = {
    "usual": (),
    "one message of the largest size from every node at once": ("--largest", "8s"),
    "1 % of nodes send 100 times a second": ("--fast", "20"),
    "5 % of nodes hostile": ("--hostile", "100"),
    "1 % of clocks off by hours or years": ("--skewed", "20"),
    "half of the fleet restarts at once": ("--restart-nodes", "8s"),
    "a scraper asks for all nodes ten times a second": ("--scrapers", "1"),
}


def section(programs, pinned, quick):
    """One run for each case; with `quick` of a tenth of the nodes."""
    nodes = NODES // 10 if quick else NODES
    return [
        fleet(programs, pinned, nodes, SECONDS, *scaled(flags, nodes)) | {"case": name}
        for name, flags in CASES.items()
    ]


def scaled(flags, nodes):
    """Numbers of nodes in proportion to the fleet; times and scrapers stay."""
    if not flags or flags[0] not in ("--fast", "--hostile", "--skewed"):
        return flags
    return (flags[0], str(int(flags[1]) * nodes // NODES))


def targets(runs):
    """Whatever they do, the ledger stays exact."""
    return [
        Result(
            f"{run['case']}: {EXACT}",
            f"{run['lost']} of {run['samples']} samples lost by name",
            run["ledger_exact"],
        )
        for run in runs
    ]


def tables(runs):
    """A row for each case, then the verdicts."""
    head = [f"{runs[0]['nodes']} nodes for {runs[0]['seconds']:.0f} s", "messages/s"]
    head += ["shown after ms, p50 / p99", "`/metrics` ms, p50 / p99", "`/metrics/nodes` ms, most"]
    head += ["cores: broker / aggregator / generator", "MiB: broker / aggregator / generator"]
    rows = [row(run) for run in runs]
    return [*table(head, rows), "", *(result.line() for result in targets(runs))]


def row(run):
    costs, fresh, pages = run.get("processes"), run["freshness"], run["metrics"]["took"]
    took = [run["metrics_nodes"]["took"], run["scrapes"]["took"]]
    used = [f"{costs[name]['cores']:.2f}" if costs else "-" for name in PROCESSES]
    resident = [
        f"{costs[name]['resident_bytes_max'] / MIB:.0f}" if costs else "-" for name in PROCESSES
    ]
    return [
        run["case"],
        f"{run['messages_per_second']:.0f}",
        f"{ms(fresh['p50'])} / {ms(fresh['p99'])}" if fresh["count"] else "-",
        f"{ms(pages['p50'])} / {ms(pages['p99'])}",
        ms(max(one["max"] for one in took)) if any(one["count"] for one in took) else "-",
        " / ".join(used),
        " / ".join(resident),
    ]
