"""`timer`: how long a block takes, and what every recorded latency has in common.

Counts an `Exception` that leaves the block in `<operation>.errors`, tokens in
`<operation>.tokens` beside the seconds that they took. Decides nothing about sending.
"""

import math
import types
from threading import get_ident
from time import perf_counter_ns as clock
from time import thread_time_ns as cpu_clock
from typing import Dict, Optional, Type, TypeVar

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .names import idle_name
from .series import Latency
from .spans import RINGS, note

_Timer = TypeVar("_Timer", bound="Timer")


class Timer:
    """A block that is timed, with `with` or `async with`; may be used again when it is over."""

    __slots__ = ("operation", "labels", "elapsed_ns", "_interval_ns", "_tokens", "_begun")

    def __init__(
        self, operation: str, labels: Dict[str, object], interval_s: Optional[float] = None
    ) -> None:
        self.operation = operation
        self.labels = labels
        self.elapsed_ns = 0
        """Nanoseconds that the block took, once it is over."""
        self._interval_ns = interval_ns(interval_s)
        self._tokens = 0
        self._begun = 0

    def label(self, **labels: object) -> None:
        """Labels known only inside the block; they override labels given before."""
        self.labels = {**self.labels, **labels}

    def tokens(self, count: int) -> None:
        """Tokens that the block made: they count in `<operation>.tokens` and the block's
        time in `<operation>.seconds`."""
        self._tokens += count

    def __enter__(self: _Timer) -> _Timer:
        self._begun = clock()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        self.elapsed_ns = clock() - self._begun
        tokens, self._tokens = self._tokens, 0
        self._over(tokens, kind is not None and issubclass(kind, Exception))
        if RINGS:
            note(self.operation, self._begun, self._begun + self.elapsed_ns, self.labels)

    async def __aenter__(self: _Timer) -> _Timer:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        self.__exit__(kind, error, trace)

    def _over(self, tokens: int, failed: bool) -> None:
        series = CLIENT.registry.latency(self.operation, self.labels)
        add_latency(series, self.elapsed_ns, self._interval_ns)
        if tokens:
            count_tokens(self.operation, self.labels, tokens, self.elapsed_ns)
        if failed:
            count_error(self.operation, self.labels)


class IdleTimer(Timer):
    """A block that also records what of its time its thread did not work."""

    __slots__ = ("_cpu_begun", "_thread")

    def __enter__(self: _Timer) -> _Timer:
        self._thread = get_ident()
        self._cpu_begun = cpu_clock()
        return super().__enter__()

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        cpu_ended = cpu_clock()
        super().__exit__(kind, error, trace)
        if self._thread == get_ident():
            series = CLIENT.registry.latency(idle_name(self.operation), self.labels)
            add_idle(series, self.elapsed_ns, cpu_ended - self._cpu_begun)
        else:
            CLIENT.registry.drop("idle")

    async def __aenter__(self: _Timer) -> _Timer:
        return Timer.__enter__(self)

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        # While it waited, its thread ran other tasks, so the CPU time of the thread is meaningless here.
        Timer.__exit__(self, kind, error, trace)
        CLIENT.registry.drop("idle")


class NoTimer(Timer):
    """What a block gets while timers are switched off."""

    __slots__ = ()

    def label(self, **labels: object) -> None:
        """Forgets them."""

    def tokens(self, count: int) -> None:
        """Forgets them."""

    def __enter__(self: _Timer) -> _Timer:
        return self

    def __exit__(self, *_: object) -> None:
        """Records nothing."""


def count_error(operation: str, labels: Dict[str, object]) -> None:
    """One failure of an operation."""
    CLIENT.registry.counter(f"{operation}.errors", labels).add(1)


def count_tokens(operation: str, labels: Dict[str, object], tokens: int, busy_ns: int) -> None:
    """A pair of counters: over any span, tokens/s = increase of the one / of the other."""
    CLIENT.registry.counter(f"{operation}.tokens", labels).add(tokens)
    CLIENT.registry.counter(f"{operation}.seconds", labels).add(busy_ns / 1e9)


def interval_ns(interval_s: Optional[float]) -> int:
    """Seconds as nanoseconds, 0 for none and for what is no span."""
    return round(interval_s * 1e9) if interval_s and 0 < interval_s * 1e9 < math.inf else 0


def as_float(value: float) -> float:
    """Any number (also of numpy or torch) as a float; NaN if it cannot be converted."""
    try:
        return float(value)
    except OverflowError:
        return math.nan


def add_latency(series: Latency, value_ns: int, expected_ns: int = 0) -> None:
    """Records a latency, and those of the requests that it kept from being made.

    Who should act every `expected_ns` and was held up for longer would have seen, had it kept
    to its rhythm, waits that are shorter by one interval each (coordinated omission; the
    correction is HdrHistogram's).
    """
    series.add(value_ns)
    if not 0 < expected_ns < value_ns:
        return
    missing = range(value_ns - expected_ns, expected_ns - 1, -expected_ns)
    for missing_ns in missing[: limits.CORRECTED_MAX]:
        series.add(missing_ns)
    if len(missing) > limits.CORRECTED_MAX:
        CLIENT.registry.drop("corrected", len(missing) - limits.CORRECTED_MAX)


def add_idle(series: Latency, wall_ns: int, cpu_ns: int) -> None:
    """What a span took less what its thread worked in it, measured around it."""
    series.add(max(0, wall_ns - cpu_ns))


NO_TIMER = NoTimer("", {})


def timer(
    operation: str,
    /,
    *,
    expected_interval_s: Optional[float] = None,
    cpu: bool = False,
    **labels: object,
) -> Timer:
    """A block whose duration is recorded, under labels that may be added inside.

    With `cpu=True` also, as the operation `<operation>.idle`, how much of it the block's thread
    did not work: slept, waited for a lock, a disk, a socket, another process, or its turn in the
    interpreter or on a processor. Not with `async with`: while a task waits its thread works for
    others, so it is undefined, and `plimsoll_client_dropped` counts it as `idle`.
    """
    if not (CLIENT.settings.enabled and CLIENT.settings.timers):
        if DIAGNOSTICS.is_watching:
            DIAGNOSTICS.on_disabled_use("timers", CLIENT.settings)
        return NO_TIMER
    return (IdleTimer if cpu else Timer)(operation, labels, expected_interval_s)


def in_words(seconds: float) -> str:
    """A time with three significant digits, such as 17.9 ms."""
    units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
    one, unit = next((of for of in units if seconds >= of[0]), (1e-9, "ns"))
    value = seconds / one
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
