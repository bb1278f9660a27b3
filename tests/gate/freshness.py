"""Which steps of `--all` were green with the inputs that they have now.

A green step records the hash of its inputs in `green.tsv`, which is committed. The hash covers mode,
content and path of each input as git has them, so the same inputs have the same hash everywhere.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass

from steps import ROOT, Stale, Step

RECORD = ROOT / "tests/gate/green.tsv"
NO_DOCUMENTS = ":(exclude)*.md"
# A runtime step that is stale for longer fails the gate.
COMMITS_MAX = 150


@dataclass(frozen=True)
class Freshness:
    """Whether a step was green with these inputs."""

    step: Step
    is_fresh: bool
    # Commits since its record; None where git does not have them.
    commits: int | None = None
    reason: str = ""

    def runs_in_gate(self) -> bool:
        """Whether the gate runs it."""
        return not self.is_fresh and self.step.stale is Stale.RUN

    def is_overdue(self) -> bool:
        """Whether it fails the gate."""
        return not self.is_fresh and self.step.stale is Stale.REPORT and (
            self.commits is not None and self.commits > COMMITS_MAX
        )


def git(*words: str) -> str | None:
    """What git prints; None if it fails."""
    done = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def has_history() -> bool:
    """False in a tarball and in a shallow clone, where the age of a record is unknown."""
    return (git("rev-parse", "--is-shallow-repository") or "").strip() == "false" and (
        git("rev-parse", "HEAD") is not None
    )


def changes(*paths: str) -> list[str]:
    """Files that differ from the commit, but for the record itself."""
    listed = git("status", "--porcelain", "--", *(paths or (".",))) or ""
    return [line for line in listed.splitlines() if not line.endswith(str(RECORD.name))]


def digest(step: Step) -> str:
    """The hash of the inputs of a step. No test reads the documents beside them."""
    listed = git("ls-files", "-s", "--", *step.inputs, NO_DOCUMENTS) or ""
    return hashlib.sha256(listed.encode()).hexdigest()[:20]


def recorded() -> dict[str, str]:
    """Hash of each step that was green."""
    if not RECORD.exists():
        return {}
    rows = (line.split("\t") for line in RECORD.read_text().splitlines() if "\t" in line)
    return {name: value for name, value in rows}


def age(step: Step, value: str) -> int | None:
    """Commits since the record of a step was committed."""
    line = f"{step.name}\t{value}"
    commit = (git("log", "-1", "--format=%H", f"-S{line}", "--", str(RECORD)) or "").strip()
    count = git("rev-list", "--count", f"{commit}..HEAD") if commit else None
    return int(count) if count else None


def judge(step: Step, known: dict[str, str], history: bool) -> Freshness:
    """Compares a step with its record."""
    if not history:
        return Freshness(step, True, reason="no history: counts as fresh")
    if dirty := changes(*step.inputs, NO_DOCUMENTS):
        return Freshness(step, False, 0, f"not committed: {dirty[0][3:]}")

    value = known.get(step.name)
    if value is None:
        return Freshness(step, False, None, "never recorded")
    commits = age(step, value) or 0
    if value == digest(step):
        return Freshness(step, True, commits, f"green {commits} commits ago")
    return Freshness(step, False, commits, f"changed since it was green, {commits} commits ago")


def record(passed: list[Step]) -> str:
    """Writes down steps that are green; returns what was done, in words."""
    if os.environ.get("CI"):
        return "not recorded: continuous integration commits nothing"
    if not has_history():
        return "not recorded: there is no history"
    if dirty := changes():
        return f"not recorded: the tree has changes, such as {dirty[0][3:]}"

    known = recorded() | {step.name: digest(step) for step in passed}
    text = "".join(f"{name}\t{value}\n" for name, value in sorted(known.items()))
    RECORD.write_text(text)
    return f"recorded in {RECORD.relative_to(ROOT)}: commit it"
