"""Calls of the job's own functions, one after another, in a thread of their own.

A function that takes long delays further calls alone: no thread that posts one waits. What
finds no place is for the poster to count. A function that raises is counted, and warned of once.
"""

import os
import queue
import threading
from typing import Any, Callable, Optional, Tuple

from . import limits
from .diagnostics import DIAGNOSTICS


class Callbacks:
    """The calls of one process; a single one is made, below."""

    def __init__(self) -> None:
        self.raised = 0
        """Calls that ended with an exception."""
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # Reentrant, since a signal handler may post in the middle of it; so its bound is kept here.
        self._calls: "queue.SimpleQueue[Tuple[Callable[[Any], object], Any]]" = queue.SimpleQueue()
        self._starting = threading.RLock()
        self._thread: Optional[threading.Thread] = None

    def post(self, callback: Callable[[Any], object], argument: object) -> bool:
        """Has `callback(argument)` called later; False when too many calls wait."""
        if self._calls.qsize() >= limits.CALLS_MAX:
            return False
        self._calls.put((callback, argument))
        if self._thread is None:
            self._start()
        return True

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="plimsoll-callbacks", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # At the end of an interpreter, or at the limit of threads: with the next call.
                return
            self._thread = thread

    def _run(self) -> None:
        calls = self._calls
        while True:
            callback, argument = calls.get()
            try:
                callback(argument)
            except BaseException as error:  # Also SystemExit, which would end this thread alone.
                self.raised += 1
                name = getattr(callback, "__qualname__", type(callback).__name__)
                text = f"the callback {name} raised {error!r}; stats().raised counts all that raise"
                DIAGNOSTICS.warn_safely("callback", text)
            # Nothing of a call is kept while none waits.
            del callback, argument


CALLBACKS = Callbacks()
