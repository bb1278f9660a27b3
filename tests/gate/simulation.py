"""Runs the simulation on the programs of a folder: other seeds with each commit, the same for the same one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SEEDS = 80


def main(programs: str) -> int:
    """The exit code of drill-sim."""
    head = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False
    )
    first = int(head.stdout, 16) if head.returncode == 0 else 1
    command = [Path(programs) / "drill-sim", "--seeds", str(SEEDS), "--from", str(first)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
