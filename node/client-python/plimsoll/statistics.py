"""Statistics of latencies: of any buckets, of an operation of an experiment, and of a cycle.

Latencies are kept in buckets less than 0.1 % wide; counts and sums are exact. Needs no node.
"""

import math
import time
from time import perf_counter_ns as clock
from typing import Any, Dict, Optional

from .buckets import Cells, fold, mean_ns, quantile_ns, quantiles_ns


SummaryStats = Dict[str, Optional[float]]

_PERCENTILES = (("p50", 0.50), ("p90", 0.90), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
_KEYS = ("mean", "std", "min", "max", *(name for name, _ in _PERCENTILES))


def summary_stats(cells: Cells, refused: int, per_shown: float = 1e9) -> SummaryStats:
    """`count`, and in seconds, of which one is `per_shown` of what cells hold, `mean`, `std`, `min`, `max`, `p50`, `p90`, `p95`, `p99`, `p999`.

    An aggregator's `/api/v1/statistics` has the same keys.

    `count` and `mean` are exact. The others are within 0.1 %, the width of a bucket; `std` is that
    of the population. Without samples all but `count` are None, and also with `refused` samples,
    which have no bucket, rather than those of a part of the samples.
    """
    count = sum(cell[0] for cell in cells.values())
    if refused or not count:
        return {"count": count + refused, **dict.fromkeys(_KEYS)}
    mean = sum(cell[1] for cell in cells.values()) / count
    squares = math.fsum(cell[0] * (cell[1] / cell[0] - mean) ** 2 for cell in cells.values())
    quantiles = quantiles_ns(cells, [share for _, share in _PERCENTILES])
    ends = (mean_ns(cells[min(cells)]), mean_ns(cells[max(cells)]))
    values_ns = (mean, math.sqrt(squares / count), *ends, *quantiles)
    return {"count": count, **{key: value / per_shown for key, value in zip(_KEYS, values_ns)}}


class OperationStats:
    """Latencies of one operation in buckets, its tokens and errors."""

    __slots__ = ("cells", "refused", "max_ns", "total_ns", "count", "tokens", "busy_ns", "errors")

    def __init__(self) -> None:
        self.cells: Cells = {}
        self.refused = 0
        self.count = self.total_ns = self.max_ns = 0
        self.tokens = self.busy_ns = self.errors = 0

    def add(self, value_ns: int, tokens: int, failed: bool, cells_spare: int) -> int:
        """Adds one latency; returns the number of new cells."""
        before = len(self.cells)
        self.refused += fold([value_ns], self.cells, before + cells_spare)
        self.count += 1
        self.total_ns += value_ns
        self.max_ns = max(self.max_ns, value_ns)
        self.errors += failed
        if tokens:
            self.tokens += tokens
            self.busy_ns += value_ns
        return len(self.cells) - before

    def as_json(self) -> Dict[str, Any]:
        """Times in seconds; tokens only if there were any."""
        fields: Dict[str, Any] = {
            "count": self.count,
            "errors": self.errors,
            "total_seconds": self.total_ns / 1e9,
            "mean_seconds": self.total_ns / self.count / 1e9,
            # With no cell left there is no quantile, rather than one of half the samples.
            "p50_seconds": None if self.refused else quantile_ns(self.cells, 0.50) / 1e9,
            "p99_seconds": None if self.refused else quantile_ns(self.cells, 0.99) / 1e9,
            "max_seconds": self.max_ns / 1e9,
        }
        if self.tokens:
            fields["tokens"] = self.tokens
            busy_s = self.busy_ns / 1e9
            fields["tokens_per_second"] = self.tokens / busy_s if busy_s else None
        return fields


class Cycle:
    """One cycle: its begin, its duration, its operations."""

    __slots__ = ("number", "began_unix_s", "begun_ns", "took_ns", "operations", "labels")

    def __init__(self, number: int, labels: Dict[str, object]) -> None:
        self.number = number
        self.labels = labels
        self.began_unix_s = time.time()
        self.begun_ns = clock()
        self.took_ns: Optional[int] = None
        self.operations: Dict[str, OperationStats] = {}

    def as_json(self) -> Dict[str, Any]:
        """One entry of `cycles` in the export."""
        return {
            "cycle": self.number,
            "labels": {key: str(value) for key, value in self.labels.items()},
            "began_unix_seconds": self.began_unix_s,
            "seconds": None if self.took_ns is None else self.took_ns / 1e9,
            "operations": {name: f.as_json() for name, f in sorted(self.operations.items())},
        }
