"""The end of a run: steps with their times, the slowest tests, what was left out; as text and as JUnit."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

from freshness import COMMITS_MAX, Freshness
from schedule import Outcome
from steps import OUT

JUNIT = OUT / "junit.xml"
# The deadline of each test by the JUnit file that has it, as .config/nextest.toml sets them.
DEADLINE_SECONDS = {"live.xml": 120.0, "offline.xml": 120.0, "quick.xml": 120.0}
LONG_DEADLINE_SECONDS = 480.0
NEAR = 0.8
SLOWEST = 10
# The gate's budget, which tests/GATE.md states.
CORE_MINUTES_MAX = 20


@dataclass(frozen=True)
class TestCase:
    """One test of a step."""

    name: str
    seconds: float
    verdict: str
    deadline_seconds: float


def test_cases(outcome: Outcome) -> list[TestCase]:
    """The tests of a step, from its JUnit files."""
    cases = []
    for name in outcome.step.junit.split():
        path = OUT / name
        if not path.exists():
            continue
        deadline = DEADLINE_SECONDS.get(name, LONG_DEADLINE_SECONDS)
        for case in xml.parse(path).getroot().iter("testcase"):
            verdict = "passed"
            if case.find("failure") is not None or case.find("error") is not None:
                verdict = "failed"
            elif case.find("skipped") is not None:
                verdict = "skipped"
            full = f"{case.get('classname', '')} {case.get('name', '')}"
            cases.append(TestCase(full, float(case.get("time", 0)), verdict, deadline))
    return cases


def skipped_reasons(outcome: Outcome) -> list[str]:
    """Why tests could not run here: Rust tests print it, Python tests state it in their JUnit."""
    reasons = set()
    if outcome.log is not None and outcome.log.exists():
        lines = (line.strip() for line in outcome.log.read_text(errors="replace").splitlines())
        reasons |= {line.removeprefix("SKIPPED: ") for line in lines if line.startswith("SKIPPED: ")}

    for name in outcome.step.junit.split():
        path = OUT / name
        cases = xml.parse(path).getroot().iter("testcase") if path.exists() else ()
        for case in cases:
            if (skipped := case.find("skipped")) is not None:
                reasons.add(f"{case.get('name')}: {skipped.get('message')}")
    return sorted(reasons)


def steps_table(outcomes: list[Outcome], wall_seconds: float) -> list[str]:
    """A line for each step; longest first."""
    lines = ["", "  seconds  share  core-s  step"]
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds):
        share = 100 * outcome.seconds / max(wall_seconds, 1)
        mark = "" if outcome.verdict == "passed" else f"  {outcome.verdict.upper()}: {outcome.reason}"
        lines.append(
            f"  {outcome.seconds:7.0f}  {share:3.0f} %  {outcome.core_seconds:6.0f}"
            f"  {outcome.step.name}{mark}"
        )
    return lines


def tests_table(cases: list[TestCase]) -> list[str]:
    """The slowest tests, and those near their deadline."""
    slowest = sorted(cases, key=lambda case: -case.seconds)[:SLOWEST]
    lines = ["", f"  slowest tests of {len(cases)}"]
    lines += [f"  {case.seconds:7.1f}  {case.name}" for case in slowest]

    near = [case for case in cases if case.seconds > NEAR * case.deadline_seconds]
    lines += ["", "  within 20 % of their deadline: " + ("" if near else "none")]
    lines += [f"  {case.seconds:7.1f}  {case.name}: of {case.deadline_seconds:.0f} s" for case in near]
    return lines


def left_out_table(left_out: list[Freshness]) -> list[str]:
    """Steps of `--all` that did not run, and how to run one."""
    if not left_out:
        return []
    lines = ["", "  left out: run one with `deploy/test --only NAME`, all with `deploy/test --all`"]
    for of in left_out:
        state = "fresh" if of.is_fresh else "STALE"
        overdue = f", more than {COMMITS_MAX} commits: FAILS the gate" if of.is_overdue() else ""
        lines.append(f"  {state}    {of.step.name}: {of.reason}{overdue}")
    return lines


def write_junit(outcomes: list[Outcome], left_out: list[Freshness]) -> None:
    """One file for all: a suite of steps, and the suites of their tests."""
    root = xml.Element("testsuites", name="deploy/test")
    suite = xml.SubElement(root, "testsuite", name="steps")
    for outcome in outcomes:
        case = xml.SubElement(
            suite, "testcase", classname="step", name=outcome.step.name, time=f"{outcome.seconds:.3f}"
        )
        if outcome.verdict == "failed":
            xml.SubElement(case, "failure", message=outcome.reason)
        elif outcome.verdict == "skipped":
            xml.SubElement(case, "skipped", message=outcome.reason)
    for of in left_out:
        case = xml.SubElement(suite, "testcase", classname="step", name=of.step.name)
        kind = "failure" if of.is_overdue() else "skipped"
        xml.SubElement(case, kind, message=of.reason)

    for outcome in outcomes:
        for name in outcome.step.junit.split():
            if (OUT / name).exists():
                root.extend(xml.parse(OUT / name).getroot().iter("testsuite"))
    xml.ElementTree(root).write(JUNIT, encoding="utf-8", xml_declaration=True)


def tail(path: Path, lines: int) -> str:
    """The end of a log."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
