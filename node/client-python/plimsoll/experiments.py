"""Experiments: named runs that consist of cycles, with figures of their own as JSON.

Everything timed here goes to the node like any other sample, and is kept in buckets here too, so
that `export_json` can report count, mean, p50, p99 and max of each operation, for each cycle and
for the whole run, without a node. Bounded: the newest 1 000 cycles one by one, the totals of
all; what had no room is counted in the export. Belongs to one process; threads may share it.
"""

import contextlib
import json
import math
import numbers
import os
import threading
import time
import weakref
from collections import deque
from time import perf_counter_ns as clock
from typing import Any, Deque, Dict, Iterator, Optional, cast

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .memory import peak_resident_bytes, resident_bytes
from .names import bare_key, part_name
from .spans import RINGS, note
from .statistics import Cycle, OperationStats
from .timing import NO_TIMER, Timer, add_latency, as_float, count_error, count_tokens

_LABEL_TYPES = frozenset((str, bool))
# Counters of a timing, whose names no gauge can have, and what counts in each.
_COUNTERS = {
    "errors": "failed=True counts one failure",
    "tokens": "record_timing(tokens=..) and t.tokens(n) count tokens",
    "seconds": "the time is recorded by itself",
}


class Experiment:
    """One run; made by `experiment`, or begun and ended by hand with `start` and `end`."""

    def __init__(self, name: str, labels: Dict[str, object]) -> None:
        self.name = name
        self.labels = labels
        self._lock = threading.RLock()
        self._began_unix_s = time.time()
        self._begun_ns = clock()
        self._took_ns: Optional[int] = None
        self._cycle: Optional[Cycle] = None
        self._cycles: Deque[Cycle] = deque()
        self._cycles_begun = 0
        self._totals: Dict[str, OperationStats] = {}
        self._cells = 0
        self._operations_refused = 0
        self._memory: Deque[Dict[str, Any]] = deque(maxlen=limits.MEMORY_SNAPSHOTS_MAX)
        self._memory_taken = 0
        _runs.add(self)

    # The run and its cycles.

    def end(self) -> None:
        """The run is over, and so is a cycle that is still open."""
        with self._lock:
            self.end_cycle()
            if self._took_ns is None:
                self._took_ns = clock() - self._begun_ns

    def start_cycle(self, **labels: object) -> None:
        """A cycle begins; one that is still open ends."""
        with self._lock:
            self.end_cycle()
            self._cycles_begun += 1
            self._cycle = Cycle(self._cycles_begun, labels)
            self._cycles.append(self._cycle)
            while len(self._cycles) > limits.CYCLES_MAX:
                self._drop_oldest()

    def end_cycle(self, *, failed: bool = False) -> None:
        """The open cycle is over, and becomes a sample of the operation `cycle`.

        One that `failed` also counts in `cycle.errors`.
        """
        with self._lock:
            cycle, self._cycle = self._cycle, None
            if cycle is None:
                return
            cycle.took_ns = clock() - cycle.begun_ns
            self._add(None, "cycle", cycle.took_ns, 0, failed)
        labels = {**self.labels, **cycle.labels}
        CLIENT.registry.latency("cycle", labels).add(cycle.took_ns)
        if RINGS:
            note("cycle", cycle.begun_ns, cycle.begun_ns + cycle.took_ns, labels)
        if failed:
            count_error("cycle", labels)

    @contextlib.contextmanager
    def cycle(self, **labels: object) -> Iterator[None]:
        """`with e.cycle():` is one cycle; an exception that leaves it counts in `cycle.errors`."""
        self.start_cycle(**labels)
        failed = False
        try:
            yield
        except Exception:
            failed = True
            raise
        finally:
            self.end_cycle(failed=failed)

    # What is timed.

    def time(self, operation: str, /, **labels: object) -> Timer:
        """`with e.time("llm_inference", class_="llm") as t:` times a block of this run.

        Numbers are gauges, as of `record_timing`, those of `t.label` included.
        """
        _check_gauges(labels)
        return ExperimentTimer(self, operation, labels)

    def record_timing(
        self,
        operation: str,
        /,
        *,
        seconds: float,
        tokens: int = 0,
        failed: bool = False,
        **labels: object,
    ) -> None:
        """Records a latency that was measured elsewhere, in seconds.

        One that `failed` also counts in `<operation>.errors`. Of the keywords a number, `batch=32`,
        is the gauge `<operation>.batch`; all others are labels, text and bool above all. Raises
        ValueError for a number by the name of a counter, such as `errors`.
        """
        _check_gauges(labels)
        seconds = as_float(seconds)
        if not 0 <= seconds <= limits.VALUE_NS_MAX / 1e9:
            CLIENT.registry.drop("value")
            return
        value_ns = round(seconds * 1e9)
        self.add(operation, labels, value_ns, int(tokens), failed)

    def record_memory_snapshot(self, label: str = "") -> None:
        """Notes the resident bytes of this process; None where they cannot be read."""
        resident = resident_bytes()
        with self._lock:
            self._memory_taken += 1
            self._memory.append(
                {
                    "label": label,
                    "cycle": self._cycle.number if self._cycle else None,
                    "seconds": (clock() - self._begun_ns) / 1e9,
                    "resident_bytes": resident,
                }
            )
        if resident is not None:
            CLIENT.registry.gauge("process.resident_bytes", self.labels).add(float(resident))

    def add(
        self, operation: str, labels: Dict[str, object], value_ns: int, tokens: int, failed: bool
    ) -> None:
        """One latency, here and for the node; labels of the run go along. Numbers are gauges."""
        with self._lock:
            self._add(self._cycle, operation, value_ns, tokens, failed)
        # Most timings have text alone, which this finds in a tenth of the time.
        if not _LABEL_TYPES.issuperset(map(type, labels.values())):
            labels = self._set_gauges(operation, labels)
        labels = {**self.labels, **labels}
        add_latency(CLIENT.registry.latency(operation, labels), value_ns)
        if tokens:
            count_tokens(operation, labels, tokens, value_ns)
        if failed:
            count_error(operation, labels)

    def _set_gauges(self, operation: str, keywords: Dict[str, object]) -> Dict[str, object]:
        """Sets the gauges of a timing: its keywords that are numbers. Returns all others."""
        levels = {key: as_float(cast(float, v)) for key, v in keywords.items() if _is_number(v)}
        labels = {key: value for key, value in keywords.items() if key not in levels}
        for key, level in levels.items():
            name = part_name(operation, bare_key(key))
            if math.isfinite(level):
                CLIENT.registry.gauge(name, {**self.labels, **labels}).add(level)
            else:
                CLIENT.registry.drop("value")
        return labels

    def _add(
        self, cycle: Optional[Cycle], operation: str, value_ns: int, tokens: int, failed: bool
    ) -> None:
        for operations in [self._totals] + ([cycle.operations] if cycle else []):
            if operation not in operations and len(operations) >= limits.CYCLE_OPERATIONS_MAX:
                self._operations_refused += 1
                continue
            figures = operations.setdefault(operation, OperationStats())
            spare = limits.EXPERIMENT_CELLS_MAX - self._cells
            self._cells += figures.add(value_ns, tokens, failed, spare)

    def _drop_oldest(self) -> None:
        oldest = self._cycles.popleft()
        self._cells -= sum(len(figures.cells) for figures in oldest.operations.values())

    # What comes out.

    def as_json(self) -> Dict[str, Any]:
        """Everything known so far, as `export_json` writes it."""
        with self._lock:
            took_ns = clock() - self._begun_ns if self._took_ns is None else self._took_ns
            return {
                "schema": 1,
                "experiment": self.name,
                "labels": {key: str(value) for key, value in self.labels.items()},
                "began_unix_seconds": self._began_unix_s,
                "seconds": took_ns / 1e9,
                "cycles_begun": self._cycles_begun,
                "cycles_forgotten": self._cycles_begun - len(self._cycles),
                "samples_of_operations_refused": self._operations_refused,
                "totals": {name: f.as_json() for name, f in sorted(self._totals.items())},
                "cycles": [cycle.as_json() for cycle in self._cycles],
                "memory_snapshots_forgotten": self._memory_taken - len(self._memory),
                "memory": list(self._memory),
                "peak_resident_bytes": self._peak(),
            }

    def _peak(self) -> Optional[int]:
        # The kernel's two figures differ by some hundred KiB, and a peak is not below a snapshot.
        found = [peak_resident_bytes(), *(entry["resident_bytes"] for entry in self._memory)]
        return max((peak for peak in found if peak is not None), default=None)

    def export_json(self, path: "str | os.PathLike[str]") -> bool:
        """Writes the figures to `path`, whole or not at all; True when a file was written.

        Raises OSError when the file cannot be written.
        """
        text = json.dumps(self.as_json(), indent=2, allow_nan=False) + "\n"
        part = f"{os.fspath(path)}.part"
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
        return True

    def __enter__(self) -> "Experiment":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


_runs: "weakref.WeakSet[Experiment]" = weakref.WeakSet()


def _forked() -> None:
    """A thread of the parent may have held a lock that no thread of the child releases."""
    for run in list(_runs):
        run._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class ExperimentTimer(Timer):
    """A timer whose duration also counts in the figures of a run."""

    __slots__ = ("_experiment",)

    def __init__(self, experiment: Experiment, operation: str, labels: Dict[str, object]) -> None:
        super().__init__(operation, labels)
        self._experiment = experiment

    def label(self, **labels: object) -> None:
        """As of any timer; numbers are gauges. Raises ValueError as `record_timing` does."""
        _check_gauges(labels)
        super().label(**labels)

    def _over(self, tokens: int, failed: bool) -> None:
        self._experiment.add(self.operation, self.labels, self.elapsed_ns, tokens, failed)


class NoExperiment(Experiment):
    """What a run gets while experiments are switched off: nothing is kept, sent or written."""

    def end(self) -> None:
        """Nothing has begun."""

    def start_cycle(self, **labels: object) -> None:
        """Begins nothing."""

    def end_cycle(self, *, failed: bool = False) -> None:
        """Nothing has begun."""

    def time(self, operation: str, /, **labels: object) -> Timer:
        """Times nothing."""
        return NO_TIMER

    def record_timing(
        self,
        operation: str,
        /,
        *,
        seconds: float,
        tokens: int = 0,
        failed: bool = False,
        **labels: object,
    ) -> None:
        """Records nothing."""

    def record_memory_snapshot(self, label: str = "") -> None:
        """Notes nothing."""

    def export_json(self, path: "str | os.PathLike[str]") -> bool:
        """Writes no file."""
        return False


def experiment(name: str, /, **labels: object) -> Experiment:
    """A run begins; end it with `with` or with `end()`. Labels go to all its samples."""
    if not (CLIENT.settings.enabled and CLIENT.settings.experiments):
        if DIAGNOSTICS.is_watching:
            DIAGNOSTICS.on_disabled_use("experiments", CLIENT.settings)
        return NoExperiment(name, labels)
    return Experiment(name, labels)


def _check_gauges(keywords: Dict[str, object]) -> None:
    for key, value in keywords.items():
        name = bare_key(key)
        if name in _COUNTERS and _is_number(value):
            raise ValueError(
                f"{key}={value!r} would be a gauge by the name of the counter <operation>.{name}: "
                f"{_COUNTERS[name]}; call it otherwise, such as {name}_seen="
            )


def _is_number(value: object) -> bool:
    # Those of numpy are registered as such.
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
