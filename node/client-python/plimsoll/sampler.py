"""`StackSampler`: a thread that finds where all others of this process are, for some seconds.

It walks their frames at each tick: one in each period, at an instant that varies, since ticks at
equal distances would see a job whose rounds divide these at few of its places. Native code that
holds the interpreter's lock delays a tick; one whose period has passed is left out rather than made
up. Sends nothing, and is not started by itself.
"""

import os
import random
import sys
import threading
import time
from time import perf_counter_ns as clock
from types import CodeType, FrameType
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import limits

TRUNCATED = "[truncated]"
"""The thread of stacks beyond the bound, and the outermost frame of a stack that is cut."""
UNNAMED = "[unnamed]"
"""A thread that `threading` did not start."""


class Frame(NamedTuple):
    """One call."""

    function: str
    """The qualified name; before Python 3.11 the bare one."""
    file: str
    """The last two parts of its path."""
    line: int


class Stack(NamedTuple):
    """What a thread was found doing; no frame shows whether it ran or waited."""

    thread: str
    frames: Tuple[Frame, ...]
    """The outermost first."""


class Folding:
    """Counts of stacks by their identity; names are looked up once, at the end."""

    def __init__(self, full_paths: bool = False) -> None:
        self._full_paths = full_paths
        # Thread, whether outer frames are left out, ids of code objects and lines, innermost first:
        # to hash and compare code objects themselves takes longer than the walk.
        self._counts: Dict[Tuple[str, bool, Tuple[int, ...], Tuple[int, ...]], int] = {}
        # Keeps them, so that no id is used again.
        self._codes: Dict[int, CodeType] = {}
        self._beyond = 0

    def add(self, thread: str, innermost: Optional[FrameType], count: int = 1) -> None:
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
            self._counts[key] += count
        elif len(self._counts) < limits.STACKS_MAX:
            self._counts[key] = count
            self._codes.update(zip(key[2], codes))
        else:
            self._beyond += count

    def stacks(self) -> Dict[Stack, int]:
        """All stacks so far, with their counts."""
        names = {number: self._names(code) for number, code in self._codes.items()}
        found: Dict[Stack, int] = {}
        for (thread, is_cut, codes, lines), count in self._counts.items():
            frames = [Frame(*names[code], line) for code, line in zip(codes, lines)]
            if is_cut:
                frames.append(Frame(TRUNCATED, "", 0))
            stack = Stack(thread, tuple(reversed(frames)))
            # Two definitions of one function at one place look the same.
            found[stack] = found.get(stack, 0) + count
        if self._beyond:
            found[Stack(TRUNCATED, ())] = self._beyond
        return found

    def _names(self, code: CodeType) -> Tuple[str, str]:
        """Function and file of a code object."""
        parts = code.co_filename.split(os.sep)
        file = code.co_filename if self._full_paths else os.sep.join(parts[-2:])
        return getattr(code, "co_qualname", code.co_name), file


def is_sampling() -> bool:
    """Whether a sampler runs in this process."""
    return any(isinstance(thread, StackSampler) for thread in threading.enumerate())


class StackSampler(threading.Thread):
    """Takes the stacks of all other threads `hz` times a second for `seconds`, once started.

    A tick costs some microseconds for each thread, in which the interpreter runs nothing else.
    Beside a thread that only computes in Python it is about 5 ms late, the interpreter's switch
    interval.

    Raises ValueError for more than 300 s, or more than 1 000 ticks a second.
    """

    def __init__(self, seconds: float, hz: float = 100.0, full_paths: bool = False) -> None:
        super().__init__(name="plimsoll-sampler", daemon=True)
        bounds = [("seconds", seconds, limits.SAMPLING_S_MAX), ("hz", hz, limits.SAMPLING_HZ_MAX)]
        for name, value, value_max in bounds:
            if not 0 < value <= value_max:
                raise ValueError(f"{name}: {value!r} is not above 0 and at most {value_max:g}")
        self.asked_ticks = max(1, round(seconds * hz))
        self.taken_ticks = 0
        """Fewer than asked where one was late by a period and more."""
        self.stacks: Dict[Stack, int] = {}
        """How often each was found, once the thread has ended. Those beyond 10 000 different ones
        are under TRUNCATED."""
        # Of less than one tick, or of one and a half, all are within the seconds.
        self._period_ns = 1e9 * min(1 / hz, seconds / self.asked_ticks)
        self._folding = Folding(full_paths)

    def start(self) -> None:
        """Raises RuntimeError while another one runs: each would disturb the other's ticks."""
        if is_sampling():
            raise RuntimeError("stacks are being sampled already: wait for the other sampler")
        super().start()

    def run(self) -> None:
        """The thread."""
        # Its own: the job may have seeded the common one.
        chance = random.Random()
        begun_ns, number = clock(), 0
        while number < self.asked_ticks:
            due_ns = begun_ns + round((number + chance.random()) * self._period_ns)
            self._pause(max(0, due_ns - clock()) / 1e9)
            now_ns = clock()
            following = next_tick(number, now_ns - begun_ns, self._period_ns)
            self._take(following - number)
            self.taken_ticks += 1
            number = following
        self.stacks = self._folding.stacks()

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def _take(self, ticks: int) -> None:
        del ticks  # One that is late counts once: the profile states how many were lost.
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != self.ident:
                self._folding.add(names.get(ident, UNNAMED), frame)


def next_tick(taken: int, now_ns: int, period_ns: float) -> int:
    """The number of the tick after one that was taken now: without those whose period is over."""
    return max(taken + 1, int(now_ns // period_ns))
