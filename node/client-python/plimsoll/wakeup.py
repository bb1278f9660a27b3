"""`Wakeup`: wakes the one thread that waits for it.

It may be rung anywhere: by any thread, in a signal handler, in a finalizer, also in the middle of
another ring. `threading.Event` takes a lock that such an interruption would wait for, for ever.
"""

import contextlib
import threading


class Wakeup:
    """Rings before a wait are kept as one."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        # Released by a ring and acquired by the wait; each is one step that nothing can split.
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Ends the wait, or the next one if no thread waits."""
        # Released already: rung and not yet waited for.
        with contextlib.suppress(RuntimeError):
            self._lock.release()

    def wait(self, timeout_s: float = -1) -> bool:
        """Waits for a ring, without an end when no time is given; whether there was one."""
        return self._lock.acquire(timeout=timeout_s)

    def clear(self) -> None:
        """Discards a ring that was not waited for."""
        self._lock.acquire(blocking=False)
