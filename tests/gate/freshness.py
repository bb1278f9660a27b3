"""Which steps of `--all` were green with the inputs that they have now.

A green step records the hash of its inputs in `green.tsv`, which is committed. The hash covers mode,
content and path of each input as git has them, so the same inputs have the same hash everywhere.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass

from steps import ROOT, Step

RECORD = ROOT / "tests/gate/green.tsv"
DOCUMENT = ".md"
# A runtime step that is stale for longer fails the gate.
COMMITS_MAX = 150


@dataclass(frozen=True)
class Freshness:
    """Whether a step was green with these inputs."""

    step: Step
    is_fresh: bool
    # Whether it is packaging, the page or a version that has changed.
    is_outside: bool = False
    # Commits since its record, or since there are records; None where git does not have them.
    commits: int | None = None
    reason: str = ""

    def runs_in_gate(self) -> bool:
        """Whether the gate runs it."""
        return not self.is_fresh and self.is_outside

    def is_overdue(self) -> bool:
        """Whether it fails the gate."""
        return not self.is_fresh and not self.is_outside and (self.commits or 0) > COMMITS_MAX


@dataclass(frozen=True)
class Record:
    """The hashes of the inputs with which a step was green; `-` for none."""

    outside: str
    inputs: str

    def line(self, name: str) -> str:
        """A line of the file."""
        return f"{name}\t{self.outside}\t{self.inputs}"


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
    """Files that differ from the commit, but for documents and the record itself."""
    listed = git("status", "--porcelain", "--", *(paths or (".",))) or ""
    return [line for line in listed.splitlines() if not line.endswith((RECORD.name, DOCUMENT))]


def digest(paths: tuple[str, ...]) -> str:
    """The hash of some paths. No test reads the documents beside them."""
    if not paths:
        return "-"
    listed = (git("ls-files", "-s", "--", *paths) or "").splitlines()
    text = "\n".join(line for line in listed if not line.endswith(DOCUMENT))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def present(step: Step) -> Record:
    """The hashes of the inputs as they are now."""
    return Record(digest(step.outside), digest(step.inputs))


def recorded() -> dict[str, Record]:
    """Hashes of each step that was green."""
    if not RECORD.exists():
        return {}
    found = {}
    for number, line in enumerate(RECORD.read_text().splitlines(), 1):
        cells = line.split("\t")
        if len(cells) != 3:
            raise SystemExit(f"{RECORD}:{number}: not a name and two hashes; remove the line")
        found[cells[0]] = Record(cells[1], cells[2])
    return found


def age(step: Step, record: Record | None) -> int:
    """Commits since the record of a step was committed; of one never recorded, since there are records."""
    of_line = ("-1", f"-S{record.line(step.name)}") if record else ()
    found = (git("log", "--format=%H", *of_line, "--", str(RECORD)) or "").split()
    commit = found[-1] if found else None
    count = git("rev-list", "--count", f"{commit}..HEAD") if commit else None
    return int(count) if count else 0


def judge(step: Step, known: dict[str, Record], history: bool) -> Freshness:
    """Compares a step with its record."""
    if not history:
        return Freshness(step, True, reason="no history: counts as fresh")
    for paths, is_outside in ((step.outside, True), (step.inputs, False)):
        if paths and (dirty := changes(*paths)):
            return Freshness(step, False, is_outside, 0, f"not committed: {dirty[0][3:]}")

    record = known.get(step.name)
    commits = age(step, record)
    if record is None:
        return Freshness(step, False, bool(step.outside), commits, "never recorded")
    now = present(step)
    if record == now:
        return Freshness(step, True, commits=commits, reason=f"green {commits} commits ago")
    reason = f"changed since it was green, {commits} commits ago"
    return Freshness(step, False, record.outside != now.outside, commits, reason)


def record(passed: list[Step]) -> str:
    """Writes down steps that are green; returns what was done, in words."""
    if os.environ.get("CI"):
        return "not recorded: continuous integration commits nothing"
    if not has_history():
        return "not recorded: there is no history"
    if dirty := changes():
        return f"not recorded: the tree has changes, such as {dirty[0][3:]}"

    known = recorded() | {step.name: present(step) for step in passed}
    text = "".join(f"{known[name].line(name)}\n" for name in sorted(known))
    RECORD.write_text(text)
    return f"recorded in {RECORD.relative_to(ROOT)}: commit it"
