"""Named profilers: one object for each name in a process, whose values have the label `profiler`.

A profiler adds labels and records nothing by itself: the switches and bounds of `timed`, `timer`,
`record` and `count` apply. Their number is bounded, since each name makes series of its own.
"""

from typing import Any, Callable, Dict, Optional, TypeVar

from . import limits
from .decorator import timed
from .diagnostics import DIAGNOSTICS
from .names import label_pairs
from .recording import count, record
from .registry import OVERFLOW
from .snapshot import get_summary_stats
from .statistics import SummaryStats
from .timing import Timer, timer

LABEL = "profiler"

Function = TypeVar("Function", bound=Callable[..., Any])


class Profiler:
    """`timed`, `timer`, `record`, `count` under one name; made by `get_profiler`."""

    def __init__(self, name: str, labels: Dict[str, object]) -> None:
        self.name = name
        self.labels = labels
        """Labels of all values of this profiler, without `profiler`."""

    def timed(
        self,
        operation: str,
        /,
        *,
        expected_interval_s: Optional[float] = None,
        cpu: bool = False,
        **labels: object,
    ) -> Callable[[Function], Function]:
        """As `plimsoll.timed`: while timers are off, the very same function comes back."""
        labels = self._labelled(labels)
        return timed(operation, expected_interval_s=expected_interval_s, cpu=cpu, **labels)

    def timer(
        self,
        operation: str,
        /,
        *,
        expected_interval_s: Optional[float] = None,
        cpu: bool = False,
        **labels: object,
    ) -> Timer:
        """As `plimsoll.timer`."""
        labels = self._labelled(labels)
        return timer(operation, expected_interval_s=expected_interval_s, cpu=cpu, **labels)

    def record(
        self,
        operation: str,
        /,
        *,
        seconds: float,
        expected_interval_s: Optional[float] = None,
        **labels: object,
    ) -> None:
        """As `plimsoll.record`: a latency in seconds."""
        labels = self._labelled(labels)
        record(operation, seconds=seconds, expected_interval_s=expected_interval_s, **labels)

    def count(self, name: str, /, n: float = 1, **labels: object) -> None:
        """As `plimsoll.count`."""
        count(name, n, **self._labelled(labels))

    def get_summary_stats(self, operation: str, /, **labels: object) -> SummaryStats:
        """As `plimsoll.get_summary_stats`, of the values that this profiler recorded."""
        return get_summary_stats(operation, **{**labels, LABEL: self.name})

    def _labelled(self, labels: Dict[str, object]) -> Dict[str, Any]:
        return {**self.labels, **labels, LABEL: self.name}


_profilers: Dict[str, Profiler] = {}


def get_profiler(name: str, /, **labels: object) -> Profiler:
    """The profiler of this name: the same object for the same name in a process.

    `labels` are those of all its values. Raises ValueError for an empty name, and when the profiler
    exists with other labels; without labels the existing one comes back. Beyond 256 names the
    profiler `other` comes back, with a PlimsollWarning.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f'{name!r} is no name of a profiler: get_profiler("loader")')
    found = _profilers.get(name)
    if found is None and len(_profilers) >= limits.PROFILERS_MAX:
        excess = f"{name!r} and later ones record as {OVERFLOW!r}"
        text = f"more than {limits.PROFILERS_MAX} profilers: {excess}: use fewer names, or labels"
        DIAGNOSTICS.warn_once("profilers", text)
        return _profilers.setdefault(OVERFLOW, Profiler(OVERFLOW, {}))
    if found is None:
        # Of two threads that make the same one, both get the first.
        found = _profilers.setdefault(name, Profiler(name, dict(labels)))
    if labels and label_pairs(labels) != label_pairs(found.labels):
        fix = "give the same labels, or none"
        raise ValueError(f"profiler {name!r} has the labels {found.labels}: {fix}")
    return found
