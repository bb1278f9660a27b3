"""More nodes than two cores carry: what breaks first, and when."""

import textwrap
from typing import NamedTuple

from scale.fleets import MIB, PROCESSES, fleet, ms
from speed.process import Failed, progress
from speed.table import table

COUNTS = (20_000, 50_000)
SECONDS = 40
# A bound that is passed in this many seconds in a row is broken; a shorter time is a hiccup.
SUSTAINED = 3
SHOWN_MOST = 0.5
BEHIND_MOST = 1.0
FULL_SHARE = 0.95
MEMORY_MOST = 4 * 1024 * MIB
# Characters of what the drill misses.
MISS_LENGTH = 120


class Break(NamedTuple):
    """A bound that a run passed for the first time."""

    what: str
    at: float
    figure: str


def section(programs, pinned, quick):
    """A fleet of each size. One that the drill cannot finish is a result too."""
    return [one(programs, pinned, nodes, SECONDS // 2 if quick else SECONDS) for nodes in COUNTS]


def one(programs, pinned, nodes, seconds):
    try:
        run = fleet(programs, pinned, nodes, seconds, kept_every=1)
    except Failed as why:
        progress(f"{nodes} nodes: {why}")
        return {"nodes": nodes, "seconds": seconds, "ended": str(why)}
    return run | {"pinned": len(pinned)}


def cores(before, now):
    """Cores that each process used between two seconds of a timeline."""
    span = now["at"] - before["at"]
    if span <= 0 or not before.get("usage") or not now.get("usage"):
        return None
    used = {
        name: now["usage"][name]["cpu_seconds"] - before["usage"][name]["cpu_seconds"]
        for name in PROCESSES
    }
    return {name: cpu / span for name, cpu in used.items()}


def memory(second):
    """Resident bytes of broker and aggregator."""
    usage = second.get("usage")
    return sum(usage[name]["resident_bytes"] for name in PROCESSES[:2]) if usage else 0


def over(run, before, second):
    """The bounds that are passed in one second, with their figures."""
    found = {}
    if second["limited"] > 0:
        found["the aggregator's limits"] = f"{second['limited']:.0f} messages and items rejected"
    if second["behind"] > BEHIND_MOST:
        found["the broker's answers"] = f"the oldest message waits {ms(second['behind'])} ms"
    if second["pending"] > run["nodes"] / run["interval_seconds"]:
        found["the aggregator's reading"] = f"{second['pending']:.0f} messages unread"
    if second["shown"] > SHOWN_MOST:
        found["shown after 500 ms"] = f"{ms(second['shown'])} ms"
    used = cores(before, second)
    if used and sum(used.values()) >= FULL_SHARE * run["pinned"]:
        each = " / ".join(f"{used[name]:.2f}" for name in PROCESSES)
        found["the cores"] = f"{sum(used.values()):.2f} of {run['pinned']} in use ({each})"
    if memory(second) > MEMORY_MOST:
        found["4 GiB of memory"] = f"{memory(second) / MIB:.0f} MiB of broker and aggregator"
    return found


def breaks(run):
    """The bounds that were passed for some seconds in a row, by the time at which that began."""
    timeline = [second for second in run["timeline"] if second["at"] <= run["seconds"]]
    passed = [over(run, *pair) for pair in zip(timeline, timeline[1:])]
    found = {}
    for place in range(len(passed) - SUSTAINED + 1):
        row = passed[place : place + SUSTAINED]
        for what, figure in row[0].items():
            if what not in found and all(what in second for second in row):
                found[what] = Break(what, timeline[place + 1]["at"], figure)
    return sorted(found.values(), key=lambda one: one.at)


def tables(runs):
    """A row for each size, then what broke in each."""
    rows = [row(run) for run in runs if "ended" not in run]
    head = ["nodes", "messages/s", "shown after ms, p50 / p99", "unread at the end"]
    head += ["cores: broker / aggregator / generator", "MiB: broker / aggregator / generator"]
    head += ["samples lost"]
    lines = [*table(head, rows), ""] if rows else []
    return [*lines, *(f"- {run['nodes']} nodes: {words(run)}" for run in runs)]


def row(run):
    costs, fresh = run.get("processes"), run["freshness"]
    used = [f"{costs[name]['cores']:.2f}" if costs else "-" for name in PROCESSES]
    resident = [
        f"{costs[name]['resident_bytes_max'] / MIB:.0f}" if costs else "-" for name in PROCESSES
    ]
    inside = [second for second in run["timeline"] if second["at"] <= run["seconds"]]
    return [
        f"{run['nodes']} for {run['seconds']:.0f} s",
        f"{run['messages_per_second']:.0f}",
        f"{ms(fresh['p50'])} / {ms(fresh['p99'])}" if fresh["count"] else "-",
        f"{inside[-1]['pending']:.0f}" if inside else "-",
        " / ".join(used),
        " / ".join(resident),
        f"{run['lost']} of {run['samples']}",
    ]


def words(run):
    """What broke first and next, with figures; then what the drill missed."""
    if "ended" in run:
        return f"the drill does not finish: {run['ended']}"
    found = breaks(run)
    places = [f"{one.what} after {one.at:.0f} s ({one.figure})" for one in found]
    text = f"first {', then '.join(places)}" if places else "nothing breaks"
    # Some name thousands of nodes.
    missed = (textwrap.shorten(one, MISS_LENGTH, placeholder=" ...") for one in run["missed"])
    missed = f"; the drill misses: {'; '.join(missed)}" if run["missed"] else ""
    return text + missed
