"""Plimsoll's client: feeds the latencies, counts and gauges of this process to a node.

    import plimsoll

    plimsoll.configure(enable=True)

    @plimsoll.timed("epoch_hook")
    def end_of_epoch(): ...

Everything is off until it is switched on, by `configure` or by environment. Nothing here raises
for want of a node, and nothing makes a caller wait for one.
"""

import math
from typing import Optional

from . import limits
from .client import CLIENT, Stats
from .decorator import timed
from .experiments import Experiment, experiment
from .shards import ShardRead, ShardSummary, end_read, read_shard, shard_summary, start_read
from .timing import Timer, add_latency, as_float, count_tokens, interval_ns, timer

__version__ = "0.1.0"
__all__ = [
    "Experiment",
    "ShardRead",
    "ShardSummary",
    "Stats",
    "Timer",
    "configure",
    "count",
    "end_read",
    "experiment",
    "flush",
    "gauge",
    "read_shard",
    "record",
    "record_ns",
    "shard_summary",
    "start_read",
    "stats",
    "timed",
    "timer",
    "tokens",
]


def configure(
    *,
    enable: Optional[bool] = None,
    timers: Optional[bool] = None,
    shards: Optional[bool] = None,
    experiments: Optional[bool] = None,
    socket: Optional[str] = None,
    flush_ms: Optional[int] = None,
) -> None:
    """Overrules the environment; what is not given stays as it is.

    `enable=True` switches the master and every profiler on, `timers=`, `shards=` and
    `experiments=` one each. `socket` is a path or `udp://host:port`. A function decorated
    while timers are off stays undecorated, so call this before importing what is decorated.
    Raises ValueError when `flush_ms` is not from 10 to 60 000.
    """
    CLIENT.apply(CLIENT.settings.changed(enable, timers, shards, experiments, socket, flush_ms))


def record(
    operation: str,
    /,
    *,
    seconds: float,
    expected_interval_s: Optional[float] = None,
    **labels: object,
) -> None:
    """Records a latency in seconds. A negative or not finite one is dropped and counted."""
    if not CLIENT.settings.enabled:
        return
    seconds = as_float(seconds)
    if 0 <= seconds < math.inf:
        value_ns = round(min(seconds * 1e9, limits.VALUE_NS_MAX))
        series = CLIENT.registry.latency(operation, labels)
        add_latency(series, value_ns, interval_ns(expected_interval_s))
    else:
        CLIENT.registry.drop("value")


def record_ns(operation: str, nanoseconds: int, /, **labels: object) -> None:
    """Records a latency in nanoseconds, such as a difference of `time.perf_counter_ns()`."""
    if not CLIENT.settings.enabled:
        return
    value_ns = int(nanoseconds)
    if value_ns < 0:
        CLIENT.registry.drop("value")
        return
    CLIENT.registry.latency(operation, labels).add(min(value_ns, limits.VALUE_NS_MAX))


def count(name: str, /, n: float = 1, **labels: object) -> None:
    """Adds `n` to a counter. A value that is not finite is dropped and counted."""
    if not CLIENT.settings.enabled:
        return
    amount = n if type(n) is int and n.bit_length() < 64 else as_float(n)
    if math.isfinite(amount):
        CLIENT.registry.counter(name, labels).add(amount)
    else:
        CLIENT.registry.drop("value")


def gauge(name: str, /, value: float, **labels: object) -> None:
    """Sets a gauge; of several values between two flushes the last one is sent."""
    if not CLIENT.settings.enabled:
        return
    level = as_float(value)
    if math.isfinite(level):
        CLIENT.registry.gauge(name, labels).add(level)
    else:
        CLIENT.registry.drop("value")


def tokens(operation: str, /, n: int, *, seconds: float, **labels: object) -> None:
    """Counts tokens and the seconds they took: `<operation>.tokens`, `<operation>.seconds`.

    Over any span, tokens/s is the increase of the first divided by that of the second.
    """
    if not CLIENT.settings.enabled:
        return
    seconds = as_float(seconds)
    if 0 <= seconds < math.inf and 0 <= n < 2**63:
        count_tokens(operation, labels, int(n), round(seconds * 1e9))
    else:
        CLIENT.registry.drop("value")


def flush(timeout_s: float = 1.0) -> bool:
    """Sends what was recorded so far, and waits for it up to `timeout_s`.

    True when the node's socket took all of it. Needed only where a process ends without the
    interpreter's help: before `os.exec*`, `os._exit`, or in a handler of SIGTERM.
    """
    return CLIENT.flush(timeout_s)


def stats() -> Stats:
    """What the client of this process did so far, and what it holds."""
    return CLIENT.stats()
