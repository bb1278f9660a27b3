"""One series: callers append values, and the flush thread takes them.

A caller only appends to a list, which takes no lock: the flush thread copies a known number of
values from the front and deletes exactly those, and an append that races with it lands behind
them. Series know neither sockets nor time; all but `add` runs under the registry's lock.
"""

import sys
from bisect import bisect_right
from itertools import accumulate, repeat
from typing import Dict, List, NamedTuple, Optional, Protocol, Union, cast

from . import limits
from .buckets import Cells, fold, mean_ns

Number = Union[int, float]


class Owner(Protocol):
    """What a series needs of the registry that it belongs to."""

    cells: int
    """Buckets that all series use together."""

    def relieve(self, series: "Series") -> None:
        """Makes room in a series that is full or asleep."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts values that are not kept."""


class Line(NamedTuple):
    """A line of a datagram."""

    text: str
    samples: int
    """Latency samples in it, weights included."""


class Series:
    """Base of all kinds of series: a name, labels and pending values."""

    __slots__ = ("registry", "name", "tags", "pending", "pending_max")

    def __init__(self, registry: Owner, name: str, tags: str) -> None:
        self.registry = registry
        self.name = name
        self.tags = tags
        self.pending: List[Number] = []
        # Zero while it sleeps: its next value calls `relieve`.
        self.pending_max = 0

    def add(self, value: Number) -> None:
        """Appends a value: nanoseconds of a latency, an amount, or a gauge's value."""
        self.pending.append(value)
        if len(self.pending) > self.pending_max:
            self.registry.relieve(self)

    def take(self, count: int) -> List[Number]:
        """Takes the first of the values that wait, at most `count`."""
        values = self.pending[:count]
        # There may have been fewer, and more may have come since.
        del self.pending[: len(values)]
        return values

    def clear(self) -> None:
        """Removes everything; the list object stays, since callers hold references to it."""
        self.pending.clear()

    def settle(self, values: List[Number]) -> None:
        """Folds values into as little as the kind allows."""
        raise NotImplementedError

    def held(self) -> int:
        """Values in here, samples of a latency."""
        raise NotImplementedError

    def has_values(self) -> bool:
        """Whether anything is in here, in whatever form."""
        return bool(self.pending) or self.is_ready()

    def waiting(self) -> int:
        """Steps of `refill` that what is here now needs at most."""
        return len(self.pending)

    def refill(self) -> int:
        """Prepares a bounded part of the pending values; returns its size, 0 at the end."""
        raise NotImplementedError

    def line(self, room: int) -> Optional[Line]:
        """Takes a line of at most `room` bytes from what is ready; None when none fits."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Whether something is ready to be taken as a line."""
        raise NotImplementedError


class Latency(Series):
    """Samples on their way `pending` -> (`cells` ->) `ready` -> lines."""

    __slots__ = ("cells", "ready")

    def __init__(self, registry: Owner, name: str, tags: str) -> None:
        super().__init__(registry, name, tags)
        self.cells: Cells = {}
        # Exponent of a weight -> values as text, each with the weight of 2^exponent samples.
        self.ready: Dict[int, List[str]] = {}

    def clear(self) -> None:
        super().clear()
        self.cells = {}
        self.ready = {}

    def settle(self, values: List[Number]) -> None:
        before = len(self.cells)
        spare = limits.CELLS_MAX - self.registry.cells
        # Latencies are whole nanoseconds; the list is typed for all kinds.
        refused = fold(cast("List[int]", values), self.cells, before + spare)
        self.registry.cells += len(self.cells) - before
        if refused:
            self.registry.drop("cells", refused)

    def held(self) -> int:
        folded = sum(cell[0] for cell in self.cells.values())
        return len(self.pending) + folded + sum(len(t) << bit for bit, t in self.ready.items())

    def has_values(self) -> bool:
        return bool(self.pending or self.cells or self.ready)

    def waiting(self) -> int:
        return len(self.pending) + len(self.cells)

    def is_ready(self) -> bool:
        return bool(self.ready)

    def refill(self) -> int:
        values = self.take(limits.FOLD_AT_ONCE)
        if values:
            self.ready.setdefault(0, []).extend(map(_milliseconds, values))
        taken = min(len(self.cells), limits.CELLS_AT_ONCE)
        for _ in range(taken):
            self._spread(self.cells.popitem()[1])
        self.registry.cells -= taken
        return len(values) + taken

    def _spread(self, cell: List[int]) -> None:
        """A cell as values of weights that are powers of two: the node divides by the sample
        rate, and 1 / (1 / n) is exactly n for these alone."""
        text = _milliseconds(mean_ns(cell))
        top = limits.WEIGHT_BITS_MAX
        for bit in range(top):
            if cell[0] >> bit & 1:
                self.ready.setdefault(bit, []).append(text)
        if cell[0] >> top:
            self.ready.setdefault(top, []).extend(repeat(text, cell[0] >> top))

    def line(self, room: int) -> Optional[Line]:
        bit, texts = next(iter(self.ready.items()))
        rate = f"|@{2.0**-bit!r}" if bit else ""
        tail = f"|ms{rate}{self.tags}"
        room -= len(self.name) + len(tail.encode())
        ends = list(accumulate(len(text) + 1 for text in texts))
        used = bisect_right(ends, room)
        if used == 0:
            return None
        values = ":".join(texts[:used])
        del texts[:used]
        if not texts:
            del self.ready[bit]
        return Line(f"{self.name}:{values}{tail}", used << bit)


class Counter(Series):
    """Amounts that add up."""

    __slots__ = ("total", "ever")

    def __init__(self, registry: Owner, name: str, tags: str) -> None:
        super().__init__(registry, name, tags)
        self.total: Number = 0
        self.ever: Number = 0

    def clear(self) -> None:
        super().clear()
        self.total = self.ever = 0

    def settle(self, values: List[Number]) -> None:
        amount = sum(values)
        self.total = _finite(self.total + amount)
        self.ever = _finite(self.ever + amount)

    def held(self) -> int:
        return len(self.pending)

    def is_ready(self) -> bool:
        return self.total != 0

    def refill(self) -> int:
        values = self.take(len(self.pending))
        self.settle(values)
        return len(values)

    def line(self, room: int) -> Optional[Line]:
        text = f"{self.name}:{self.total!r}|c{self.tags}"
        if len(text.encode()) > room:
            return None
        self.total = 0
        return Line(text, 0)


class Gauge(Series):
    """A value of which the last one counts."""

    __slots__ = ("latest",)

    def __init__(self, registry: Owner, name: str, tags: str) -> None:
        super().__init__(registry, name, tags)
        self.latest: Optional[Number] = None

    def clear(self) -> None:
        super().clear()
        self.latest = None

    def settle(self, values: List[Number]) -> None:
        if values:
            self.latest = values[-1]

    def held(self) -> int:
        return len(self.pending)

    def is_ready(self) -> bool:
        return self.latest is not None

    def refill(self) -> int:
        values = self.take(len(self.pending))
        self.settle(values)
        return len(values)

    def line(self, room: int) -> Optional[Line]:
        text = f"{self.name}:{self.latest!r}|g{self.tags}"
        if len(text.encode()) > room:
            return None
        self.latest = None
        return Line(text, 0)


class NoGauge(Gauge):
    """Takes the place of gauges beyond the series limit: counts their values and drops them."""

    __slots__ = ()

    def add(self, value: Number) -> None:
        self.registry.drop("series")


def _finite(amount: Number) -> Number:
    """Two finite numbers may add up to infinity, which the node refuses."""
    return max(-sys.float_info.max, min(sys.float_info.max, amount))


def _milliseconds(value_ns: Number) -> str:
    """Nanoseconds as milliseconds with up to six decimals, from which they can be read back."""
    text = repr(value_ns / 1e6)
    return text if "e" not in text else f"{value_ns / 1e6:.6f}"
