"""Does the gate find defects? Plants one in each of ten areas, all in one clone, and runs the gate on it.

usage: python3 tests/gate/defects.py [--check]

The clone is of the last commit. Each defect names what must fail: a test, or a step. The gate must end red,
and each defect must be found by one of its own. `--check` only checks that each defect can be planted.
Exit codes: 0 all are found (or can be planted), 1 one is not, 2 wrong usage.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Defect:
    """A change of one place, and what finds it."""

    area: str
    file: str
    # This text is in the file once.
    sound: str
    planted: str
    # Matches class and name of a test or step that fails.
    found_by: str


DEFECTS = (
    Defect("ledger", "aggregator/src/core/fleet/ledger/mod.rs",
           "if !entry.seqs.insert(header.seq.0) {", "if !entry.seqs.insert(header.seq.0) && header.seq.0 == 0 {",
           r"plimsoll-aggregator\S* core::fleet::ledger"),
    Defect("outbox", "node/src/core/outbox/unconfirmed/mod.rs",
           "self.copies.len() + upcoming.messages >= self.bounds.messages",
           "self.copies.len() + upcoming.messages >= usize::MAX - self.bounds.messages",
           r"plimsoll-node\S* core::outbox::unconfirmed"),
    Defect("spool", "node/src/core/outbox/mod.rs",
           "add_sealed(message, enqueued, self.spooled)", "add_sealed(message, enqueued, false)",
           r"with_a_spool_a_message_sets_out"),
    Defect("judge", "aggregator/src/core/rules/judge/mod.rs",
           "None if all.samples < self.samples_min => Finding::Insufficient",
           "None if all.samples < self.samples_min => Finding::Clear",
           r"plimsoll-aggregator\S* core::rules::judge"),
    Defect("alerts", "aggregator/src/core/alerting/alert/mod.rs",
           "self.streak = 0;\n                Firing", "Firing",
           r"plimsoll-aggregator\S* core::alerting::alert::"),
    Defect("confirmations", "schemas/src/wire/confirmation.rs",
           "after > 0 && self.spans[after - 1].1 >= seq", "after > 0",
           r"plimsoll-schemas\S* .*confirmation"),
    Defect("page", "aggregator/page/src/units.ts", "withUnit(\"0\", \"s\")", "withUnit(\"\", \"s\")", r"step page build"),
    Defect("package", "deploy/systemd/plimsoll-node.service", "CapabilityBoundingSet=\n", "",
           r"test_packages\S* test_each_unit_leaves_little_exposed"),
    Defect("Kubernetes", "deploy/k8s/node/daemonset.yaml", "terminationGracePeriodSeconds: 30",
           "terminationGracePeriodSecond: 30", r"test_manifests\S* "),
    Defect("wire", "schemas/src/wire/envelope.rs", "    seq: u64,\n    start_ns: u64,",
           "    seq: u64,\n    #[serde(rename = \"start\")]\n    start_ns: u64,",
           r"offline wire_golden"),
)


def plant(tree: Path, defect: Defect) -> None:
    """Changes one place of a tree. Raises ValueError if its text is not there once."""
    path = tree / defect.file
    text = path.read_text()
    if text.count(defect.sound) != 1:
        raise ValueError(f"{defect.area}: {defect.file} does not have {defect.sound!r} once")
    path.write_text(text.replace(defect.sound, defect.planted))


def failures(junit: Path) -> list[str]:
    """Class and name of all that failed."""
    failed = []
    for case in xml.parse(junit).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')} {case.get('name')}")
    return failed


def run(*words: object, **options) -> int:
    """The exit code of a command."""
    return subprocess.run([str(word) for word in words], check=False, **options).returncode


def main() -> int:
    """See the module."""
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="plimsoll-defects-") as folder:
        tree = Path(folder) / "tree"
        if run("git", "clone", "--quiet", ROOT, tree):
            return 1
        try:
            for defect in DEFECTS:
                plant(tree, defect)
        except ValueError as error:
            print(f"defects: {error}", file=sys.stderr)
            return 1
        if sys.argv[1:]:
            return 0

        author = ["-c", "user.name=defects", "-c", "user.email=defects@plimsoll.example"]
        run("git", *author, "commit", "--quiet", "--all", "-m", "defects", cwd=tree)
        # Python packages are those of this checkout; nothing else of it is used.
        (tree / "tests/.venv").symlink_to(ROOT / "tests/.venv")
        code = run("deploy/test", cwd=tree, env=os.environ | {"CI": "true"})
        failed = failures(tree / "target/gate/junit.xml")

    missed = 1 if code == 0 else 0
    for defect in DEFECTS:
        found = [name for name in failed if re.search(defect.found_by, name)]
        missed += not found
        print(f"{defect.area:14} {'found by ' + found[0] if found else 'NOT FOUND'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
