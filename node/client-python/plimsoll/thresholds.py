"""`set_threshold`: limits on values that this process records, judged in it, without a network.

The flush thread judges a value when it takes it, so a recording call does nothing for it. Alerts on
the values of all processes are the aggregator's. DESIGN N96.
"""

import math
from typing import Callable, Optional

from .alerts import check_severity
from .client import CLIENT
from .crossing import COMPARISONS, Crossing, Threshold
from .diagnostics import DIAGNOSTICS
from .names import with_unit

# The usual limits of a machine, by severity, for values under these names.
DEFAULTS = {
    "memory_percent": {"warning": 85.0, "critical": 95.0},
    "cpu_temperature_celsius": {"warning": 75.0, "critical": 85.0},
    "gpu_temperature_celsius": {"warning": 75.0},
}


def set_threshold(
    name: str,
    value: Optional[float] = None,
    *,
    callback: Callable[[Crossing], object],
    comparison: str = "greater",
    severity: Optional[str] = None,
) -> None:
    """Has `callback(crossing)` called, in another thread, when what is recorded here crosses it.

    Of a gauge the last value is judged, of a counter its total in this process, of a latency, in
    seconds, or another distribution, such as `read:bytes`, all samples since the last flush: one that is `greater` than `value`, `less` or `equal`
    makes it `firing`, and when there is none it is `resolved`. Each set of labels is judged by
    itself. Another one with the same name, comparison and severity, by default `warning`, replaces
    it. Without `value` it is that of DEFAULTS, for each severity or the one that is given.

    Raises ValueError for what cannot be judged, and beyond 256 thresholds.
    """
    if not callable(callback):
        raise TypeError('set_threshold wants a function: set_threshold("loss", 9, callback=print)')
    if comparison not in COMPARISONS:
        raise ValueError(f"comparison={comparison!r} is none of {', '.join(COMPARISONS)}")
    check_severity(severity)
    if isinstance(value, (str, bytes)):
        raise TypeError(f"value={value!r} of {name!r} is text: give a number, such as 5.0")
    if value is not None and not math.isfinite(value):
        raise ValueError(f"value={value!r} of {name!r} is no finite number")
    usual = DEFAULTS.get(name, {}) if value is None else {severity or "warning": float(value)}
    wanted = {of: limit for of, limit in usual.items() if severity in (None, of)}
    if not wanted:
        what = f"severity={severity!r} of {name!r}" if usual else repr(name)
        raise ValueError(f"{what} has no usual threshold: give value=; {', '.join(DEFAULTS)} have")

    if not CLIENT.settings.enabled:
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
    for of, limit in wanted.items():
        made = Threshold(with_unit(name), limit, comparison, of, callback)
        CLIENT.registry.judge(made)
