"""Buckets that nest in those of the node, so that folding moves no value out of its bucket.

A bucket holds values that share their eleven leading bits: below 2 048 ns each value is alone,
above that a bucket is less than 0.1 % wide. The node's buckets (unit 1 ns, 1 us to 1 h,
3 significant digits) are unions of these, so the mean of a cell lies in the node's bucket too.
"""

import math
from typing import Dict, Iterable, List, Mapping, Sequence

Cells = Dict[int, List[int]]
"""Lowest value of a bucket, in ns, to [count, sum in ns]."""

_LEADING_BITS = 11


def bucket_of(value_ns: int) -> int:
    """The lowest value of the bucket that holds `value_ns`."""
    shift = value_ns.bit_length() - _LEADING_BITS
    return value_ns >> shift << shift if shift > 0 else value_ns


def fold(values_ns: Iterable[int], cells: Cells, cells_max: int) -> int:
    """Adds values to `cells`, which grows to at most `cells_max`; returns the number left out."""
    refused = 0
    for value_ns in values_ns:
        shift = value_ns.bit_length() - _LEADING_BITS
        bucket = value_ns >> shift << shift if shift > 0 else value_ns
        cell = cells.get(bucket)
        if cell is not None:
            cell[0] += 1
            cell[1] += value_ns
        elif len(cells) < cells_max:
            cells[bucket] = [1, value_ns]
        else:
            refused += 1
    return refused


def fold_counts(counts: Mapping[int, int], cells: Cells, cells_max: int) -> int:
    """As `fold`, of values in nanoseconds that occur this many times each."""
    refused = 0
    for value_ns, count in counts.items():
        bucket = bucket_of(value_ns)
        cell = cells.get(bucket)
        if cell is not None:
            cell[0] += count
            cell[1] += value_ns * count
        elif len(cells) < cells_max:
            cells[bucket] = [count, value_ns * count]
        else:
            refused += count
    return refused


def merge(cells: Cells, into: Cells, cells_max: int) -> int:
    """Adds `cells` to `into`, which grows to at most `cells_max`; returns the samples left out."""
    refused = 0
    for bucket, (count, total) in cells.items():
        cell = into.get(bucket)
        if cell is not None:
            cell[0] += count
            cell[1] += total
        elif len(into) < cells_max:
            into[bucket] = [count, total]
        else:
            refused += count
    return refused


def mean_ns(cell: List[int]) -> int:
    """The mean of a cell, to the nearest nanosecond; never outside its bucket."""
    count, total = cell
    return (2 * total + count) // (2 * count)


def quantile_ns(cells: Cells, share: float) -> int:
    """The smallest value that at least `share` of the samples do not exceed, within 0.1 %.

    `cells` must not be empty.
    """
    return quantiles_ns(cells, [share])[0]


def quantiles_ns(cells: Cells, shares: Sequence[float]) -> List[int]:
    """`quantile_ns` of each of some ascending shares."""
    total = sum(cell[0] for cell in cells.values())
    ranks = [max(1, math.ceil(share * total)) for share in shares]
    found: List[int] = []
    reached = 0
    for bucket in sorted(cells):
        reached += cells[bucket][0]
        while len(found) < len(ranks) and reached >= ranks[len(found)]:
            found.append(mean_ns(cells[bucket]))
    return found
