"""`deploy/test` once its tools are installed: chooses the steps, runs them, and reports.

usage: python3 tests/gate [--quick | --all | --only NAME.. | --list]
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import freshness
import guard
import report
from freshness import Freshness
from nextest import target_folder
from schedule import Outcome, Runner, lanes_at_once, run_all
from steps import OUT, ROOT, STEPS, Level, Step

NAMES = {Level.QUICK: "deploy/test --quick", Level.GATE: "deploy/test", Level.ALL: "deploy/test --all"}
# An empty target directory needs this much; less than the second ends any step.
ROOM_BYTES, ROOM_BYTES_MIN = 8 << 30, 1 << 30
EXCERPT_LINES = 150


def say(text: str) -> None:
    """A line for people, written at once: lanes print side by side."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def arguments() -> argparse.Namespace:
    """The command line, which `deploy/test` passes on."""
    parser = argparse.ArgumentParser(prog="deploy/test")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true")
    which.add_argument("--all", action="store_true")
    which.add_argument("--only", action="append", metavar="NAME", default=[])
    which.add_argument("--list", action="store_true")
    return parser.parse_args()


def with_predecessors(names: list[str]) -> list[Step]:
    """The named steps and those that they need."""
    known = {step.name: step for step in STEPS}
    for name in names:
        if name not in known:
            raise SystemExit(f"deploy/test: no step is called {name!r}; `deploy/test --list` has all")
    wanted, grown = set(names), True
    while grown:
        needed = {name for step in wanted for name in known[step].after}
        grown = bool(needed - wanted)
        wanted |= needed
    return [step for step in STEPS if step.name in wanted]


def chosen(options: argparse.Namespace) -> tuple[Level, list[Step], list[Freshness]]:
    """Level, the steps that run, and those of `--all` that do not."""
    if options.only:
        return Level.ALL, with_predecessors(options.only), []
    if options.quick:
        return Level.QUICK, [step for step in STEPS if step.level is Level.QUICK], []

    # Quick tests are a part of the gate's.
    steps = [step for step in STEPS if step.name != "quick Rust tests"]
    if options.all:
        return Level.ALL, steps, []
    known, history = freshness.recorded(), freshness.has_history()
    later = [freshness.judge(step, known, history) for step in steps if step.level is Level.ALL]
    also = {of.step.name for of in later if of.runs_in_gate()}
    running = [step for step in steps if step.level < Level.ALL or step.name in also]
    return Level.GATE, running, [of for of in later if of.step.name not in also]


def print_list() -> None:
    """All steps with level and what they show."""
    for step in STEPS:
        print(f"{step.level.name.lower():6} {step.name:26} {step.shows}")


def without_tools(steps: list[Step]) -> dict[str, str]:
    """Steps that this machine cannot run, and why."""
    missing = {step.name: [tool for tool in step.tools if not shutil.which(tool)] for step in steps}
    return {name: f"{tools[0]} is not installed" for name, tools in missing.items() if tools}


def check_room(target: Path) -> None:
    """Ends the run early if the disk is full."""
    target.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(target).free
    if free < ROOM_BYTES_MIN:
        raise SystemExit(f"deploy/test: {target} has {free >> 20} MiB left; free at least 1 GiB")
    if free < ROOM_BYTES and not (target / "debug").exists():
        say(f"deploy/test: {free >> 30} GiB are left; a build from nothing takes {ROOM_BYTES >> 30}")


def alone_in_checkout() -> object:
    """Waits until no other run uses this checkout; holds until this process ends."""
    OUT.mkdir(parents=True, exist_ok=True)
    lock = (OUT / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say("deploy/test: another run uses this checkout; waiting until it ends")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def tarball_git(folder: str) -> dict[str, str]:
    """Where no git repository is, an empty one outside of the tree, so that files can be listed."""
    if freshness.git("rev-parse", "--git-dir") is not None:
        return {}
    subprocess.run(["git", "init", "--quiet", "--bare", folder], check=True)
    return {"GIT_DIR": folder, "GIT_WORK_TREE": str(ROOT)}


def on_end(outcome: Outcome) -> None:
    """Prints how a step ended; of one that failed, what it printed last."""
    if outcome.verdict == "passed":
        return say(f"== {outcome.step.name}: passed in {outcome.seconds:.0f} s")
    if outcome.verdict == "skipped":
        return say(f"== {outcome.step.name}: skipped, {outcome.reason}")
    text = report.tail(outcome.log, EXCERPT_LINES) if outcome.log else ""
    say(f"{text}\n== {outcome.step.name}: FAILED after {outcome.seconds:.0f} s, {outcome.reason}"
        f"\n   all that it printed: {outcome.log}")


def summary(level: Level, outcomes: list[Outcome], left_out: list[Freshness],
            leftovers: dict[int, str], seconds: float) -> bool:
    """Prints the report, writes JUnit, and returns whether all is well."""
    cases = [case for outcome in outcomes for case in report.test_cases(outcome)]
    reasons = sorted({text for outcome in outcomes for text in report.skipped_reasons(outcome)})
    core_minutes = sum(outcome.core_seconds for outcome in outcomes) / 60
    overdue = [of for of in left_out if of.is_overdue()]

    lines = report.steps_table(outcomes, seconds) + report.tests_table(cases)
    lines += ["", "  this machine cannot run"] + [f"  {reason}" for reason in reasons] if reasons else []
    lines += report.left_out_table(left_out)
    lines += [f"  left behind and killed: {pid} {line}" for pid, line in leftovers.items()]
    if level is not Level.QUICK:
        reports = [outcome.step for outcome in outcomes
                   if outcome.verdict == "passed" and outcome.step.level is Level.ALL]
        lines += [f"  {freshness.record(reports)}"] if reports else []
    report.write_junit(outcomes, left_out)

    verdicts = [outcome.verdict for outcome in outcomes] + [case.verdict for case in cases]
    failed = verdicts.count("failed") + len(overdue) + bool(leftovers)
    lines += [
        "",
        f"  {NAMES[level]}: {seconds:.0f} s, {core_minutes:.1f} core-minutes; {report.JUNIT}",
        f"{verdicts.count('passed')} passed, {failed} failed, {verdicts.count('skipped')} skipped",
    ]
    say("\n".join(lines))
    return failed == 0


def main() -> int:
    """Exit code 0 if nothing failed, 1 if something did, 130 if it was stopped."""
    options = arguments()
    if options.list:
        print_list()
        return 0

    started = time.monotonic() - float(os.environ.get("PLIMSOLL_GATE_TOOLS_SECONDS", 0))
    target = target_folder()
    check_room(target)
    _lock = alone_in_checkout()
    run = f"{os.getpid()}-{time.time_ns()}"
    guard.watch(run)

    with tempfile.TemporaryDirectory(prefix="plimsoll-gate-") as folder:
        os.environ |= tarball_git(f"{folder}/git")
        os.environ.setdefault("CARGO_INCREMENTAL", "0")
        os.environ.setdefault("RUST_BACKTRACE", "1")
        level, steps, left_out = chosen(options)
        absent = without_tools(steps)
        runner = Runner(f"{target}/debug", {guard.VARIABLE: run}, say)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: runner.stop())

        skipped = [Outcome(step, "skipped", reason=absent[step.name])
                   for step in steps if step.name in absent]
        able = [step for step in steps if step.name not in absent]
        outcomes = run_all(able, runner, lanes_at_once(), on_end) + skipped
        leftovers = guard.sweep(run)

    is_well = summary(level, outcomes, left_out, leftovers, time.monotonic() - started)
    return 130 if runner.stopping else 0 if is_well else 1


if __name__ == "__main__":
    # A thread that waits for a step must not keep a stopped run alive.
    threading.excepthook = lambda args: say(f"deploy/test: {args.exc_value!r}")
    sys.exit(main())
