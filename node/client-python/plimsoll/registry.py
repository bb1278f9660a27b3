"""All series of a process, found by name and labels, and the bounds that they share.

Has neither sockets nor threads. What no bound leaves room for is counted under a
reason in `plimsoll_client_dropped`, which is itself sent to the node.
"""

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple, Type, TypeVar

from . import limits
from .crossing import Threshold
from .names import UNITS, Pair, as_text, label_pairs, operation_name, tag_text, with_defaults
from .series import Counter, DropCounter, Gauge, Latency, NoGauge, Series, SubMicrosecond

DROPPED = "plimsoll_client_dropped"
OVERFLOW = "other"
_PS = ":ps"
REASONS = ("value", "cells", "series", "corrected", "events", "size", "idle", "phases", "callbacks")

# A kind, a name, and pairs of label and value.
_Key = Tuple[Any, ...]
_Kind = TypeVar("_Kind", bound=Series)


class Registry:
    """Series of one process. `on_first` is called by the first value while it sleeps."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self.recording = True
        self.cells = self.recorded_cells = 0
        self.overflowed = 0
        self.events: List[str] = []
        self.is_awake = False
        self.default_labels: Tuple[Pair, ...] = ()
        self.thresholds: Dict[str, List[Threshold]] = {}
        self._share = 0
        self._by_spelling: Dict[_Key, Series] = {}
        self._by_name: Dict[_Key, Series] = {}
        # What series recorded under former default labels, by kind, name and tags.
        self._former: Dict[_Key, Series] = {}
        self._make_locks()
        self._drops = {reason: self._drop_counter(reason) for reason in REASONS}
        self._no_gauge = NoGauge(self, OVERFLOW, "")
        self._share_out()

    def _make_locks(self) -> None:
        # Reentrant, because a signal handler or a finalizer may record in the middle of it.
        self._lock = threading.RLock()
        self._busy = False

    def forked(self) -> None:
        """In a forked child: nothing of what the parent recorded, and no lock of its threads."""
        self._make_locks()
        self.cells = self.recorded_cells = 0
        self.events = []
        self._former = {}
        for series in self.all():
            series.clear()
        self.sleep()

    # Finding a series.

    def latency(self, name: str, labels: Mapping[str, object]) -> Latency:
        """The latency series of that name with those labels; in picoseconds if it ends with `:ps`."""
        return self._find(Latency, name, labels)

    def distribution(
        self, kind: Type[Latency], name: str, labels: Mapping[str, object]
    ) -> Latency:
        """The series of that name whose values have the unit of that kind."""
        return self._find(kind, name, labels)

    def counter(self, name: str, labels: Mapping[str, object]) -> Counter:
        """The counter of that name with those labels."""
        return self._find(Counter, name, labels)

    def gauge(self, name: str, labels: Mapping[str, object]) -> Gauge:
        """The gauge of that name with those labels."""
        return self._find(Gauge, name, labels)

    def all(self) -> List[Series]:
        """Every series, those of drops included; first those under former default labels.

        Of two gauges that now have the same labels again, the newer value is thus sent last.
        """
        return [*self._former.values(), *self._by_name.values(), *self._drops.values()]

    def __len__(self) -> int:
        return len(self._by_name)

    def _find(self, kind: Type[_Kind], name: str, labels: Mapping[str, object]) -> _Kind:
        # As text, since 1, 1.0 and True are one key.
        texts = [(key, as_text(value)) for key, value in labels.items()]
        spelling = (kind, name, *texts)
        found = self._by_spelling.get(spelling)
        if found is None:
            made: Type[Series] = kind
            bare = name
            if kind is Latency and name.endswith(_PS):
                made, bare = SubMicrosecond, name[: -len(_PS)]
            found = self._admit(made, (made, operation_name(bare), *label_pairs(labels)))
            has_place = found.name != OVERFLOW and not isinstance(found, NoGauge)
            chars = len(name) + sum(len(key) + len(text) for key, text in texts)
            is_short = chars <= limits.SPELLING_CHARS_MAX
            if has_place and is_short and len(self._by_spelling) < limits.SPELLINGS_MAX:
                self._by_spelling[spelling] = found
        assert isinstance(found, kind)
        return found

    def _admit(self, kind: Type[Series], key: _Key) -> Series:
        with self._lock:
            found = self._by_name.get(key)
            if found is not None:
                return found
            # The last places are for `other` of latencies, of each unit, and of counters.
            if len(self._by_name) < limits.SERIES_MAX - 2 - len(UNITS):
                return self._make(kind, key)
            self.overflowed += 1
            # A gauge cannot be folded: the last value of many different gauges means nothing.
            if kind is Gauge:
                return self._no_gauge
            return self._by_name.get((kind, OVERFLOW)) or self._make(kind, (kind, OVERFLOW))

    def _make(self, kind: Type[Series], key: _Key) -> Series:
        _, name, *pairs = key
        made = kind(self, name, tag_text(with_defaults(pairs, self.default_labels)))
        # A signal handler may have made it meanwhile, and left a value there.
        made = self._by_name.setdefault(key, made)
        self._share_out()
        return made

    def _drop_counter(self, reason: str) -> DropCounter:
        return DropCounter(self, DROPPED, tag_text([("reason", reason)]))

    # Default labels.

    def relabel(self, defaults: Tuple[Pair, ...]) -> None:
        """Values recorded from now on have these default labels; those before keep the former.

        Callers hold on to their series and its list, so a series stays the same object, and what
        it holds moves to another one under the former labels: a timed call pays nothing for it.
        """
        with self.still() as is_mine:
            self.default_labels = defaults
            for (kind, name, *pairs), series in list(self._by_name.items()):
                tags = tag_text(with_defaults(pairs, defaults))
                if tags == series.tags:
                    continue
                # A signal handler amid a flush moves nothing: those values get the new labels.
                if is_mine and series.is_used():
                    self._move_out(kind, name, series)
                series.tags = tags

    def _move_out(self, kind: Type[Series], name: str, series: Series) -> None:
        key = (kind, name, series.tags)
        former = self._former.get(key)
        if former is None and len(self._former) < limits.FORMER_SERIES_MAX:
            former = self._former[key] = kind(self, name, series.tags)
        if former is None and kind is Gauge:
            if series.has_values():
                self.drop("series")
            series.clear()
            return
        if former is None:
            former = self._by_name.get((kind, OVERFLOW)) or self._make(kind, (kind, OVERFLOW))
        if former is not series:
            former.absorb(series)

    # Thresholds.

    def judge(self, made: Threshold) -> None:
        """From now on what is recorded under its name is judged by it too.

        It replaces one with its comparison and severity. Raises ValueError when there are too many.
        """
        with self._lock:
            kept = [
                threshold
                for threshold in self.thresholds.get(made.name, ())
                if (threshold.comparison, threshold.severity) != (made.comparison, made.severity)
            ]
            others = sum(len(of) for name, of in self.thresholds.items() if name != made.name)
            if others + len(kept) >= limits.THRESHOLDS_MAX:
                raise ValueError(f"more than {limits.THRESHOLDS_MAX} thresholds: use fewer")
            self.thresholds[made.name] = [*kept, made]
            for series in self.all():
                if series.operation == made.name:
                    series.thresholds = self.thresholds[made.name]
                    series.over &= frozenset(kept)

    # Bounds.

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts what is not kept."""
        self._drops[reason].add(count)

    def dropped(self) -> Dict[str, int]:
        """What was not kept, by reason, since the process began."""
        return {
            reason: int(counter.ever + sum(counter.pending))
            for reason, counter in self._drops.items()
        }

    def held(self) -> int:
        """Values that wait in series and events."""
        return len(self.events) + sum(series.held() for series in self.all())

    def has_values(self) -> bool:
        """Whether any series or event waits to be sent."""
        return bool(self.events) or any(series.has_values() for series in self.all())

    def wake(self) -> None:
        """From now on no value calls `on_first`: each series gets its share with its next one."""
        self.is_awake = True

    def sleep(self) -> None:
        """The next value of any series calls `on_first`."""
        with self._lock:
            # First: a value that finds its series asleep then finds the registry asleep too.
            self.is_awake = False
            for series in self.all():
                series.pending_max = 0

    def doze(self) -> bool:
        """Sleeps if nothing waits; False when something does."""
        if self.has_values():
            return False
        self.sleep()
        # A value that came before its series slept called nothing.
        if self.has_values():
            self.wake()
        return not self.is_awake

    def _share_out(self) -> None:
        # Changes at powers of two alone, so that many series make no new one slow.
        places = 1 << max(0, len(self._by_name) - 1).bit_length()
        share = limits.VALUES_MAX // places
        share = max(limits.SERIES_VALUES_MIN, min(limits.SERIES_VALUES_MAX, share))
        if share != self._share:
            self._share = share
            for series in self.all():
                if series.pending_max > 0:
                    series.pending_max = share

    def relieve(self, series: Series) -> None:
        """Called by a caller that finds its series full, or finds it asleep."""
        if not self.recording:
            # This value is one too many; those recorded before it still go out.
            with contextlib.suppress(IndexError):
                series.pending.pop()
            return
        if series.pending_max == 0:
            # Before the next line, since `sleep` clears them in the other order.
            series.pending_max = self._share
        if not self.is_awake:
            self._on_first()
        if len(series.pending) <= series.pending_max:
            return
        with self.still() as is_mine:
            if is_mine and len(series.pending) > series.pending_max:
                series.settle(series.take(limits.FOLD_AT_ONCE))

    def fold_halves(self) -> None:
        """Folds series that are half full, so that callers rarely have to.

        Those with thresholds or of epochs whole, since values are judged and written when taken.
        """
        for series in self.all():
            kept = 0 if series.is_awaited() else series.pending_max // 2
            excess = len(series.pending) - kept
            for _ in range(0, excess, limits.FOLD_AT_ONCE):
                with self.still():
                    series.settle(series.take(limits.FOLD_AT_ONCE))

    @contextlib.contextmanager
    def still(self) -> Iterator[bool]:
        """Keeps other threads from taking values; False for one that already does."""
        with self._lock:
            if self._busy:
                yield False
                return
            self._busy = True
            try:
                yield True
            finally:
                self._busy = False
