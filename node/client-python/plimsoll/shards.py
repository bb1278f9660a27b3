"""The shard-read profiler: how long reads of shards take, how much they bring, which are slow.

Each read is a sample of `shard_read`; its bytes and rows add to `shard_read.bytes` and
`shard_read.rows`, and are samples of `profiler_shard_file_size:bytes` and
`profiler_shard_rows_processed:count`. A read is slow when it takes over twice the mean of those before it, of which
there must be ten: it counts in `shard_read.slow`. A shard's name is never a label (there are
too many); it is reported in the list of the slowest ten and in an event, at most one in ten seconds.
"""

import dataclasses
import heapq
import itertools
import os
import threading
import types
from time import perf_counter_ns as clock
from typing import List, Optional, Tuple, Type

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .distributions import Distribution
from .events import send_event
from .spans import RINGS, note
from .timing import count_error, in_words

OPERATION = "shard_read"
FILE_SIZE = Distribution("profiler_shard_file_size", "bytes")
ROWS = Distribution("profiler_shard_rows_processed", "count")


@dataclasses.dataclass(frozen=True)
class SlowestRead:
    """One of the slowest reads."""

    shard: str
    seconds: float
    size_bytes: Optional[int]
    """None if it was not given."""
    rows: Optional[int]
    """None if it was not given."""


@dataclasses.dataclass(frozen=True)
class ShardSummary:
    """All reads of this process so far."""

    reads: int
    slow_reads: int
    seconds: float
    """Time of all reads together."""
    size_bytes: int
    rows: int
    slowest: List[SlowestRead]
    """At most ten, the slowest first."""

    @property
    def mean_seconds(self) -> float:
        """Mean time of a read; 0 without reads."""
        return self.seconds / self.reads if self.reads else 0.0


class ShardRead:
    """A read that is going on; with `with` or `async with` it ends by itself."""

    __slots__ = ("shard", "size_bytes", "rows", "begun_ns")

    def __init__(self, shard: str, begun_ns: int) -> None:
        self.shard = shard
        self.size_bytes: Optional[int] = None
        """To be set inside the block, where it is known."""
        self.rows: Optional[int] = None
        """To be set inside the block, where it is known."""
        self.begun_ns = begun_ns

    def __enter__(self) -> "ShardRead":
        self.begun_ns = clock() if self.begun_ns else 0
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        failed = kind is not None and issubclass(kind, Exception)
        end_read(self, size_bytes=self.size_bytes, rows=self.rows, failed=failed)

    async def __aenter__(self) -> "ShardRead":
        return self.__enter__()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        self.__exit__(kind, error, trace)


class _Reads:
    """What the summary needs, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reads = self._slow = self._total_ns = self._bytes = self._rows = 0
        # Smallest first; the running number decides between equals.
        self._slowest: List[Tuple[int, int, SlowestRead]] = []
        self._numbers = itertools.count()
        self._event_at_ns: Optional[int] = None

    def add(self, read: SlowestRead, took_ns: int) -> Tuple[bool, bool, float]:
        """Adds one; returns whether it was slow, whether to report it, and the mean before it."""
        with self._lock:
            mean_ns = self._total_ns / self._reads if self._reads else 0.0
            is_slow = self._reads >= limits.READS_BEFORE_SLOW and took_ns > 2 * mean_ns
            self._reads += 1
            self._slow += is_slow
            self._total_ns += took_ns
            self._bytes += read.size_bytes or 0
            self._rows += read.rows or 0
            heapq.heappush(self._slowest, (took_ns, next(self._numbers), read))
            if len(self._slowest) > limits.SLOWEST_READS_MAX:
                heapq.heappop(self._slowest)
            return is_slow, is_slow and self._may_log(), mean_ns / 1e9

    def _may_log(self) -> bool:
        now_ns = clock()
        every_ns = limits.SLOW_READ_EVENT_EVERY_S * 1e9
        if self._event_at_ns is not None and now_ns - self._event_at_ns < every_ns:
            return False
        self._event_at_ns = now_ns
        return True

    def summary(self) -> ShardSummary:
        with self._lock:
            return ShardSummary(
                reads=self._reads,
                slow_reads=self._slow,
                seconds=self._total_ns / 1e9,
                size_bytes=self._bytes,
                rows=self._rows,
                slowest=[read for _, _, read in sorted(self._slowest, reverse=True)],
            )


_reads = _Reads()


def _forked() -> None:
    _reads.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def start_read(shard: str) -> ShardRead:
    """A read of `shard` begins; what comes back is for `end_read`."""
    is_on = CLIENT.settings.enabled and CLIENT.settings.shards
    if not is_on and DIAGNOSTICS.is_watching:
        DIAGNOSTICS.on_disabled_use("shards", CLIENT.settings)
    return ShardRead(shard, clock() if is_on else 0)


def end_read(
    read: ShardRead,
    *,
    size_bytes: Optional[int] = None,
    rows: Optional[int] = None,
    failed: bool = False,
) -> None:
    """The read is over, with this many bytes and rows if these are known.

    One that `failed` is timed too, and counts in `shard_read.errors`.
    """
    # Begun while switched off.
    if not read.begun_ns:
        return
    took_ns = clock() - read.begun_ns
    if RINGS:
        note(OPERATION, read.begun_ns, read.begun_ns + took_ns, {"shard": read.shard})
    registry = CLIENT.registry
    registry.latency(OPERATION, {}).add(took_ns)
    if size_bytes is not None:
        FILE_SIZE.record(size_bytes)
    if rows is not None:
        ROWS.record(rows)
    if size_bytes:
        registry.counter(f"{OPERATION}.bytes", {}).add(int(size_bytes))
    if rows:
        registry.counter(f"{OPERATION}.rows", {}).add(int(rows))
    if failed:
        count_error(OPERATION, {})
    entry = SlowestRead(read.shard, took_ns / 1e9, size_bytes, rows)
    is_slow, may_log, mean_s = _reads.add(entry, took_ns)
    if is_slow:
        registry.counter(f"{OPERATION}.slow", {}).add(1)
    if may_log:
        text = f"{read.shard} took {in_words(entry.seconds)}; mean before: {in_words(mean_s)}"
        send_event("slow shard read", text, "warning", {"operation": OPERATION})


def read_shard(shard: str) -> ShardRead:
    """`with read_shard(name) as read:` times the block; set `read.size_bytes`, `read.rows`."""
    return start_read(shard)


def shard_summary() -> ShardSummary:
    """All reads of this process so far; a forked child begins anew."""
    return _reads.summary()
