"""`watch_executor`: how long calls wait in a pool of threads or processes before they start.

Each call is a sample of `executor_handover` with the label `executor`. The worker measures, so what
a worker process records needs the switches there. While spans are kept, the call is a span of its
worker's lane, in the step or request that submitted it.
"""

import os
from time import perf_counter_ns as clock
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .spans import RINGS, Root, Within, handed_over, note

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

OPERATION = "executor_handover"


class ExecutorWatch:
    """The hand-over times of one executor are recorded until it is stopped."""

    def __init__(self, executor: "Executor", name: str) -> None:
        self.name = name
        self._executor = executor
        self._submit = executor.submit
        # Of the object, so that `map` and the event loop's `run_in_executor` find it too.
        executor.submit = self._handed  # type: ignore[method-assign]

    def stop(self) -> None:
        """Calls that are submitted from now on are not recorded."""
        if vars(self._executor).get("submit") == self._handed:
            del self._executor.submit

    def _handed(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        handover = _Handover(self.name, clock(), os.getpid(), handed_over())
        return self._submit(_run, handover, function, *args, **kwargs)


class _Handover(NamedTuple):
    """What goes to the worker, a process or a thread, beside the call."""

    name: str
    submitted_ns: int
    process: int
    within: Optional[Within]


def _run(handover: _Handover, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    # The monotonic clock of the processes of one machine is the same.
    begun_ns = clock()
    waited_ns = max(0, begun_ns - handover.submitted_ns)
    labels = {"executor": handover.name}
    if CLIENT.settings.enabled:
        CLIENT.registry.latency(OPERATION, labels).add(waited_ns)
    if not RINGS:
        return function(*args, **kwargs)

    is_here = handover.within is not None and handover.process == os.getpid()
    root = Root(handover.within) if is_here else None
    try:
        return function(*args, **kwargs)
    finally:
        name = getattr(function, "__qualname__", type(function).__name__)
        waited = {**labels, "handover_ms": waited_ns / 1e6}
        note(name, begun_ns, clock(), waited, "handover")
        if root is not None:
            root.leave()


def watch_executor(executor: "Executor", name: str) -> ExecutorWatch:
    """Records how long calls wait from `submit` to their start, from now on; a second call for one
    executor returns its first watch.

    Of an event loop: watch the executor that is given to `set_default_executor`.
    """
    if not CLIENT.settings.enabled:
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
    watch = getattr(vars(executor).get("submit"), "__self__", None)
    return watch if isinstance(watch, ExecutorWatch) else ExecutorWatch(executor, name)
