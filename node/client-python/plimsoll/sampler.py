"""`sample_stacks`: where the threads of this process are, at some moments of a span.

A thread of its own walks the frames of all others at each tick. Native code that holds the
interpreter's lock delays a tick, so the result states how late ticks were; a tick whose time has
passed is left out rather than made up. Sends nothing, and does nothing until it is called.
"""

import dataclasses
import math
import os
import sys
import threading
from time import perf_counter_ns as clock
from types import CodeType, FrameType
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import limits

TRUNCATED = "[truncated]"
"""The thread of stacks beyond the bound, and the outermost frame of a stack that is cut."""
UNNAMED = "[unnamed]"
"""A thread that `threading` did not start."""
UNKNOWN = "unknown"
"""The state of each thread: no frame shows whether its thread runs or waits."""


class Frame(NamedTuple):
    """One call."""

    function: str
    """The qualified name; before Python 3.11 the bare one."""
    file: str
    """The last two parts of its path."""
    line: int


class Stack(NamedTuple):
    """What a thread was found doing."""

    thread: str
    state: str
    frames: Tuple[Frame, ...]
    """The outermost first."""


@dataclasses.dataclass(frozen=True)
class StackSamples:
    """Stacks of all threads but the sampler's own, and how regular the ticks were."""

    stacks: Dict[Stack, int]
    """How often each was found. Those beyond 10 000 different ones are under TRUNCATED."""
    asked_ticks: int
    taken_ticks: int
    """Fewer than asked where one was late by more than the time between two."""
    lateness_max_ms: float
    """By how much taken ticks were late at most, and in 99 of 100; 0 without ticks."""
    lateness_p99_ms: float


class SamplingError(RuntimeError):
    """No stacks: another request is being served, or the system has no thread to spare."""


class Ticks:
    """When ticks are due, and by how much those taken were late. Reads no clock."""

    def __init__(self, begun_ns: int, asked: int, hz: float) -> None:
        self.asked = asked
        self.lateness_ns: List[int] = []
        self._begun_ns = begun_ns
        self._period_ns = 1e9 / hz
        self._next = 0

    def due_ns(self) -> Optional[int]:
        """When the next tick is due; None after the last one."""
        return self._at_ns(self._next) if self._next < self.asked else None

    def on_tick(self, now_ns: int) -> None:
        """The next tick is taken now; those whose time has passed meanwhile are left out."""
        self.lateness_ns.append(max(0, now_ns - self._at_ns(self._next)))
        self._next += 1
        passed = math.ceil((now_ns - self._begun_ns) / self._period_ns)
        self._next = max(self._next, passed)

    def _at_ns(self, number: int) -> int:
        return self._begun_ns + round(number * self._period_ns)

    def lateness_ms(self, share: float) -> float:
        """The lateness that this share of the ticks did not exceed."""
        ordered = sorted(self.lateness_ns)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1e6 if ordered else 0.0


class Folding:
    """Counts of stacks by their identity; names are looked up once, at the end."""

    def __init__(self) -> None:
        # Thread, whether outer frames are left out, ids of code objects and lines, innermost first:
        # to hash and compare code objects themselves takes longer than the walk.
        self._counts: Dict[Tuple[str, bool, Tuple[int, ...], Tuple[int, ...]], int] = {}
        # Keeps them, so that no id is used again.
        self._codes: Dict[int, CodeType] = {}
        self._beyond = 0

    def add(self, thread: str, innermost: Optional[FrameType]) -> None:
        """Counts the stack that ends in this frame."""
        codes: List[CodeType] = []
        lines: List[int] = []
        frame = innermost
        while frame is not None and len(codes) < limits.STACK_DEPTH_MAX:
            codes.append(frame.f_code)
            lines.append(frame.f_lineno or 0)
            frame = frame.f_back

        key = (thread, frame is not None, tuple(map(id, codes)), tuple(lines))
        if key in self._counts:
            self._counts[key] += 1
        elif len(self._counts) < limits.STACKS_MAX:
            self._counts[key] = 1
            self._codes.update(zip(key[2], codes))
        else:
            self._beyond += 1

    def stacks(self) -> Dict[Stack, int]:
        """All stacks so far, with their counts."""
        names = {number: _names(code) for number, code in self._codes.items()}
        found: Dict[Stack, int] = {}
        for (thread, is_cut, codes, lines), count in self._counts.items():
            frames = [Frame(*names[code], line) for code, line in zip(codes, lines)]
            if is_cut:
                frames.append(Frame(TRUNCATED, "", 0))
            stack = Stack(thread, UNKNOWN, tuple(reversed(frames)))
            # Two definitions of one function at one place look the same.
            found[stack] = found.get(stack, 0) + count
        if self._beyond:
            found[Stack(TRUNCATED, UNKNOWN, ())] = self._beyond
        return found


def _names(code: CodeType) -> Tuple[str, str]:
    """Function and file of a code object."""
    parts = code.co_filename.split(os.sep)
    return getattr(code, "co_qualname", code.co_name), os.sep.join(parts[-2:])


class _Sampling:
    """One request, served by a thread."""

    def __init__(self, asked: int, hz: float) -> None:
        self.stop = threading.Event()
        self.ticks = Ticks(clock(), asked, hz)
        self.folding = Folding()
        self.fault: Optional[Exception] = None

    def run(self) -> None:
        try:
            due_ns = self.ticks.due_ns()
            while due_ns is not None and not self.stop.wait(max(0, due_ns - clock()) / 1e9):
                self.ticks.on_tick(clock())
                self._take()
                due_ns = self.ticks.due_ns()
        except Exception as error:  # It is the caller's, who waits for the thread.
            self.fault = error

    def _take(self) -> None:
        own = threading.get_ident()
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != own:
                self.folding.add(names.get(ident, UNNAMED), frame)


_serving = threading.Lock()


def _forked() -> None:
    """The thread that served a request of the parent is not in the child."""
    global _serving
    _serving = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def sample_stacks(seconds: float, hz: float = 100.0) -> StackSamples:
    """Stacks of all threads, `hz` times a second for `seconds`; returns when these are over.

    The calling thread is among them, waiting here. A tick costs some microseconds for each thread,
    in which the interpreter runs nothing else. Beside a thread that only computes in Python it is
    about 5 ms late, the interpreter's switch interval.

    Raises ValueError for more than 300 s, more than 1 000 ticks a second or 60 000 in all, and
    SamplingError while another request is served, since each would disturb the other's ticks.
    """
    asked = _asked(seconds, hz)
    serving = _serving
    if not serving.acquire(blocking=False):
        raise SamplingError("stacks are being sampled already: wait for the other request")
    sampling = _Sampling(asked, hz)
    try:
        thread = threading.Thread(target=sampling.run, name="plimsoll-sampler", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise SamplingError(f"no thread for the sampler: {error}") from error
        thread.join()
    finally:
        # An interrupt of the caller ends the thread with its next tick.
        sampling.stop.set()
        serving.release()

    if sampling.fault is not None:
        raise sampling.fault
    ticks = sampling.ticks
    return StackSamples(
        stacks=sampling.folding.stacks(),
        asked_ticks=ticks.asked,
        taken_ticks=len(ticks.lateness_ns),
        lateness_max_ms=ticks.lateness_ms(1.0),
        lateness_p99_ms=ticks.lateness_ms(0.99),
    )


def _asked(seconds: float, hz: float) -> int:
    """The number of ticks; ValueError for a request beyond the bounds."""
    bounds = [("seconds", seconds, limits.SAMPLING_S_MAX), ("hz", hz, limits.SAMPLING_HZ_MAX)]
    for name, value, value_max in bounds:
        if not 0 < value <= value_max:
            raise ValueError(f"{name}: {value!r} is not above 0 and at most {value_max:g}")
    asked = max(1, round(seconds * hz))
    if asked > limits.SAMPLING_TICKS_MAX:
        text = f"{asked} ticks are more than {limits.SAMPLING_TICKS_MAX}: lower seconds or hz"
        raise ValueError(f"hz: {text}")
    return asked
