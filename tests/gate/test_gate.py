"""The gate's own parts: levels, freshness, schedule, report, and that nothing outlives a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import freshness
import guard
import levels
import report
import schedule
from freshness import Freshness
from schedule import Outcome, Runner, run_all
from steps import STEPS, Level, Step

TABLE = """
## Binary live of plimsoll-tests

| test | contract it shows | level | before s | after s | why not in the gate |
|---|---|---|---|---|---|
| `a::one` | It is exact | gate | 1.0 | | |
| `a::two` | It is exact | all | 90.0 | | long |
"""


def step(name: str, *commands: list[str], **options) -> Step:
    """A step of the gate."""
    words = tuple(tuple(command) for command in commands)
    return Step(name, Level.GATE, options.pop("lane", "a"), words, "it", **options)


@pytest.fixture
def runner(tmp_path, monkeypatch) -> Runner:
    """A runner whose logs go to a folder of the test."""
    monkeypatch.setattr(schedule, "OUT", tmp_path)
    return Runner("/programs", {guard.VARIABLE: "of-the-test"}, lambda _: None)


def test_levels_become_filters():
    tests = levels.live_tests(TABLE)
    assert [(test.name, test.level) for test in tests] == [("a::one", "gate"), ("a::two", "all")]
    gate, later = levels.of_level(tests, "gate"), levels.of_level(tests, "all")
    assert "not (" in gate and "test(=a::two)" in gate and "a::one" not in gate
    assert "test(=a::two)" in later and "a::one" not in later


@pytest.mark.parametrize("bad", [
    TABLE.replace("| all |", "| sometimes |"), TABLE.replace("a::two", "a::one"),
])
def test_a_bad_row_is_named(bad):
    with pytest.raises(levels.BadTable, match=r"LEVELS.md:7: "):
        levels.live_tests(bad)


def test_the_table_of_levels_is_read():
    tests = levels.live_tests()
    assert {test.level for test in tests} == {"gate", "all"}
    assert all(test.contract for test in tests)
    by_gate = {test.contract for test in tests if test.level == "gate"}
    assert len(by_gate) > 20


def test_steps_fit_each_other():
    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names)
    for one in STEPS:
        assert set(one.after) <= set(names), one.name
        assert (one.level is Level.ALL) == bool(one.inputs + one.outside), one.name
        for path in one.inputs + one.outside:
            if path.startswith(":(exclude)"):
                continue
            assert (freshness.ROOT / path).exists(), f"{one.name}: {path} is not there"


def test_steps_of_a_lane_run_in_order_and_lanes_side_by_side(runner, tmp_path):
    note = lambda text: ["sh", "-c", f"echo {text} >> {tmp_path}/order"]  # noqa: E731
    wait = ["sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.01; done"]
    steps = [
        step("first", wait, note("first")), step("second", note("second")),
        step("other", note("other"), ["touch", f"{tmp_path}/go"], lane="b"),
    ]
    outcomes = run_all(steps, runner, 2, lambda _: None)
    assert {outcome.verdict for outcome in outcomes} == {"passed"}
    assert (tmp_path / "order").read_text().split() == ["other", "first", "second"]


def test_one_lane_at_a_time_on_one_core(runner, tmp_path):
    steps = [step(name, ["sh", "-c", f"mkdir {tmp_path}/busy && rmdir {tmp_path}/busy"], lane=name)
             for name in ("a", "b", "c")]
    outcomes = run_all(steps, runner, 1, lambda _: None)
    assert [outcome.verdict for outcome in outcomes] == ["passed"] * 3


def test_a_failure_is_reported_and_skips_what_needs_it(runner):
    steps = [
        step("build", ["sh", "-c", "echo why; exit 3"]),
        step("tests", ["true"], after=("build",)), step("rest", ["true"], lane="b"),
        step("absent", ["/no/such/program"], lane="c"),
        step("slow", ["sleep", "60"], lane="d", deadline_seconds=1),
    ]
    by_name = {outcome.step.name: outcome for outcome in run_all(steps, runner, 4, lambda _: None)}
    assert {name: of.verdict for name, of in by_name.items()} == {
        "build": "failed", "tests": "skipped", "rest": "passed", "absent": "failed", "slow": "failed",
    }
    assert by_name["build"].log.read_text() == "why\n"
    assert "exit code 3" in by_name["build"].reason and "build" in by_name["tests"].reason
    assert "not finished within 1 s" in by_name["slow"].reason


REPOSITORY = """
git init -q . && git config user.email a@b.example && git config user.name a
mkdir deploy src && echo 1 > deploy/unit && echo 1 > src/main && touch green.tsv
git add . && git commit -qm first
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one packaging step and one runtime step, both recorded."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "CI"):
        monkeypatch.delenv(name, raising=False)
    subprocess.run(["sh", "-ec", REPOSITORY], cwd=tmp_path, check=True)
    monkeypatch.setattr(freshness, "ROOT", tmp_path)
    monkeypatch.setattr(freshness, "RECORD", tmp_path / "green.tsv")
    packages = step("packages", ["true"], outside=("deploy",))
    runtime = step("runtime", ["true"], inputs=("src",))
    assert "commit it" in freshness.record([packages, runtime])
    commit(tmp_path, "record")
    return tmp_path, packages, runtime


def commit(folder: Path, text: str) -> None:
    """Commits all changes."""
    subprocess.run(["git", "commit", "-qam", text, "--allow-empty"], cwd=folder, check=True)


def judge(step: Step) -> Freshness:
    """The freshness of a step."""
    return freshness.judge(step, freshness.recorded(), freshness.has_history())


def test_unchanged_inputs_are_fresh_and_changed_ones_are_not(repository):
    folder, packages, runtime = repository
    assert judge(packages).is_fresh and judge(runtime).is_fresh
    (folder / "deploy/unit").write_text("2\n")
    assert judge(packages).runs_in_gate(), "not committed yet"
    commit(folder, "packaging")
    assert judge(packages).runs_in_gate() and judge(runtime).is_fresh


def test_a_changed_document_makes_nothing_stale(repository):
    folder, packages, _ = repository
    (folder / "deploy/README.md").write_text("how\n")
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    commit(folder, "document")
    assert judge(packages).is_fresh


def test_stale_runtime_fails_the_gate_only_after_many_commits(repository, monkeypatch):
    monkeypatch.setattr(freshness, "COMMITS_MAX", 2)
    folder, _, runtime = repository
    (folder / "src/main").write_text("2\n")
    commit(folder, "one")
    commit(folder, "two")
    found = judge(runtime)
    assert (found.is_fresh, found.runs_in_gate(), found.is_overdue()) == (False, False, False)
    commit(folder, "three")
    assert judge(runtime).is_overdue()


def test_a_step_that_was_never_green_fails_the_gate_after_many_commits(repository, monkeypatch):
    monkeypatch.setattr(freshness, "COMMITS_MAX", 2)
    folder, _, _ = repository
    new = step("new", ["true"], inputs=("src",))
    assert not judge(new).is_fresh and not judge(new).is_overdue()
    for text in ("two", "three"):
        commit(folder, text)
    assert judge(new).is_overdue()


def test_a_bad_line_of_the_record_is_named(repository):
    folder, _, _ = repository
    (folder / "green.tsv").write_text("packages\n")
    with pytest.raises(SystemExit, match="green.tsv:1: not a name and two hashes"):
        freshness.recorded()


def test_a_dirty_tree_is_not_recorded(repository):
    folder, packages, _ = repository
    (folder / "src/main").write_text("2\n")
    assert freshness.record([packages]).startswith("not recorded: the tree has changes")


@pytest.mark.parametrize("kind", ["shallow", "tarball"])
def test_without_history_all_are_fresh(repository, tmp_path_factory, monkeypatch, kind):
    folder, packages, _ = repository
    other = tmp_path_factory.mktemp("other")
    if kind == "shallow":
        command = ["git", "clone", "-q", "--depth", "1", f"file://{folder}", str(other)]
        subprocess.run(command, check=True)
    monkeypatch.setattr(freshness, "ROOT", other)
    (folder / "deploy/unit").write_text("2\n")
    found = judge(packages)
    assert found.is_fresh and "no history" in found.reason


JUNIT = """<testsuites><testsuite name="s"><testcase classname="b" name="quick" time="0.1"/>
<testcase classname="b" name="near" time="100.0"/>
<testcase classname="b" name="bad" time="2.0"><failure message="why"/></testcase>
<testcase classname="b" name="absent" time="0"><skipped message="no mounts"/></testcase>
</testsuite></testsuites>"""


def test_the_report_names_slow_failed_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "OUT", tmp_path)
    monkeypatch.setattr(report, "JUNIT", tmp_path / "junit.xml")
    (tmp_path / "live.xml").write_text(JUNIT)
    outcome = Outcome(step("live tests", junit="live.xml"), "failed", 10, 5, "exit code 100")
    cases = report.test_cases(outcome)
    assert [case.verdict for case in cases] == ["passed", "passed", "failed", "skipped"]
    assert report.skipped_reasons(outcome) == ["absent: no mounts"]
    text = "\n".join(report.tests_table(cases) + report.steps_table([outcome], 20))
    assert "100.0  b near: of 120 s" in text and "FAILED: exit code 100" in text and "50 %" in text

    overdue = Freshness(step("old", inputs=("src",)), False, False, 151, "changed")
    assert "FAILS the gate" in "\n".join(report.left_out_table([overdue]))
    report.write_junit([outcome], [overdue])
    written = (tmp_path / "junit.xml").read_text()
    assert written.count("<failure") == 3 and 'name="near"' in written


RUN = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import guard
guard.watch("killed-run")
env = {guard.VARIABLE: "killed-run", "PATH": "/usr/bin:/bin"}
subprocess.Popen(["setsid", "sleep", "77"], env=env)
subprocess.Popen(["sh", "-c", "env -i sleep 78; true"], env=env, start_new_session=True)
print("started", flush=True)
time.sleep(60)
"""


def test_a_killed_run_leaves_no_process():
    gate = str(Path(guard.__file__).parent)
    run = subprocess.Popen([sys.executable, "-c", RUN, gate], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "started\n"
    until(lambda: len(guard.of_run("killed-run")) >= 3)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    until(lambda: not guard.of_run("killed-run"))


def until(is_true, seconds: float = 20) -> None:
    """Waits until it is true."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)
