"""Values that the program measured itself: latencies, counters, gauges and tokens.

They need the master switch only. A value that is not one is dropped and counted; nothing raises.
"""

import math
from typing import Optional

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .timing import add_latency, as_float, count_tokens, interval_ns


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
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
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
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
        return
    value_ns = int(nanoseconds)
    if value_ns < 0:
        CLIENT.registry.drop("value")
        return
    CLIENT.registry.latency(operation, labels).add(min(value_ns, limits.VALUE_NS_MAX))


def count(name: str, /, n: float = 1, **labels: object) -> None:
    """Adds `n` to a counter. A value that is not finite is dropped and counted."""
    if not CLIENT.settings.enabled:
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
        return
    amount = n if type(n) is int and n.bit_length() < 64 else as_float(n)
    if math.isfinite(amount):
        CLIENT.registry.counter(name, labels).add(amount)
    else:
        CLIENT.registry.drop("value")


def gauge(name: str, /, value: float, **labels: object) -> None:
    """Sets a gauge; of several values between two flushes the last one is sent."""
    if not CLIENT.settings.enabled:
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
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
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
        return
    seconds = as_float(seconds)
    if 0 <= seconds < math.inf and 0 <= n < 2**63:
        count_tokens(operation, labels, int(n), round(seconds * 1e9))
    else:
        CLIENT.registry.drop("value")
