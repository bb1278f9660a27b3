"""Distributions of values that are no times: sizes of files, rows, tokens, batches.

They need the master switch only. A value that is not one is dropped and counted; nothing raises
but a unit that does not exist.
"""

import math
import re
from typing import Dict, Type

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .series import Bytes, Count, Latency
from .timing import as_float

_KINDS: Dict[str, Type[Latency]] = {"bytes": Bytes, "count": Count}


class Distribution:
    """The values of one name in one unit; make it once and use it from any thread."""

    __slots__ = ("name", "unit", "_kind")

    def __init__(self, name: str, unit: str) -> None:
        if unit not in _KINDS:
            raise ValueError(f"unit={unit!r} of {name!r} is none of {', '.join(_KINDS)}")
        # As the node does with names that state the unit: `read_bytes` becomes `read:bytes`.
        bare = re.sub(rf"(?<=.)[_./:-]{unit}$", "", name)
        self.name = bare[: limits.NAME_BYTES_MAX - limits.UNIT_CHARS_MAX]
        self.unit = unit
        self._kind = _KINDS[unit]

    def record(self, value: float, /, **labels: object) -> None:
        """Records a value. A negative or not finite one is dropped and counted."""
        if not CLIENT.settings.enabled:
            DIAGNOSTICS.on_disabled_value(CLIENT.settings)
            return
        value = as_float(value)
        if 0 <= value < math.inf:
            pending = round(min(value * self._kind.PER_SHOWN, limits.VALUE_NS_MAX))
            CLIENT.registry.distribution(self._kind, self.name, labels).add(pending)
        else:
            CLIENT.registry.drop("value")


def distribution(name: str, /, *, unit: str) -> Distribution:
    """The distribution `<name>:<unit>` of bytes or of a count, with quantiles as a latency has.

    Raises ValueError for a unit that is neither `bytes` nor `count`.
    """
    return Distribution(name, unit)
