"""Runs fleets of simulated nodes on two cores, and draws what they cost."""

import json
import os
import signal
import subprocess

from scale import plot
from scale.verdict import Result, Target
from speed.process import Failed, progress

COUNTS = (1, 10, 100, 1_000, 3_000, 10_000)
MANY = COUNTS[-1]
MIB = 1024 * 1024
# Every tenth second of a long run is enough to see a slope.
KEPT_EVERY = 10
PROCESSES = ("broker", "aggregator", "generator")
# Targets of the long run, on two cores with everything on them.
METRICS = Target("`/metrics` under 100 ms", most=0.1)
METRICS_NODES = Target("`/metrics/nodes` under 1 s", most=1.0)
CORES = Target("all on two cores", most=2.0)


def cores(wanted):
    """At most so many of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))[:wanted]


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
        preexec_fn=lambda: os.sched_setaffinity(0, pinned),
    ) as drill:
        try:
            return drill.communicate(timeout=seconds)
        except BaseException:
            drill.send_signal(signal.SIGTERM)
            drill.wait()
            raise


def fleet(programs, pinned, nodes, seconds, *flags):
    """The report of one run, after which no process is left."""
    progress(f"{nodes} nodes for {seconds} s {' '.join(flags)}")
    command = [programs.binary("drill-fleet"), "--json", "--nodes", str(nodes)]
    command += ["--seconds", str(seconds), *flags]
    environment = {**os.environ, "PLIMSOLL_BIN_DIR": programs.folder}
    printed, errors = run(command, environment, pinned, seconds + 600)
    try:
        report = json.loads(printed)
    except ValueError as error:
        lines = errors.strip().splitlines()
        raise Failed(f"drill-fleet: {lines[-1] if lines else 'no output'}") from error
    figures = report["fleet"]
    figures["timeline"] = figures["timeline"][::KEPT_EVERY]
    figures["passed"] = report["passed"]
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


def mix(programs, pinned, quick):
    """As many messages as real nodes send: three an interval."""
    seconds = 20 if quick else 60
    return [fleet(programs, pinned, n, seconds, "--other-every", "1s") for n in (3_000, MANY)]


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
    return results


def cores_used(run):
    costs = run.get("processes")
    return sum(costs[name]["cores"] for name in PROCESSES) if costs else None


def ms(seconds):
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.1f}"


def picture(runs):
    """CPU and memory against the number of nodes."""
    measured = [run for run in runs if run.get("processes")]

    def lines(of, names):
        return {
            name: [(run["nodes"], of(run["processes"][name])) for run in measured]
            for name in names
        }

    names = PROCESSES
    panels = [
        plot.Panel(
            "CPU against the number of nodes", "cores", lines(lambda cost: cost["cores"], names)
        ),
        plot.Panel(
            "Resident memory against the number of nodes",
            "MiB",
            lines(lambda cost: cost["resident_bytes_max"] / MIB, names),
        ),
    ]
    return plot.document(panels)
