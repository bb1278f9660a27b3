"""Starts programs and ends them by their process id, also after an exception."""

import signal
import socket
import subprocess
import sys
import time

from speed import kernel


class Failed(Exception):
    """A program did not run; the text is one line with the program and the cause."""


def progress(text):
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


class Process:
    """A program of ours in the background; its output goes to a file."""

    def __init__(self, stack, log, command, **options):
        """Starts `command`; the end of `stack` ends it. In a session of its own, so that Ctrl-C
        reaches it through us alone."""
        self.command = command
        self.log = log
        with open(log, "wb") as out:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **options,
            )
        stack.callback(self.end)

    @property
    def pid(self):
        return self.child.pid

    def cpu_seconds(self):
        return kernel.cpu_seconds(self.pid)

    def wait_until(self, ready, seconds=15.0):
        """Polls until `ready()`; fails when the program ends or the time is over."""
        end = time.monotonic() + seconds
        while not ready():
            if self.child.poll() is not None:
                raise Failed(f"{self.command[0]} ended at once: {self.last_line()}")
            if time.monotonic() > end:
                raise Failed(f"{self.command[0]} was not ready in {seconds:.0f} s")
            time.sleep(0.02)

    def last_line(self):
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def end(self):
        if self.child.poll() is not None:
            return
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def output(command, **options):
    """Standard output of a command that must succeed."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"{command[0]}: {words[-1] if words else f'exit code {done.returncode}'}")
    return done.stdout


def free_port(kind=socket.SOCK_DGRAM):
    """A free port on 127.0.0.1."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
