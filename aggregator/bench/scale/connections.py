"""One connection for each of ten thousand nodes, and their return after the broker's restart."""

from scale.breaks import cores
from scale.fleets import MANY, MIB, PROCESSES, fleet
from scale.verdict import Result, Target
from speed.table import table

BACK = Target("all connections back within 60 s", most=60)
RATE = Target("at most 500 connects a second", most=500)
# With one message a second on each of ten thousand connections two cores are full without a restart.
INTERVAL = "10s"
NOTHING_LOST = "no sample lost, every node's ledger exact"


def section(programs, pinned, quick):
    """Runs with a restart of the broker, without and with TLS. It comes once each node knows how many
    there are, and early enough for all to return."""
    nodes, seconds, restart = (1_000, 45, "10s") if quick else (MANY, 160, "60s")
    flags = ("--connections", str(nodes), "--restart-broker", restart, "--interval", INTERVAL)
    kinds = [(), ("--secured",)]
    runs = [fleet(programs, pinned, nodes, seconds, *flags, *kind, kept_every=1) for kind in kinds]
    return [thinned(run) for run in runs]


def thinned(run):
    """What is committed of a run: the most of each second, and every tenth look."""
    run["storm_cores"] = storm_cores(run)
    run["timeline"] = run["timeline"][::10]
    if run["restart"]:
        run["restart"]["timeline"] = run["restart"]["timeline"][::10]
    return run


def storm_cores(run):
    """The most cores that the broker used in a second after its restart."""
    pairs = zip(run["timeline"], run["timeline"][1:])
    used = [cores(before, now) for before, now in pairs]
    # A new process begins at zero.
    restarts = [place for place, one in enumerate(used) if one and one["broker"] < 0]
    after = used[restarts[-1] + 1 :] if restarts else []
    return max((one["broker"] for one in after if one), default=None)


def targets(runs):
    """The targets of the return."""
    results = []
    for run in runs:
        restart = run["restart"] or {"back_seconds": None, "connects_per_second_max": None}
        back, rate = restart["back_seconds"], restart["connects_per_second_max"]
        words = "never" if back is None else f"{back:.1f} s"
        results.append(Result(BACK.name + name(run), words, BACK.is_met(back)))
        words = "not measured" if rate is None else f"{rate:.0f}"
        results.append(Result(RATE.name + name(run), words, RATE.is_met(rate)))
        words = f"{run['lost']} of {run['samples']} samples lost"
        results.append(Result(NOTHING_LOST + name(run), words, run["ledger_exact"] and not run["lost"]))
    return results


def tables(runs):
    """What the connections cost, and their return."""
    head = ["connections", "messages/s", "cores: broker / aggregator / generator"]
    head += ["broker's cores at most after its restart", "MiB: broker / aggregator / generator"]
    head += ["all back after s", "connects a second at most", "JetStream requests"]
    rows = [row(run) for run in runs]
    return [*table(head, rows), "", *(result.line() for result in targets(runs))]


def name(run):
    return ", TLS and a key for each" if run.get("secured") else ""


def row(run):
    costs, restart, storm = run.get("processes"), run["restart"] or {}, run["storm_cores"]
    used = [f"{costs[name]['cores']:.2f}" if costs else "-" for name in PROCESSES]
    resident = [
        f"{costs[name]['resident_bytes_max'] / MIB:.0f}" if costs else "-" for name in PROCESSES
    ]
    back = restart.get("back_seconds")
    return [
        f"{run['connections']} for {run['seconds']:.0f} s" + name(run),
        f"{run['messages_per_second']:.0f}",
        " / ".join(used),
        "-" if storm is None else f"{storm:.2f}",
        " / ".join(resident),
        "never" if back is None else f"{back:.1f}",
        f"{restart.get('connects_per_second_max', 0):.0f}",
        f"{restart.get('jetstream_requests', 0)}",
    ]
