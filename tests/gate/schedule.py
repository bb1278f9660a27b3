"""Runs steps side by side: one at a time in each lane, each after those that it needs."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from steps import OUT, Step

# A step may take some 4 GiB: a link of a test binary beside a mesh.
MEMORY_OF_A_LANE_BYTES = 4 << 30


@dataclass
class Outcome:
    """What became of a step."""

    step: Step
    # passed, failed or skipped.
    verdict: str
    seconds: float = 0.0
    core_seconds: float = 0.0
    # Why it was skipped, or how it failed.
    reason: str = ""
    log: pathlib.Path | None = None


class Stopped(Exception):
    """The run was asked to end."""


class Runner:
    """Runs one step at a time in its own process group, and keeps what it printed."""

    def __init__(self, programs: str, marker: dict[str, str], say: Callable[[str], None]) -> None:
        self.programs, self.marker, self.say = programs, marker, say
        self.running: dict[int, str] = {}
        self.lock = threading.Lock()
        self.stopping = False

    def run(self, step: Step) -> Outcome:
        """Runs the commands of a step until one fails."""
        log = OUT / f"{step.name.replace(' ', '-')}.log"
        started, core_seconds = time.monotonic(), 0.0
        self.say(f"== {step.name}: started")

        with log.open("wb") as output:
            for command in step.commands:
                left = step.deadline_seconds - (time.monotonic() - started)
                code, cost = self.command(step, command, output, left)
                core_seconds += cost
                if code != 0:
                    break

        took = time.monotonic() - started
        if code == 0:
            return Outcome(step, "passed", took, core_seconds, log=log)
        reason = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
        if took >= step.deadline_seconds:
            reason = f"not finished within {step.deadline_seconds} s"
        return Outcome(step, "failed", took, core_seconds, f"{reason} of: {' '.join(command)}", log)

    def command(self, step: Step, command, output, left: float) -> tuple[int, float]:
        """Exit code and core-seconds of a command with all that it waited for."""
        fill = lambda text: text.replace("{programs}", self.programs)  # noqa: E731
        env = os.environ | self.marker | {name: fill(value) for name, value in step.env.items()}
        words = [fill(word) for word in command]

        with self.lock:
            if self.stopping:
                return -signal.SIGTERM, 0.0
            try:
                process = subprocess.Popen(
                    words, cwd=step.folder, env=env, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=output, start_new_session=True,
                )
            except OSError as error:
                output.write(f"{words[0]}: {error}\n".encode())
                return 127, 0.0
            self.running[process.pid] = step.name

        timer = threading.Timer(max(left, 1), self.end, [process.pid])
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        with self.lock:
            self.running.pop(process.pid, None)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, used.ru_utime + used.ru_stime

    def end(self, group: int, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the processes of a step."""
        try:
            os.killpg(group, number)
        except OSError:
            # It has ended meanwhile.
            pass

    def stop(self) -> None:
        """Ends what runs, and starts nothing more."""
        with self.lock:
            self.stopping = True
            groups = list(self.running)
        for group in groups:
            self.end(group, signal.SIGTERM)


def lanes_at_once() -> int:
    """How many steps may run at once on this machine: one core or little memory allow one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if len(os.sched_getaffinity(0)) < 2:
        return 1
    return max(1, min(4, memory // MEMORY_OF_A_LANE_BYTES))


def run_all(steps: list[Step], runner: Runner, at_once: int,
            on_end: Callable[[Outcome], None]) -> list[Outcome]:
    """Runs all steps; one whose predecessor failed is skipped. Returns them as they ended."""
    waiting, ended = list(steps), {}
    names = {step.name for step in steps}
    busy: dict[str, threading.Thread] = {}
    changed = threading.Condition()

    def work(step: Step) -> None:
        try:
            outcome = runner.run(step)
        except Exception as error:  # noqa: BLE001
            outcome = Outcome(step, "failed", reason=f"the runner itself failed: {error!r}")
        on_end(outcome)
        with changed:
            ended[step.name] = outcome
            del busy[step.lane]
            changed.notify()

    def next_step() -> Step | None:
        for step in waiting:
            needed = [ended.get(name) for name in step.after if name in names]
            if step.lane not in busy and all(needed):
                return step
        return None

    with changed:
        while waiting or busy:
            step = next_step() if len(busy) < at_once else None
            if step is None:
                # With a bound, so that a signal handler gets its turn.
                changed.wait(0.5)
                continue

            waiting.remove(step)
            bad = [name for name in step.after if name in names and ended[name].verdict != "passed"]
            if bad:
                ended[step.name] = Outcome(step, "skipped", reason=f"needs {bad[0]}")
                on_end(ended[step.name])
                continue
            busy[step.lane] = threading.Thread(target=work, args=[step], daemon=True)
            busy[step.lane].start()
    return list(ended.values())
