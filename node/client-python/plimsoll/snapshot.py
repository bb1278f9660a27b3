"""Statistics of what this process recorded, for the process itself: needs no node.

Reads the series of the registry, in which the flush thread counts samples as it drains them; what
is queued and not drained is added here. Belongs to one process: a forked child begins empty.
"""

from typing import Any, Dict, Generator, List, Tuple

from .buckets import Cells, merge
from .client import CLIENT
from .names import label_pairs, tag_pairs, with_unit
from .series import Counter, Gauge, Latency, Series
from .statistics import SummaryStats, summary_stats

_Samples = Tuple[Cells, int]


class MetricsSnapshot(Dict[str, Any]):
    """Name -> statistics; a plain dict that may also be awaited."""

    def __await__(self) -> Generator[Any, None, "MetricsSnapshot"]:
        yield from ()
        return self


def metrics_snapshot() -> MetricsSnapshot:
    """Statistics of all that this process recorded so far, queued values included, by name.

    A latency has `count`, `mean`, `std`, `min`, `max`, `p50`, `p90`, `p95`, `p99` and `p999`, in
    seconds, or in the unit of its name, such as `read:bytes`; a counter has `total`; a gauge has `value`, None if it has several series. `series` has
    the same for each set of `labels`. `count`, `mean` and `total` are exact, the others of a latency
    are within 0.1 %, the width of a bucket. All but `count` are None when the process would need
    more than 100 000 buckets. Serialisable as JSON. Use it as `metrics_snapshot()["epoch_hook"]`
    or as `await metrics_snapshot()`.
    """
    names: Dict[str, List[Series]] = {}
    for series in CLIENT.registry.all():
        names.setdefault(series.operation, []).append(series)
    entries = {name: _entry(every) for name, every in sorted(names.items())}
    return MetricsSnapshot({name: entry for name, entry in entries.items() if entry["series"]})


def get_summary_stats(operation: str, /, **labels: object) -> SummaryStats:
    """Statistics of one operation: the keys of a latency in `metrics_snapshot`, in seconds.

    Of all its series in this process together, or of those that have these labels. Exact to 0.1 %,
    the width of a bucket, `count` and `mean` entirely. Without samples all but `count` are None.
    """
    name, wanted = with_unit(operation), set(label_pairs(labels))
    every = [
        series
        for series in CLIENT.registry.all()
        if isinstance(series, Latency) and series.operation == name
    ]
    found = [_samples(series) for series in every if wanted <= set(_labels(series))]
    return summary_stats(*_merged(found), _per_shown(every))


def _entry(every: List[Series]) -> Dict[str, Any]:
    """Statistics of one name, which may have several kinds and sets of labels."""
    latencies: Dict[Tuple[Tuple[str, str], ...], List[_Samples]] = {}
    counters: Dict[Tuple[Tuple[str, str], ...], float] = {}
    gauges: Dict[Tuple[Tuple[str, str], ...], float] = {}
    for series in every:
        labels = _labels(series)
        if isinstance(series, Latency):
            latencies.setdefault(labels, []).append(_samples(series))
        elif isinstance(series, Counter) and series.sum():
            counters[labels] = counters.get(labels, 0) + series.sum()
        elif isinstance(series, Gauge):
            value = series.value()
            if value is not None:
                gauges[labels] = value
    entry: Dict[str, Any] = {}
    samples = {labels: _merged(found) for labels, found in latencies.items()}
    samples = {labels: found for labels, found in samples.items() if found != ({}, 0)}
    per = _per_shown(every)
    rows = [
        {"labels": dict(labels), **summary_stats(*found, per)} for labels, found in samples.items()
    ]
    if rows:
        entry.update(summary_stats(*_merged(list(samples.values())), per))
    if counters:
        entry["total"] = sum(counters.values())
        rows += [{"labels": dict(labels), "total": total} for labels, total in counters.items()]
    if gauges:
        entry["value"] = next(iter(gauges.values())) if len(gauges) == 1 else None
        rows += [{"labels": dict(labels), "value": value} for labels, value in gauges.items()]
    return {**entry, "series": rows}


def _per_shown(every: List[Any]) -> float:
    """That of all series of one name, which have one unit."""
    return next((of.PER_SHOWN for of in every if isinstance(of, Latency)), Latency.PER_SHOWN)


def _samples(series: Latency) -> _Samples:
    with CLIENT.registry.still():
        return series.samples()


def _merged(found: List[_Samples]) -> _Samples:
    cells: Cells = {}
    for part, _ in found:
        merge(part, cells, sum(len(other) for other, _ in found))
    return cells, sum(refused for _, refused in found)


def _labels(series: Series) -> Tuple[Tuple[str, str], ...]:
    return tuple(tag_pairs(series.tags))
