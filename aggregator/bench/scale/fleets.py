"""Runs fleets of simulated nodes on two cores, and draws what they cost."""

import json
import os
import signal
import subprocess

from scale import plot
from speed.process import Failed, say

COUNTS = (1, 10, 100, 1_000, 3_000, 10_000)
MANY = COUNTS[-1]
MIB = 1024 * 1024
# Every tenth second of a long run is enough to see a slope.
KEPT_EVERY = 10


def cores(wanted):
    """So many cores of those that we may use; all when there are no more."""
    return sorted(os.sched_getaffinity(0))[:wanted]


def run(command, environment, pinned, seconds):
    """Output and complaints of a drill. It ends its own processes when asked to, and not when it
    is killed."""
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
    """One run; everything it started has ended. What it missed is in its report."""
    say(f"{nodes} nodes for {seconds} s {' '.join(flags)}")
    command = [programs.binary("drill-fleet"), "--json", "--nodes", str(nodes)]
    command += ["--seconds", str(seconds), *flags]
    environment = {**os.environ, "PLIMSOLL_BIN_DIR": programs.folder}
    said, complaints = run(command, environment, pinned, seconds + 600)
    try:
        report = json.loads(said)
    except ValueError as error:
        words = complaints.strip().splitlines()
        raise Failed(f"drill-fleet: {words[-1] if words else 'it said nothing'}") from error
    figures = report["fleet"]
    figures["timeline"] = figures["timeline"][::KEPT_EVERY]
    figures["passed"] = report["passed"]
    figures["missed"] = [
        f"{one['name']}: {one['seen']}"
        for one in report["expectations"]
        if one["verdict"] == "missed"
    ]
    for missed in figures["missed"]:
        say(f"missed: {missed}")
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


def picture(runs):
    """CPU and memory against the number of nodes."""
    told = [run for run in runs if run.get("processes")]

    def lines(of, names):
        return {
            name: [(run["nodes"], of(run["processes"][name])) for run in told] for name in names
        }

    names = ("broker", "aggregator", "generator")
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
