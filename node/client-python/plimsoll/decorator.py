"""`timed`: how long each call of a function takes, and whether it failed.

A wrapper does only what must be done at the call: two readings of the clock, one append, one
comparison. Text, labels and sockets are the flush thread's business. A duration is recorded
however the call ends; an `Exception` that leaves it also counts in `<operation>.errors`. What
ends a program or a task (KeyboardInterrupt, SystemExit, CancelledError) is no error.
"""

import functools
import inspect
from time import perf_counter_ns as clock
from time import thread_time_ns as cpu_clock
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import (
    Any,
    AsyncGenerator,
    Awaitable,
    Callable,
    Dict,
    Generator,
    Optional,
    Set,
    TypeVar,
    cast,
)

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .names import idle_name
from .spans import RINGS, note, task_name
from .timing import add_idle, add_latency, count_error, interval_ns

Function = TypeVar("Function", bound=Callable[..., Any])


def timed(
    operation: str,
    /,
    *,
    expected_interval_s: Optional[float] = None,
    cpu: bool = False,
    **labels: object,
) -> Callable[[Function], Function]:
    """A decorator that records how long each call of a function takes.

    Of a coroutine, task or future that it returns the time until its end, awaits included. Of a
    generator the time spent inside it, without what its consumer does between two values: one
    sample when it ends. Other objects that can be awaited stay untimed, with a warning. Labels are the same for every call. Switched off when the function is defined, the
    very same function comes back.

    With `cpu=True` each call also records, as the operation `<operation>.idle`, how much of its
    time the thread did not work, as `timer` does. For plain functions alone, else a TypeError:
    between two steps of a coroutine or generator its thread works for others.
    """
    if not isinstance(operation, str):
        raise TypeError('timed wants a name: @timed("epoch_hook")')

    def decorate(function: Function) -> Function:
        if cpu and _wrapper(getattr(function, "__func__", function)) is not _timed_call:
            raise TypeError("cpu=True is for plain functions: use it on what they call")
        if not (CLIENT.settings.enabled and CLIENT.settings.timers):
            # The very same object: the caller has it, so no later `configure` can reach it.
            DIAGNOSTICS.on_decorated_while_off(function, CLIENT.settings)
            return function
        if isinstance(function, (classmethod, staticmethod)):
            return type(function)(decorate(function.__func__))
        probe = _Probe(operation, labels, expected_interval_s)
        wrapper = _timed_idle_call if cpu else _wrapper(function)
        return cast(Function, functools.wraps(function)(wrapper(function, probe)))

    return decorate


class _Probe:
    """Where the durations of one decorated function go."""

    __slots__ = ("series", "operation", "labels", "interval_ns")

    def __init__(
        self, operation: str, labels: Dict[str, object], interval_s: Optional[float]
    ) -> None:
        self.operation = operation
        self.labels = labels
        self.interval_ns = interval_ns(interval_s)
        self.series = CLIENT.registry.latency(operation, labels)

    def failed(self) -> None:
        count_error(self.operation, self.labels)

    def add(self, value_ns: int) -> None:
        add_latency(self.series, value_ns, self.interval_ns)

    def note(self, begun_ns: int, ended_ns: int, task: Optional[str] = None) -> None:
        note(self.operation, begun_ns, ended_ns, self.labels, task=task)


def _wrapper(function: Callable[..., Any]) -> Callable[[Callable[..., Any], _Probe], Any]:
    if inspect.isasyncgenfunction(function):
        return _timed_async_generator
    if inspect.iscoroutinefunction(function):
        return _timed_coroutine
    if inspect.isgeneratorfunction(function):
        return _timed_generator
    return _timed_call


def _timed_call(function: Callable[..., Any], probe: _Probe) -> Callable[..., Any]:
    if probe.interval_ns:
        return _timed_paced_call(function, probe)
    series, pending, append = probe.series, probe.series.pending, probe.series.pending.append
    finished, rings = _FINISHED, RINGS

    def call(*args: Any, **kwargs: Any) -> Any:
        begun = clock()
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            _record_failed(error, probe, begun)
            raise
        spent_ns = clock() - begun
        if type(value) not in finished and _goes_on(value):
            return _continued(value, probe, spent_ns)
        # `Latency.add`, spelled out: a call here costs as much as all of it.
        append(spent_ns)
        if len(pending) > series.pending_max:
            series.registry.relieve(series)
        if rings:
            probe.note(begun, begun + spent_ns)
        return value

    return call


def _timed_paced_call(function: Callable[..., Any], probe: _Probe) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        begun = clock()
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            _record_failed(error, probe, begun)
            raise
        spent_ns = clock() - begun
        if _goes_on(value):
            return _continued(value, probe, spent_ns)
        probe.add(spent_ns)
        if RINGS:
            probe.note(begun, begun + spent_ns)
        return value

    return call


def _timed_idle_call(function: Callable[..., Any], probe: _Probe) -> Callable[..., Any]:
    idle = CLIENT.registry.latency(idle_name(probe.operation), probe.labels)

    def call(*args: Any, **kwargs: Any) -> Any:
        cpu_begun = cpu_clock()
        begun = clock()
        value, has_failed = None, True
        try:
            value = function(*args, **kwargs)
            has_failed = False
        except Exception:
            probe.failed()
            raise
        finally:
            wall_ns, cpu_ns = clock() - begun, cpu_clock() - cpu_begun
            # Between two steps of what goes on, its thread works for others.
            if has_failed or not _goes_on(value):
                probe.add(wall_ns)
                add_idle(idle, wall_ns, cpu_ns)
                if RINGS:
                    probe.note(begun, begun + wall_ns)
        return _continued(value, probe, wall_ns) if _goes_on(value) else value

    return call


# Types of values whose work is done when the call returns. To find out takes as long as a sample.
_FINISHED: Set[type] = set()


def _record_failed(error: BaseException, probe: _Probe, begun: int) -> None:
    ended = clock()
    if isinstance(error, Exception):
        probe.failed()
    probe.add(ended - begun)
    if RINGS:
        probe.note(begun, ended)


def _goes_on(value: object) -> bool:
    """Whether what a call returned does its work later: only the call can tell of a function below
    another decorator, of an object with an asynchronous `__call__`, or of one that starts a task."""
    kind = type(value)
    if hasattr(kind, "__await__") or kind in (GeneratorType, AsyncGeneratorType):
        return True
    if len(_FINISHED) < limits.FINISHED_TYPES_MAX:
        _FINISHED.add(kind)
    return False


def _continued(value: Any, probe: _Probe, spent_ns: int) -> Any:
    """The same with its own time recorded when it ends, after `spent_ns` in the call."""
    if isinstance(value, CoroutineType):
        return _timed_coroutine(lambda: value, probe, spent_ns)()
    if isinstance(value, GeneratorType):
        return _timed_generator(lambda: value, probe, spent_ns)()
    if isinstance(value, AsyncGeneratorType):
        return _timed_async_generator(lambda: value, probe, spent_ns)()
    begun = clock() - spent_ns

    def ended(future: Any) -> None:
        if not future.cancelled() and isinstance(future.exception(), Exception):
            probe.failed()
        ended = clock()
        probe.add(ended - begun)
        if RINGS:
            probe.note(begun, ended, task_name(future))

    if hasattr(value, "add_done_callback"):
        # The caller may cancel a task or future and add callbacks, so it gets the same object.
        value.add_done_callback(ended)
        return value

    DIAGNOSTICS.on_untimed(type(value).__name__, probe.operation)
    return value


def _timed_coroutine(
    function: Callable[..., Awaitable[Any]], probe: _Probe, spent_ns: int = 0
) -> Callable[..., Awaitable[Any]]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        begun = clock() - spent_ns
        try:
            return await function(*args, **kwargs)
        except Exception:
            probe.failed()
            raise
        finally:
            ended = clock()
            probe.add(ended - begun)
            if RINGS:
                probe.note(begun, ended)

    return call


def _timed_generator(
    function: Callable[..., Generator[Any, Any, Any]], probe: _Probe, before_ns: int = 0
) -> Callable[..., Generator[Any, Any, Any]]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        spent_ns = before_ns
        inner = function(*args, **kwargs)
        resume: Callable[[Any], Any] = inner.send
        given: Any = None
        try:
            while True:
                begun = clock()
                try:
                    value = resume(given)
                except StopIteration as end:
                    return end.value
                finally:
                    ended = clock()
                    spent_ns += ended - begun
                    # One for each time that it ran: between two of them its consumer did.
                    if RINGS:
                        probe.note(begun, ended)
                try:
                    resume, given = inner.send, (yield value)
                except BaseException as thrown:
                    resume, given = inner.throw, thrown
        except Exception:
            probe.failed()
            raise
        finally:
            probe.add(spent_ns)

    return call


def _timed_async_generator(
    function: Callable[..., AsyncGenerator[Any, Any]], probe: _Probe, before_ns: int = 0
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        spent_ns = before_ns
        inner = function(*args, **kwargs)
        resume: Callable[[Any], Awaitable[Any]] = inner.asend
        given: Any = None
        try:
            while True:
                begun = clock()
                try:
                    value = await resume(given)
                except StopAsyncIteration:
                    return
                finally:
                    ended = clock()
                    spent_ns += ended - begun
                    # One for each time that it ran: between two of them its consumer did.
                    if RINGS:
                        probe.note(begun, ended)
                try:
                    resume, given = inner.asend, (yield value)
                except BaseException as thrown:
                    resume, given = inner.athrow, thrown
        except Exception:
            probe.failed()
            raise
        finally:
            probe.add(spent_ns)

    return call
