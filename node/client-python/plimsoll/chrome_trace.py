"""Spans as Chrome's trace events, which Perfetto and TensorBoard read: `export_trace`.

One lane for each thread and asyncio task, and more for spans in one that overlap without nesting:
Perfetto moves or drops what does not nest to the nanosecond. Fields are those of the format's
description: `ph` X for a span and M for names, times in microseconds of the monotonic clock.
"""

import gzip
import json
import os
import sys
import time
from time import perf_counter_ns as clock
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple, Union

from . import limits
from .critical_path import critical, gaps
from .names import cut
from .spans import Lane, Span, kept

_TASK_LANES_FROM = 1 << 22
"""Numbers of the kernel's threads are below it, so lanes of tasks have those from it on."""


class TraceExport(NamedTuple):
    """What a file of a trace has."""

    spans: int
    dropped: int
    """Spans for which there was no room."""


def export_trace(path: "Union[str, os.PathLike[str]]") -> TraceExport:
    """Writes the spans that `trace` keeps as Chrome trace JSON, gzip-compressed if `path` ends with
    `.gz`. Raises RuntimeError while nothing is kept, and OSError if it cannot be written."""
    ring = kept()
    if ring is None:
        fix = "call plimsoll.trace(seconds=60) or set PLIMSOLL_TRACE_SECONDS=60, with timers on"
        raise RuntimeError(f"no spans are kept: {fix}")
    spans, dropped = ring.spans(), ring.dropped
    text = json.dumps(trace_events(spans, dropped)).encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(text) if os.fspath(path).endswith(".gz") else text)
    return TraceExport(len(spans), dropped)


def trace_events(spans: Sequence[Span], dropped: int) -> Dict[str, Any]:
    """The object of a trace file."""
    path = critical(spans)
    lanes: Dict[Tuple[Lane, int], int] = {}
    pid = os.getpid()
    events: List[Dict[str, Any]] = []
    for span, row in _rows([*spans, *gaps(spans)]):
        args: Dict[str, Any] = {_text(key): _text(value) for key, value in span.labels.items()}
        if id(span) in path:
            args["critical"] = True
        event = {"name": _text(span.name), "cat": span.category, "ph": "X", "pid": pid}
        event["ts"] = span.begun_ns / 1_000
        event["dur"] = (_read(span.ended_ns) - _read(span.begun_ns)) / 1_000
        is_thread = not span.lane.task and not row
        event["tid"] = lanes.setdefault(
            (span.lane, row), span.lane.thread if is_thread else _TASK_LANES_FROM + len(lanes)
        )
        events.append({**event, "args": args})

    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    named = [("process_name", 0, program or "python")]
    for (lane, row), tid in lanes.items():
        name = f"{lane.task} ({lane.thread_name})" if lane.task else lane.thread_name
        named.append(("thread_name", tid, f"{name} +{row}" if row else name))
    for kind, tid, name in named:
        args = {"name": _text(name)}
        events.append({"name": kind, "ph": "M", "pid": pid, "tid": tid, "ts": 0, "args": args})
    return {
        "displayTimeUnit": "ms",
        # The Unix time of `ts` 0, as PyTorch's profiler writes it.
        "baseTimeNanoseconds": time.time_ns() - clock(),
        "traceEvents": events,
        "otherData": {"dropped_spans": dropped},
    }


def _rows(spans: Iterable[Span]) -> Iterator[Tuple[Span, int]]:
    """Each span with the number of a row of its lane in which it nests, callers first."""
    lanes: Dict[Lane, List[List[int]]] = {}
    for span in sorted(spans, key=lambda span: (span.begun_ns, -span.ended_ns)):
        rows = lanes.setdefault(span.lane, [])
        for row, ends in enumerate(rows):
            while ends and ends[-1] <= span.begun_ns:
                ends.pop()
            if not ends or span.ended_ns <= ends[-1]:
                break
        else:
            if len(rows) < limits.TRACE_ROWS_MAX:
                rows.append([])
            row, ends = len(rows) - 1, rows[-1]
        ends.append(span.ended_ns)
        yield span, row


def _read(ns: int) -> int:
    """The nanosecond that a reader makes of it: after 101 days of uptime not each one is a float,
    and a span must not seem to end after the one around it."""
    read = ns / 1_000 * 1_000
    # Python rounds halves to even numbers, and C does not.
    return int(read) + (read % 1 >= 0.5)


def _text(text: str) -> str:
    """Without what UTF-8 cannot hold: readers in other languages reject half a surrogate pair."""
    return cut(text, limits.LABEL_VALUE_BYTES_MAX)
