"""Runs fleets of simulated nodes on two cores, and draws what they cost."""

import json
import os
import resource
import signal
import statistics
import subprocess

from scale import plot
from scale.verdict import Result, Target
from speed.process import Failed, progress

COUNTS = (1, 10, 100, 1_000, 3_000, 10_000)
MANY = COUNTS[-1]
# The drill's expectation: each node's ledger equals the aggregator's, with nothing lost unnamed.
LEDGER = "ledger exact"
MIB = 1024 * 1024
# Every tenth second of a long run is enough to see a slope.
KEPT_EVERY = 10
PROCESSES = ("broker", "aggregator", "generator")
# Targets of the long run, on two cores with everything on them.
SHOWN_MEDIAN = Target("shown after p50 within 150 ms", most=0.15)
SHOWN_SLOWEST = Target("shown after p99 within 500 ms", most=0.5)
METRICS = Target("`/metrics` under 100 ms", most=0.1)
METRICS_NODES = Target("`/metrics/nodes` under 1 s", most=1.0)
CORES = Target("all on two cores", most=2.0)
# Seconds after which a process holds what its bounds allow: the broker's stream (1 GiB) and message
# ids (2 minutes) are full, and so are the aggregator's windows (5 minutes).
WARM_AFTER = {"broker": 200, "aggregator": 320}
# Means of this many seconds are compared, since the broker's garbage collector makes a saw-tooth.
MEAN_OF = 60
GROWTH_SHARE, GROWTH_BYTES = 0.05, 16 * MIB


def cores(wanted):
    """At most so many of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))[:wanted]


def prepare(pinned):
    """Before the drill starts: its cores, and as many open files as it may have."""
    os.sched_setaffinity(0, pinned)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(command, environment, pinned, seconds):
    """Standard output and error of a drill. On SIGTERM it ends its own processes; on SIGKILL it
    cannot."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: prepare(pinned),
    ) as drill:
        try:
            return drill.communicate(timeout=seconds)
        except BaseException:
            drill.send_signal(signal.SIGTERM)
            drill.wait()
            raise


def reported(programs, pinned, nodes, seconds, *flags):
    """The report of one run, after which no process is left."""
    progress(f"{nodes} nodes for {seconds} s {' '.join(flags)}")
    command = [programs.binary("drill-fleet"), "--json", "--nodes", str(nodes)]
    command += ["--seconds", str(seconds), *flags]
    environment = {**os.environ, "PLIMSOLL_BIN_DIR": programs.folder}
    printed, errors = run(command, environment, pinned, seconds + 600)
    try:
        return json.loads(printed)
    except ValueError as error:
        lines = errors.strip().splitlines()
        raise Failed(f"drill-fleet: {lines[-1] if lines else 'no output'}") from error


def fleet(programs, pinned, nodes, seconds, *flags, kept_every=KEPT_EVERY):
    """The figures of one run."""
    report = reported(programs, pinned, nodes, seconds, *flags)
    figures = report["fleet"]
    figures["timeline"] = figures["timeline"][::kept_every]
    figures["passed"] = report["passed"]
    verdicts = {one["name"]: one["verdict"] for one in report["expectations"]}
    figures["ledger_exact"] = verdicts.get(LEDGER) == "met"
    figures["missed"] = [
        f"{one['name']}: {one['seen']}"
        for one in report["expectations"]
        if one["verdict"] == "missed"
    ]
    for missed in figures["missed"]:
        progress(f"missed: {missed}")
    return figures


def sweep(programs, pinned, quick):
    """The same fleet in several sizes."""
    seconds = 12 if quick else 30
    return [fleet(programs, pinned, nodes, seconds) for nodes in COUNTS]


def long(programs, pinned, quick):
    """All nodes for a long time: lag and memory must not grow."""
    return [fleet(programs, pinned, MANY, 60 if quick else 600)]


def kept_up(runs):
    """Of every fleet: each node's ledger is exact and no lag grows."""
    return [
        Result(f"{run['nodes']} nodes: every node's ledger exact, no lag grows", "", run["passed"])
        for run in runs
    ]


def long_targets(runs):
    """The targets of the fleet that runs for long."""
    results = []
    for run in runs:
        results.append(Result("every node's ledger exact, no lag grows", "", run["passed"]))
        shown = run["freshness"] if run["freshness"]["count"] else {"p50": None, "p99": None}
        for target, which in ((SHOWN_MEDIAN, "p50"), (SHOWN_SLOWEST, "p99")):
            words = "not shown" if shown[which] is None else f"{ms(shown[which])} ms"
            results.append(Result(target.name, words, target.is_met(shown[which])))
        pages, nodes = run["metrics"], run["metrics_nodes"]
        took = f"p99 {ms(pages['took']['p99'])} ms, most {ms(pages['took']['max'])} ms, "
        met = METRICS.is_met(pages["took"]["p99"]) and not pages["failed"]
        results.append(Result(METRICS.name, f"{took}{pages['bytes'] / 1024:.0f} KiB", met))
        most = nodes["took"]["max"] if nodes["took"]["count"] else None
        took = f"most {ms(most)} ms, " if most is not None else "not measured, "
        met = METRICS_NODES.is_met(most)
        results.append(Result(METRICS_NODES.name, f"{took}{nodes['bytes'] / MIB:.1f} MiB", met))
        total = cores_used(run)
        if total is not None:
            results.append(Result(CORES.name, f"{total:.2f} cores", CORES.is_met(total)))
        results += flat(run)
    return results


def flat(run):
    """Whether memory grows after warm-up. A run that is too short has no result."""
    results = []
    for name, warm in WARM_AFTER.items():
        early = mean_resident(run, name, warm)
        late = mean_resident(run, name, run["seconds"] - MEAN_OF)
        if run["seconds"] < warm + 2 * MEAN_OF or early is None or late is None:
            continue
        words = f"{early / MIB:.0f} MiB from {warm} s, {late / MIB:.0f} MiB in the last minute"
        met = late - early <= max(GROWTH_SHARE * early, GROWTH_BYTES)
        results.append(Result(f"memory of the {name} flat after warm-up", words, met))
    return results


def mean_resident(run, name, since):
    """The mean of resident bytes in a minute."""
    minute = [
        second["usage"][name]["resident_bytes"]
        for second in run["timeline"]
        if second.get("usage") and since <= second["at"] <= since + MEAN_OF
    ]
    return statistics.fmean(minute) if minute else None


def cores_used(run):
    costs = run.get("processes")
    return sum(costs[name]["cores"] for name in PROCESSES) if costs else None


def ms(seconds):
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.1f}"


def picture(runs):
    """CPU, memory and the time until a sample is shown, against the number of nodes."""
    measured = [run for run in runs if run.get("processes")]

    def lines(of, names):
        return {
            name: [(run["nodes"], of(run["processes"][name])) for run in measured]
            for name in names
        }

    shown = [run for run in runs if run["freshness"]["count"]]
    panels = [
        plot.Panel(
            "CPU against the number of nodes", "cores", lines(lambda cost: cost["cores"], PROCESSES)
        ),
        plot.Panel(
            "Resident memory against the number of nodes",
            "MiB",
            lines(lambda cost: cost["resident_bytes_max"] / MIB, PROCESSES),
        ),
        plot.Panel(
            "Shown after, against the number of nodes",
            "ms",
            {
                which: [(run["nodes"], run["freshness"][which] * 1e3) for run in shown]
                for which in ("p50", "p99")
            },
        ),
    ]
    return plot.document(panels)
