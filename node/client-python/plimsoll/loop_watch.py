"""`watch_loop`: how late an asyncio event loop runs what is due, and the code that held it up.

A callback of the loop is due every 50 ms; by how much it is late is a sample of `asyncio_lag`. Once
it is over 100 ms late a thread notes where the loop's thread is, and an event has that stack when
the loop runs again, at most one in ten seconds.
"""

import os
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, List, Optional

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .events import send_event
from .timing import in_words

if TYPE_CHECKING:
    import asyncio

OPERATION = "asyncio_lag"


class LoopWatch:
    """The lag of one event loop is recorded until it is stopped or its loop is closed."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self._loop = loop
        self._series = CLIENT.registry.latency(OPERATION, {})
        self._stopped = threading.Event()
        self._loop_thread = 0
        self._due_s: Optional[float] = None
        # Where the loop's thread is while it is late.
        self._stack = ""
        self._event_at_s: Optional[float] = None
        loop.call_soon_threadsafe(self._begin)
        threading.Thread(target=self._watch, name="plimsoll-loop", daemon=True).start()

    def stop(self) -> None:
        """Nothing is recorded from now on."""
        self._stopped.set()

    # In the loop.

    def _begin(self) -> None:
        self._loop_thread = threading.get_ident()
        self._schedule()

    def _schedule(self) -> None:
        self._stack = ""
        self._due_s = time.monotonic() + limits.LOOP_EVERY_S
        self._loop.call_later(limits.LOOP_EVERY_S, self._run)

    def _run(self) -> None:
        if self._stopped.is_set() or self._due_s is None:
            return
        lag_s = max(0.0, time.monotonic() - self._due_s)
        self._series.add(int(lag_s * 1e9))
        if self._stack and self._may_report():
            text = f"{in_words(lag_s)} late; it was in {self._stack}"
            send_event("event loop blocked", text, "warning", {"operation": OPERATION})
        self._schedule()

    def _may_report(self) -> bool:
        now_s = time.monotonic()
        last_s = self._event_at_s
        if last_s is not None and now_s - last_s < limits.LOOP_EVENT_EVERY_S:
            return False
        self._event_at_s = now_s
        return True

    # In a thread of its own.

    def _watch(self) -> None:
        while not self._stopped.wait(limits.LOOP_EVERY_S) and not self._loop.is_closed():
            due_s = self._due_s
            # A loop that was left is not late.
            if due_s is None or self._stack or not self._loop.is_running():
                continue
            if time.monotonic() - due_s > limits.LOOP_LATE_S:
                frame = sys._current_frames().get(self._loop_thread)
                self._stack = _stack(frame) if self._due_s == due_s else ""


def _stack(frame: Optional[FrameType]) -> str:
    """The innermost functions, each with its place."""
    calls: List[str] = []
    while frame is not None and len(calls) < limits.LOOP_FRAMES_MAX:
        code = frame.f_code
        file = os.path.basename(code.co_filename)
        calls.append(f"{getattr(code, 'co_qualname', code.co_name)} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return ", called by ".join(calls)


def watch_loop(loop: "Optional[asyncio.AbstractEventLoop]" = None) -> LoopWatch:
    """Records the lag of an event loop from now on: of the running one unless `loop` is given.

    Raises RuntimeError without either.
    """
    # Here: a program without a loop need not load it.
    import asyncio

    if not CLIENT.settings.enabled:
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
    return LoopWatch(loop or asyncio.get_running_loop())
