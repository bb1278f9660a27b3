"""What is switched on and where the node is: the environment, overruled by `configure`.

Reads the environment once, when the package is imported. It never fails on what it finds
there, since telemetry must not stop a job: what cannot be used is listed in `invalid_switches` and
`invalid_variables`, of which `diagnostics` warns and which `python -m plimsoll doctor` prints.
"""

import dataclasses
import os
from typing import Dict, FrozenSet, List, Mapping, Optional, Tuple

from . import limits
from .link import address_fault
from .names import Pair, label_pairs
from .ranks import rank_labels

PROFILERS = ("timers", "shards", "experiments")


@dataclasses.dataclass(frozen=True)
class Settings:
    """One state of all switches."""

    enabled: bool = False
    """The master switch: without it nothing is recorded at all."""
    timers: bool = False
    """`timed` and `timer`; only together with the master."""
    shards: bool = False
    """The shard-read profiler; only together with the master."""
    experiments: bool = False
    """Experiments and cycles; only together with the master."""
    captures: bool = False
    """Whether the node may order the stacks of this process."""
    socket: Optional[str] = None
    """A path, `udp://host:port`, or None for the default of `link.address`."""
    flush_ms: int = limits.FLUSH_MS_DEFAULT
    """Milliseconds between two flushes."""
    trace_seconds: int = 0
    """For how long spans are kept; 0 for none."""
    trace_dir: Optional[str] = None
    """Where the spans that are kept are written at the exit."""
    labels: Tuple[Pair, ...] = ()
    """Default labels that PLIMSOLL_LABELS or code sets."""
    ranks: Tuple[Pair, ...] = ()
    """Labels that the job's launcher states; one of `labels` with the same name wins."""
    chosen: FrozenSet[str] = frozenset()
    """Switches that the environment or code set, to on or to off: `enable` and of PROFILERS."""
    invalid_switches: Tuple[str, ...] = ()
    """Variables of switches with a value that is none, each with the fix."""
    invalid_variables: Tuple[str, ...] = ()
    """Other variables with an invalid value, each with the fix."""

    def is_on(self, profiler: str) -> bool:
        """Whether this profiler records."""
        return self.enabled and bool(getattr(self, profiler))

    @property
    def default_labels(self) -> Tuple[Pair, ...]:
        """Labels of every series, unless the call gives one of the same name; those that have their
        place first come first."""
        own = dict(self.labels)
        return self.labels + tuple(pair for pair in self.ranks if pair[0] not in own)

    def changed(
        self,
        enable: Optional[bool] = None,
        timers: Optional[bool] = None,
        shards: Optional[bool] = None,
        experiments: Optional[bool] = None,
        socket: Optional[str] = None,
        flush_ms: Optional[int] = None,
        labels: Optional[Mapping[str, object]] = None,
        trace_seconds: Optional[int] = None,
    ) -> "Settings":
        """These settings with changes; `enable=True` takes every profiler along.

        `labels` are added to the default labels; None as a value removes one. Raises ValueError
        when `flush_ms` or `trace_seconds` is out of bounds, `socket` is no address, or there are
        too many labels.
        """
        if trace_seconds is not None and not 0 <= trace_seconds <= limits.TRACE_S_MAX:
            raise ValueError(_trace_fault("seconds", str(trace_seconds)))
        if flush_ms is not None and not _fits(flush_ms):
            raise ValueError(_flush_fault("flush_ms", str(flush_ms)))
        if socket and address_fault(socket):
            raise ValueError(f"socket: {address_fault(socket)}")
        given = {"enable": enable, "timers": timers, "shards": shards, "experiments": experiments}
        enabled = self.enabled if enable is None else enable
        all_on = enable is True
        return dataclasses.replace(
            self,
            enabled=enabled,
            timers=(self.timers or all_on) if timers is None else timers,
            shards=(self.shards or all_on) if shards is None else shards,
            experiments=(self.experiments or all_on) if experiments is None else experiments,
            socket=self.socket if socket is None else socket,
            flush_ms=self.flush_ms if flush_ms is None else flush_ms,
            trace_seconds=self.trace_seconds if trace_seconds is None else trace_seconds,
            labels=self.labels if labels is None else _changed_labels(self.labels, labels),
            chosen=self.chosen | {name for name, value in given.items() if value is not None},
        )


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the `PLIMSOLL_*` variables; only "1" enables a switch."""
    switches: List[str] = []
    variables: List[str] = []
    chosen = set()

    def switched_on(name: str, switch: str = "") -> bool:
        value = environment.get(name, "")
        if value in ("0", "1"):
            chosen.update({switch} - {""})
        elif value:
            switches.append(f'{name}={value!r} enables nothing, only "1" does: set {name}=1')
        return value == "1"

    profilers = {name: switched_on(f"PLIMSOLL_ENABLE_{name.upper()}", name) for name in PROFILERS}
    flush = environment.get("PLIMSOLL_FLUSH_MS", str(limits.FLUSH_MS_DEFAULT))
    if not (flush.isdecimal() and len(flush) < 10 and _fits(int(flush))):
        default = f"; {limits.FLUSH_MS_DEFAULT} is used"
        variables.append(_flush_fault("PLIMSOLL_FLUSH_MS", flush) + default)
        flush = str(limits.FLUSH_MS_DEFAULT)
    trace = environment.get("PLIMSOLL_TRACE_SECONDS") or "0"
    if not (trace.isdecimal() and len(trace) < 10 and int(trace) <= limits.TRACE_S_MAX):
        variables.append(_trace_fault("PLIMSOLL_TRACE_SECONDS", trace) + "; no spans are kept")
        trace = "0"
    socket = environment.get("PLIMSOLL_SOCKET") or None
    if socket and address_fault(socket):
        variables.append(f"PLIMSOLL_SOCKET: {address_fault(socket)}")
    labels, faults = _labels_of(environment.get("PLIMSOLL_LABELS", ""))
    switch = environment.get("PLIMSOLL_RANKS") or "on"
    ranks, rank_faults = rank_labels({} if switch == "off" else environment)
    variables += faults + rank_faults
    if switch not in ("off", "on"):
        variables.append(f"PLIMSOLL_RANKS={switch!r} changes nothing: set PLIMSOLL_RANKS=off or on")
    return Settings(
        labels=labels,
        ranks=ranks,
        enabled=switched_on("PLIMSOLL_ENABLE", "enable"),
        captures=switched_on("PLIMSOLL_CAPTURES"),
        socket=socket,
        flush_ms=int(flush),
        trace_seconds=int(trace),
        trace_dir=environment.get("PLIMSOLL_TRACE_DIR") or None,
        chosen=frozenset(chosen),
        invalid_switches=tuple(switches),
        invalid_variables=tuple(variables),
        **profilers,
    )


def _fits(flush_ms: int) -> bool:
    return limits.FLUSH_MS_MIN <= flush_ms <= limits.FLUSH_MS_MAX


def _flush_fault(key: str, value: str) -> str:
    span = f"{limits.FLUSH_MS_MIN} to {limits.FLUSH_MS_MAX}"
    return f"{key}: {value!r} is no whole number of milliseconds from {span}"


def _trace_fault(key: str, value: str) -> str:
    return f"{key}: {value!r} is no whole number of seconds from 0 to {limits.TRACE_S_MAX}"


def _changed_labels(pairs: Tuple[Pair, ...], changes: Mapping[str, object]) -> Tuple[Pair, ...]:
    merged = dict(pairs)
    for key, value in changes.items():
        if not (isinstance(key, str) and key):
            raise ValueError(f"labels: {key!r} is no name of a label: use text such as 'rank'")
        [(name, text)] = label_pairs({key: value})
        merged[name] = text
        if value is None:
            del merged[name]
    if len(merged) > limits.LABELS_MAX:
        raise ValueError(f"labels: at most {limits.LABELS_MAX}, not {len(merged)}: remove some")
    return tuple(sorted(merged.items()))


def _labels_of(text: str) -> Tuple[Tuple[Pair, ...], List[str]]:
    """Default labels of PLIMSOLL_LABELS, and the faults of its parts that are none."""
    labels: Dict[str, str] = {}
    faults = []
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not (key.strip() and equals):
            fix = "write PLIMSOLL_LABELS=run=r7,rank=3"
            faults.append(f"PLIMSOLL_LABELS: {part!r} is not KEY=VALUE and is ignored: {fix}")
        elif len(labels) >= limits.LABELS_MAX:
            excess = f"{part!r} is more than {limits.LABELS_MAX} labels and is ignored"
            faults.append(f"PLIMSOLL_LABELS: {excess}: remove some")
        else:
            labels.update(label_pairs({key.strip(): value.strip()}))
    return tuple(sorted(labels.items())), faults[: limits.FAULTS_MAX]
