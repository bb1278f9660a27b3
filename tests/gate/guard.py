"""Ends what a run leaves behind, also when the run itself is killed.

Every process of a run inherits a variable that names the run. A child of the run waits until the
run has ended, however it ended, and then kills each process with that variable, and what such a process
has started.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

VARIABLE = "PLIMSOLL_GATE_RUN"
SWEEP_SECONDS = 10


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a program is in parentheses and may hold anything.
            found[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
    return found


def of_run(run: str) -> dict[int, str]:
    """Processes of a run and their descendants, but for this process: id and command line."""
    mark, of_parent = f"{VARIABLE}={run}".encode(), parents()
    marked = set()
    for pid in of_parent:
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                marked.add(pid)
        except OSError:
            continue

    grown = True
    while grown:
        below = {pid for pid, parent in of_parent.items() if parent in marked} - marked
        marked |= below
        grown = bool(below)
    return {pid: command_line(pid) for pid in marked - {os.getpid()}}


def command_line(pid: int) -> str:
    """The words of a process, for people."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def sweep(run: str) -> dict[int, str]:
    """Kills what is left of a run, and returns it."""
    left: dict[int, str] = {}
    end = time.monotonic() + SWEEP_SECONDS
    while (found := of_run(run)) and time.monotonic() < end:
        left |= {pid: line for pid, line in found.items() if line}
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                # It has ended meanwhile.
                pass
        time.sleep(0.1)
    return left


def watch(run: str) -> None:
    """Starts the child that sweeps once this process has ended."""
    reading, writing = os.pipe()
    if os.fork() != 0:
        os.close(reading)
        # Kept open until this process ends; not inherited by what it executes.
        os.set_inheritable(writing, False)
        return

    os.close(writing)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(reading, 1)
    sweep(run)
    os._exit(0)
