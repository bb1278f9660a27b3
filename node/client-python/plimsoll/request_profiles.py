"""`profile_request`: the spans and stacks of one request alone, at most one at a time.

Its thread is sampled 200 times a second; a stack that is taken late, as beside a thread that only
computes, counts for the ticks that it missed, up to a second of them. Of an asyncio task only ticks
in which this task ran count as stacks; the others show that it waited. Results are kept in a
bounded list.
"""

import os
import sys
import threading
import time
from collections import deque
from time import perf_counter_ns as clock
from typing import Any, Deque, Dict, List, Optional

from . import limits
from .chrome_trace import trace_events
from .client import CLIENT
from .sampler import Frame, StackSampler, is_sampling
from .spans import RINGS, Ring, Root, Span, note


class RequestProfile:
    """A block that is profiled, with `with`, unless another one is; may be used once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.id: Optional[str] = None
        """Of a block that is profiled; None if it is not."""
        self.result: Dict[str, Any] = {}
        """What was found, as JSON has it, once the block is over."""
        self._begun_ns = 0
        self._ring = Ring(limits.SAMPLING_S_MAX)

    def __enter__(self) -> "RequestProfile":
        if not CLIENT.settings.enabled or not _claim(self):
            return self
        self.id = os.urandom(8).hex()
        self._started_unix_s = time.time()
        self._process = os.getpid()
        self._sampler = _RequestSampler()
        try:
            self._sampler.start()
            self._sampler.of = threading.get_ident()
        except RuntimeError:
            # Another sampler runs, or there is no thread to spare: spans alone.
            self._sampler.asked_ticks = 0
        self._root = Root()
        self._begun_ns = clock()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """The request is over; a second call does nothing."""
        begun_ns, self._begun_ns = self._begun_ns, 0
        if not begun_ns:
            return
        ended_ns = clock()
        self._root.leave()
        # A forked child leaves the block of its parent too.
        if self._process != os.getpid():
            return
        sampler = self._sampler
        if sampler.asked_ticks:
            sampler.stop()
        note(self.name, begun_ns, ended_ns, {}, "request", own=self._root.number)
        _release(self)

        spans = _of_root(self._ring.spans(), self._root.number)
        stacks = sorted(sampler.stacks.items(), key=lambda found: -found[1])
        self.result = {
            "id": self.id,
            "name": self.name,
            "started_unix_s": self._started_unix_s,
            "duration_ms": (ended_ns - begun_ns) / 1e6,
            "hz": limits.REQUEST_HZ,
            "samples": sum(count for _, count in stacks),
            "waiting_samples": sampler.waiting_ticks,
            "stacks": [
                {"count": count, "frames": list(map(_frame, stack.frames))}
                for stack, count in stacks[: limits.REQUEST_STACKS_MAX]
            ],
            "trace": trace_events(spans, self._ring.dropped),
        }
        _results.append(self.result)


class _RequestSampler(StackSampler):
    """Stacks of one thread, and of the asyncio task in which it is made, if any."""

    def __init__(self) -> None:
        super().__init__(limits.REQUEST_S_MAX, limits.REQUEST_HZ)
        self.waiting_ticks = 0
        self._stopped = threading.Event()
        # Nothing is taken until it is set: the start of this thread is no part of the request.
        self.of = 0
        self._task: Any = None
        asyncio = sys.modules.get("asyncio")
        running_loop = getattr(asyncio, "_get_running_loop", None)
        self._loop = running_loop() if running_loop else None
        if asyncio and self._loop:
            self._current_task = asyncio.current_task
            self._task = asyncio.current_task(self._loop)

    def stop(self) -> None:
        """Takes no further stack; waits for the one that is being taken."""
        self.asked_ticks = 0
        self._stopped.set()
        self.join()

    def _pause(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def _take(self, ticks: int) -> None:
        if not self.of:
            return
        # A late one stands for those that it has missed: a request is too short to lose them.
        ticks = min(ticks, limits.REQUEST_LATE_TICKS_MAX)
        frame = sys._current_frames().get(self.of)
        if self._task is not None and self._current_task(self._loop) is not self._task:
            self.waiting_ticks += ticks
        elif frame is not None and self.asked_ticks:
            self._folding.add("", frame, ticks)


def profile_request(name: str = "request") -> RequestProfile:
    """`with profile_request() as p:` profiles the block unless another one is profiled in this
    process, or the master switch is off: then `p.id` is None. Afterwards `p.result` has the result.
    """
    return RequestProfile(name)


def request_profile(id: Optional[str] = None) -> Optional[Dict[str, Any]]:
    """The result with this id among the last 16, or the last one; None if there is none."""
    found = [result for result in tuple(_results) if id in (None, result["id"])]
    return found[-1] if found else None


_lock = threading.Lock()
_active: Optional[RequestProfile] = None
_claimed_ns = 0
_results: Deque[Dict[str, Any]] = deque(maxlen=limits.REQUESTS_KEPT_MAX)


def _claim(profile: RequestProfile) -> bool:
    global _active, _claimed_ns
    with _lock:
        if is_sampling() or _active and clock() - _claimed_ns < limits.REQUEST_S_MAX * 1e9:
            return False
        # One whose server never closed its body does not keep out all others.
        if _active:
            RINGS.remove(_active._ring)
        RINGS.append(profile._ring)
        _active, _claimed_ns = profile, clock()
        return True


def _release(profile: RequestProfile) -> None:
    global _active
    with _lock:
        if _active is profile:
            RINGS.remove(profile._ring)
            _active = None


def _forked() -> None:
    global _lock, _active
    _lock, _active = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _frame(frame: Frame) -> str:
    return f"{frame.function} ({frame.file}:{frame.line})"


def _of_root(spans: List[Span], number: int) -> List[Span]:
    """Those of this request, steps in it and their spans included."""
    roots, found = {number}, []
    # What is around others ends after them.
    for span in reversed(spans):
        if span.own in roots or span.within.root in roots:
            found.append(span)
            if span.own:
                roots.add(span.own)
    return found[::-1]
