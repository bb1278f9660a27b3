"""Buckets that nest in those of the node, so that folding moves no value out of its bucket.

A bucket holds values that share their eleven leading bits: below 2 048 ns each value is alone,
above that a bucket is less than 0.1 % wide. The node's buckets (unit 1 ns, 1 us to 1 h,
3 significant digits) are unions of these, so the mean of a cell lies in the node's bucket too.
"""

import math
from typing import Dict, Iterable, List

Cells = Dict[int, List[int]]
"""Lowest value of a bucket, in ns, to [count, sum in ns]."""

_LEADING_BITS = 11


def bucket_of(value_ns: int) -> int:
    """The lowest value of the bucket that holds `value_ns`."""
    shift = value_ns.bit_length() - _LEADING_BITS
    return value_ns >> shift << shift if shift > 0 else value_ns


def fold(values_ns: Iterable[int], cells: Cells, cells_max: int) -> int:
    """Adds values to `cells`, which grows to at most `cells_max`; returns the number that did not fit."""
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


def mean_ns(cell: List[int]) -> int:
    """The mean of a cell, to the nearest nanosecond; never outside its bucket."""
    count, total = cell
    return (2 * total + count) // (2 * count)


def quantile_ns(cells: Cells, share: float) -> int:
    """The smallest value that at least `share` of the samples do not exceed, within 0.1 %.

    `cells` must not be empty.
    """
    rank = max(1, math.ceil(share * sum(cell[0] for cell in cells.values())))
    seen = 0
    bucket = 0
    for bucket in sorted(cells):
        seen += cells[bucket][0]
        if seen >= rank:
            break
    return mean_ns(cells[bucket])
