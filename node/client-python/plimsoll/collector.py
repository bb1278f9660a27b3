"""`watch_collector`: how long Python's garbage collector stops the process, by generation.

Each collection is a sample of `python_gc` with the label `generation`; what it freed adds to
`python_gc.collected`, what it could not free to `python_gc.uncollectable`. The interpreter calls
between any two lines of the program, as a signal handler, so the series are made beforehand.
"""

import gc
import threading
from time import perf_counter_ns as clock
from typing import Dict, Optional

from .client import CLIENT
from .diagnostics import DIAGNOSTICS

OPERATION = "python_gc"
_GENERATIONS = 3


class CollectorWatch:
    """Collections are recorded until it is stopped."""

    def __init__(self) -> None:
        registry = CLIENT.registry
        generations = range(_GENERATIONS)
        self._pauses = [registry.latency(OPERATION, {"generation": of}) for of in generations]
        self._counters = {
            name: registry.counter(f"{OPERATION}.{name}", {})
            for name in ("collected", "uncollectable")
        }
        self._started_ns = 0
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """No collection is recorded from now on."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: Dict[str, int]) -> None:
        # One at a time: the interpreter starts none within another one.
        if phase == "start":
            self._started_ns = clock()
            return
        # One that was going on when the watch began has no start.
        started_ns, self._started_ns = self._started_ns, 0
        if not started_ns:
            return
        self._pauses[min(info["generation"], _GENERATIONS - 1)].add(clock() - started_ns)
        for name, counter in self._counters.items():
            if info.get(name):
                counter.add(info[name])


_lock = threading.Lock()
_watch: Optional[CollectorWatch] = None


def watch_collector() -> CollectorWatch:
    """Records the pauses of the garbage collector from now on; a second call returns the same."""
    global _watch
    if not CLIENT.settings.enabled:
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
    with _lock:
        if _watch is None or _watch._on_collection not in gc.callbacks:
            _watch = CollectorWatch()
        return _watch
