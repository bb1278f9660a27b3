"""Plimsoll's client: feeds the latencies, counts and gauges of this process to a node.

    import plimsoll

    plimsoll.configure(enable=True)

    @plimsoll.timed("epoch_hook")
    def end_of_epoch(): ...

Everything is off until it is switched on, by `configure` or by environment; values that are recorded
before warn once, unless PLIMSOLL_ENABLE=0 states that this is on purpose. Nothing here raises
for lack of a node, unless the program's filters turn a PlimsollWarning into an error, and nothing
but `flush` makes a caller wait for one.
"""

import os
from typing import Mapping, Optional

from .aggregator import AggregatorError
from .alerts import Alert, AlertWatch, get_alerts, on_alert
from .chrome_trace import TraceExport, export_trace
from .client import CLIENT, Stats
from .collector import CollectorWatch, watch_collector
from .crossing import Crossing
from .decorator import timed
from .deterministic import DeterministicProfile, deterministic_profile
from .diagnostics import PlimsollWarning
from .distributions import Distribution, distribution
from .executors import ExecutorWatch, watch_executor
from .experiments import Experiment, experiment
from .flush_result import FlushResult
from .loop_watch import LoopWatch, watch_loop
from .memory_profiles import MemoryProfile, memory_profile
from .middleware import profile_middleware
from .names import labels_text
from .profiler import Profiler, get_profiler
from .recording import count, gauge, record, record_ns, tokens
from .request_profiles import RequestProfile, profile_request, request_profile
from .shards import ShardRead, ShardSummary, end_read, read_shard, shard_summary, start_read
from .snapshot import MetricsSnapshot, get_summary_stats, metrics_snapshot
from .steps import Phase, Step, step
from .thresholds import set_threshold
from .timing import Timer, timer

__version__ = "0.1.0"
__all__ = [
    "AggregatorError",
    "Alert",
    "AlertWatch",
    "CollectorWatch",
    "Crossing",
    "DeterministicProfile",
    "Distribution",
    "ExecutorWatch",
    "Experiment",
    "FlushResult",
    "LoopWatch",
    "MemoryProfile",
    "MetricsSnapshot",
    "Phase",
    "PlimsollWarning",
    "Profiler",
    "RequestProfile",
    "ShardRead",
    "ShardSummary",
    "Stats",
    "Step",
    "Timer",
    "TraceExport",
    "configure",
    "count",
    "deterministic_profile",
    "distribution",
    "end_read",
    "experiment",
    "export_trace",
    "flush",
    "gauge",
    "get_alerts",
    "get_profiler",
    "get_summary_stats",
    "memory_profile",
    "metrics_snapshot",
    "on_alert",
    "profile_middleware",
    "profile_request",
    "read_shard",
    "record",
    "record_ns",
    "request_profile",
    "set_threshold",
    "shard_summary",
    "start_read",
    "stats",
    "step",
    "timed",
    "timer",
    "tokens",
    "trace",
    "watch_collector",
    "watch_executor",
    "watch_loop",
]


def configure(
    *,
    enable: Optional[bool] = None,
    timers: Optional[bool] = None,
    shards: Optional[bool] = None,
    experiments: Optional[bool] = None,
    socket: Optional[str] = None,
    flush_ms: Optional[int] = None,
    labels: Optional[Mapping[str, object]] = None,
) -> None:
    """Overrules the environment; what is not given stays as it is.

    `enable=True` switches the master and every profiler on, `timers=`, `shards=` and
    `experiments=` one each. `socket` is a path or `udp://host:port`. A function decorated
    while timers are off stays undecorated, so call this before importing what is decorated;
    a PlimsollWarning lists the functions for which it comes too late.

    `labels` are added to the default labels, which every series has unless a call gives a label of
    the same name; None as a value removes one. They apply to values recorded from now on, and
    are written to PLIMSOLL_LABELS, so that processes started from now on inherit them.

    Raises ValueError when `flush_ms` is not from 10 to 60 000, `socket` is no address, or there
    are more than 16 default labels.
    """
    changed = CLIENT.settings.changed(
        enable, timers, shards, experiments, socket, flush_ms, labels
    )
    CLIENT.apply(changed)
    if labels is not None:
        os.environ["PLIMSOLL_LABELS"] = labels_text(changed.labels)


def trace(seconds: int = 60) -> None:
    """Keeps the spans of all timed scopes of the last `seconds` for `export_trace`; 0 keeps none.

    At most 65 536 of them; older ones give way, and are counted. Spans need the switch of the
    timers. Raises ValueError for more than 600 s.
    """
    CLIENT.apply(CLIENT.settings.changed(trace_seconds=seconds))


def flush(timeout_s: float = 1.0) -> FlushResult:
    """Sends what was recorded so far, and waits for it up to `timeout_s` seconds.

    The result is true only if the node's socket accepted everything recorded since the previous
    flush; its `outcome` and `reason` state what happened. Needed only where a process ends without
    the interpreter's help: before `os.exec*`, `os._exit`, or in a handler of SIGTERM.
    """
    return CLIENT.flush(timeout_s)


def stats() -> Stats:
    """What the client of this process did so far, and what it holds."""
    return CLIENT.stats()
