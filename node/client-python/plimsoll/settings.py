"""What is switched on and where the node is: the environment, overruled by `configure`.

Reads the environment once, when the package is imported. It never fails on what it finds
there, since telemetry must not stop a job: what cannot be used is listed in `complaints`, which
`python -m plimsoll doctor` prints.
"""

import dataclasses
import os
from typing import List, Mapping, Optional, Tuple

from . import limits

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
    socket: Optional[str] = None
    """A path, `udp://host:port`, or None for the default of `link.address`."""
    flush_ms: int = limits.FLUSH_MS_DEFAULT
    """Milliseconds between two flushes."""
    complaints: Tuple[str, ...] = ()
    """What in the environment could not be used, in words."""

    def changed(
        self,
        enable: Optional[bool] = None,
        timers: Optional[bool] = None,
        shards: Optional[bool] = None,
        experiments: Optional[bool] = None,
        socket: Optional[str] = None,
        flush_ms: Optional[int] = None,
    ) -> "Settings":
        """These settings with changes; `enable=True` takes every profiler along.

        Raises ValueError when `flush_ms` is out of bounds.
        """
        if flush_ms is not None and not _fits(flush_ms):
            raise ValueError(_flush_fault("flush_ms", str(flush_ms)))
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
        )


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the `PLIMSOLL_*` variables; only "1" enables a switch."""
    complaints: List[str] = []

    def switched_on(name: str) -> bool:
        value = environment.get(name, "")
        if value not in ("", "0", "1"):
            complaints.append(f'{name}: {value!r} switches nothing on, only "1" does')
        return value == "1"

    profilers = {name: switched_on(f"PLIMSOLL_ENABLE_{name.upper()}") for name in PROFILERS}
    flush = environment.get("PLIMSOLL_FLUSH_MS", str(limits.FLUSH_MS_DEFAULT))
    if not (flush.isdecimal() and len(flush) < 10 and _fits(int(flush))):
        complaints.append(_flush_fault("PLIMSOLL_FLUSH_MS", flush))
        flush = str(limits.FLUSH_MS_DEFAULT)
    return Settings(
        enabled=switched_on("PLIMSOLL_ENABLE"),
        socket=environment.get("PLIMSOLL_SOCKET") or None,
        flush_ms=int(flush),
        complaints=tuple(complaints),
        **profilers,
    )


def _fits(flush_ms: int) -> bool:
    return limits.FLUSH_MS_MIN <= flush_ms <= limits.FLUSH_MS_MAX


def _flush_fault(key: str, value: str) -> str:
    span = f"{limits.FLUSH_MS_MIN} to {limits.FLUSH_MS_MAX}"
    return f"{key}: {value!r} is no whole number of milliseconds from {span}"
