"""One series: callers append values, and the flush thread takes them.

A caller only appends to a list, which takes no lock: the flush thread copies a known number of
values from the front and deletes exactly those, and an append that races with it lands behind
them. Series know neither sockets nor time; all but `add` runs under the registry's lock.
"""

import collections
import sys
from bisect import bisect_right
from itertools import accumulate, repeat
from operator import truediv
from typing import (
    Dict,
    FrozenSet,
    List,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Union,
    cast,
)

from . import limits
from .buckets import Cells, fold, fold_counts, mean_ns, merge
from .callbacks import CALLBACKS
from .crossing import Threshold
from .epochs import epochs_of
from .names import UNITS

Number = Union[int, float]

# `repr` writes floats below 1e-4 with an exponent, and none from there to 1e16.
_EXPONENT_BELOW_NS = 100


class Owner(Protocol):
    """What a series needs of the registry that it belongs to."""

    cells: int
    """Buckets that all series use together for values that wait."""
    recorded_cells: int
    """Buckets that all series use together for the statistics of this process."""
    thresholds: Dict[str, List[Threshold]]
    """Thresholds by the name of the series that they judge."""

    def relieve(self, series: "Series") -> None:
        """Makes room in a series that is full or asleep."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts values that are not kept."""


class Line(NamedTuple):
    """A line of a datagram."""

    text: str
    samples: int
    """Latency samples in it, weights included."""
    values: int
    """Values in it: its samples, or 1; none for what the client reports about itself."""


class Series:
    """Base of all kinds of series: a name, labels and pending values."""

    __slots__ = ("registry", "name", "tags", "pending", "pending_max", "thresholds", "over")

    TYPE = ""
    """The type of its lines."""

    def __init__(self, registry: Owner, name: str, tags: str) -> None:
        self.registry = registry
        self.name = name
        self.tags = tags
        self.pending: List[Number] = []
        # Zero while it sleeps: its next value calls `relieve`.
        self.pending_max = 0
        self.thresholds: Sequence[Threshold] = registry.thresholds.get(self.operation, ())
        # Those that its values exceed.
        self.over: FrozenSet[Threshold] = frozenset()

    @property
    def operation(self) -> str:
        """Its name with the unit of values that are not nanoseconds: `read:bytes`."""
        return f"{self.name}:{self.TYPE}" if self.TYPE in UNITS else self.name

    def is_awaited(self) -> bool:
        """Whether its values are to be taken also while they cannot be sent."""
        return bool(self.thresholds)

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
        self.over = frozenset()

    def judge(self, values: Sequence[Number]) -> None:
        """Compares values with the thresholds, and has their callbacks called for what changed."""
        for threshold in self.thresholds:
            crossing = threshold.crossing(threshold in self.over, values, self.tags)
            if crossing is None:
                continue
            if CALLBACKS.post(threshold.callback, crossing):
                self.over ^= {threshold}
            else:
                # The next values are judged as if there had been none.
                self.registry.drop("callbacks")

    def settle(self, values: List[Number]) -> None:
        """Folds values into as little as the kind allows."""
        raise NotImplementedError

    def is_used(self) -> bool:
        """Whether it ever had a value."""
        raise NotImplementedError

    def absorb(self, other: "Series") -> None:
        """Takes everything out of a series of the same kind, statistics included."""
        raise NotImplementedError

    def held(self) -> int:
        """Values in here: samples of a latency, 1 for all amounts of a counter or a gauge."""
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

    __slots__ = ("cells", "ready", "recorded", "recorded_refused", "epochs")

    TYPE = "ms"
    PER_SHOWN = 1e9
    """What waits, in one of what people see: nanoseconds in a second."""

    def __init__(self, registry: Owner, name: str, tags: str) -> None:
        super().__init__(registry, name, tags)
        self.cells: Cells = {}
        # Exponent of a weight -> values as text, each with the weight of 2^exponent samples.
        self.ready: Dict[int, List[str]] = {}
        # All samples that became ready so far: the statistics of this process.
        self.recorded: Cells = {}
        self.recorded_refused = 0
        self.epochs = epochs_of(name) if self.TYPE == "ms" else None

    def take(self, count: int) -> List[Number]:
        """Takes values, and writes those of epochs as they are: each value is taken once."""
        values = super().take(count)
        if self.epochs is not None and values:
            self.epochs.write(self.name, values)
        return values

    def is_awaited(self) -> bool:
        return self.epochs is not None or super().is_awaited()

    def clear(self) -> None:
        super().clear()
        self.cells = {}
        self.ready = {}
        self.recorded = {}
        self.recorded_refused = 0

    def settle(self, values: List[Number]) -> None:
        self._judge_shown(values)
        before = len(self.cells)
        spare = limits.CELLS_MAX - self.registry.cells
        # Latencies are whole nanoseconds; the list is typed for all kinds.
        refused = fold(cast("List[int]", values), self.cells, before + spare)
        self.registry.cells += len(self.cells) - before
        if refused:
            self.registry.drop("cells", refused)

    def is_used(self) -> bool:
        return self.has_values() or bool(self.recorded or self.recorded_refused)

    def absorb(self, other: Series) -> None:
        assert isinstance(other, Latency)
        self.settle(other.take(len(other.pending)))
        for bit, texts in other.ready.items():
            self.ready.setdefault(bit, []).extend(texts)
        parts = len(self.cells) + len(other.cells), len(self.recorded) + len(other.recorded)
        merge(other.cells, self.cells, parts[0])
        merge(other.recorded, self.recorded, parts[1])
        # Buckets that both had are one now.
        self.registry.cells -= parts[0] - len(self.cells)
        self.registry.recorded_cells -= parts[1] - len(self.recorded)
        self.recorded_refused += other.recorded_refused
        other.cells, other.ready, other.recorded, other.recorded_refused = {}, {}, {}, 0

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
        values = cast("List[int]", self.take(limits.FOLD_AT_ONCE))
        count = min(len(self.cells), limits.CELLS_AT_ONCE)
        taken = dict(self.cells.popitem() for _ in range(count))
        self.registry.cells -= len(taken)
        for cell in taken.values():
            self._spread(mean_ns(cell), cell[0])
        # Here rather than in the call, so that statistics cost a caller nothing.
        before = len(self.recorded)
        cells_max = before + limits.RECORDED_CELLS_MAX - self.registry.recorded_cells
        self.recorded_refused += merge(taken, self.recorded, cells_max)
        self.recorded_refused += self._ready(values, cells_max)
        self.registry.recorded_cells += len(self.recorded) - before
        return len(values) + len(taken)

    def _ready(self, values: List[int], cells_max: int) -> int:
        """Makes texts of values and records them; returns the number that found no bucket.

        Many short calls have few different durations: each of these becomes text once, with the
        number of its samples, which is as exact and costs a fraction.
        """
        self._judge_shown(values)
        sample = values[: limits.REPEATS_SAMPLE]
        if 2 * len(set(sample)) > len(sample):
            if values:
                self.ready.setdefault(0, []).extend(self._texts(values))
            return fold(values, self.recorded, cells_max)
        counts = collections.Counter(values)
        for value_ns, count in counts.items():
            self._spread(value_ns, count)
        return fold_counts(counts, self.recorded, cells_max)

    def _judge_shown(self, values_ns: Sequence[Number]) -> None:
        if self.thresholds and values_ns:
            self.judge([value / self.PER_SHOWN for value in values_ns])

    def samples(self) -> Tuple[Cells, int]:
        """Buckets of all samples of this process, sent or not, and the samples that have none."""
        cells = {bucket: list(cell) for bucket, cell in self.recorded.items()}
        merge(self.cells, cells, sys.maxsize)
        fold(cast("List[int]", list(self.pending)), cells, sys.maxsize)
        return cells, self.recorded_refused

    def _spread(self, value_ns: int, count: int) -> None:
        """Samples as values of weights that are powers of two: the node divides by the sample
        rate, and 1 / (1 / n) is exactly n for these alone."""
        text = self._texts([value_ns])[0]
        top = limits.WEIGHT_BITS_MAX
        if count >> top:
            self.ready.setdefault(top, []).extend(repeat(text, count >> top))
            count &= (1 << top) - 1
        while count:
            bit = count.bit_length() - 1
            self.ready.setdefault(bit, []).append(text)
            count -= 1 << bit

    @staticmethod
    def _texts(values_ns: List[int]) -> List[str]:
        """`_milliseconds` of each value, in C where no value needs the longer way."""
        if min(values_ns) < _EXPONENT_BELOW_NS:
            return list(map(_milliseconds, values_ns))
        return list(map(repr, map(truediv, values_ns, repeat(1e6))))

    def line(self, room: int) -> Optional[Line]:
        bit, texts = next(iter(self.ready.items()))
        rate = f"|@{2.0**-bit!r}" if bit else ""
        tail = f"|{self.TYPE}{rate}{self.tags}"
        room -= len(self.name) + len(tail.encode())
        ends = list(accumulate(len(text) + 1 for text in texts))
        used = bisect_right(ends, room)
        if used == 0:
            return None
        values = ":".join(texts[:used])
        del texts[:used]
        if not texts:
            del self.ready[bit]
        return Line(f"{self.name}:{values}{tail}", used << bit, used << bit)


class SubMicrosecond(Latency):
    """Latencies in nanoseconds that the node counts in picoseconds, where they have buckets."""

    __slots__ = ()
    TYPE = "ps"

    @staticmethod
    def _texts(values_ns: List[int]) -> List[str]:
        return [f"{value_ns}000" for value_ns in values_ns]


class Bytes(Latency):
    """Sizes."""

    __slots__ = ()
    TYPE = "bytes"
    PER_SHOWN = 1.0

    @staticmethod
    def _texts(sizes: List[int]) -> List[str]:
        return list(map(str, sizes))


class Count(Latency):
    """Numbers of things, in thousandths."""

    __slots__ = ()
    TYPE = "count"
    PER_SHOWN = 1e3

    @staticmethod
    def _texts(thousandths: List[int]) -> List[str]:
        return [repr(value / 1e3) for value in thousandths]


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
        if values:
            self.judge([self.ever])

    def is_used(self) -> bool:
        return self.has_values() or self.ever != 0

    def absorb(self, other: Series) -> None:
        assert isinstance(other, Counter)
        other.refill()
        self.total = _finite(self.total + other.total)
        self.ever = _finite(self.ever + other.ever)
        other.total = other.ever = 0

    def sum(self) -> Number:
        """All amounts of this process, sent or not."""
        return _finite(self.ever + sum(self.pending))

    def held(self) -> int:
        return int(self.has_values())

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
        return Line(text, 0, 1)


class DropCounter(Counter):
    """Counts what is dropped; sent as any counter, but no value of the program."""

    __slots__ = ()

    def held(self) -> int:
        return 0

    def line(self, room: int) -> Optional[Line]:
        line = super().line(room)
        return line and line._replace(values=0)


class Gauge(Series):
    """A value that replaces the one before."""

    __slots__ = ("latest", "last")

    def __init__(self, registry: Owner, name: str, tags: str) -> None:
        super().__init__(registry, name, tags)
        # The value to send, None once it is sent; and the last one that was set.
        self.latest: Optional[Number] = None
        self.last: Optional[Number] = None

    def clear(self) -> None:
        super().clear()
        self.latest = self.last = None

    def settle(self, values: List[Number]) -> None:
        if values:
            self.latest = self.last = values[-1]
            self.judge([values[-1]])

    def is_used(self) -> bool:
        return self.has_values() or self.last is not None

    def absorb(self, other: Series) -> None:
        assert isinstance(other, Gauge)
        other.refill()
        self.latest = self.latest if other.latest is None else other.latest
        self.last = self.last if other.last is None else other.last
        other.latest = other.last = None

    def value(self) -> Optional[Number]:
        """The value that was set last, sent or not; None if there is none."""
        waiting = list(self.pending)
        return waiting[-1] if waiting else self.last

    def held(self) -> int:
        return int(self.has_values())

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
        return Line(text, 0, 1)


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
