"""Alerts of an aggregator in the job: read once, or followed.

A watch follows the aggregator's stream of one event a second, as its page does, and reads the list
of alerts when an event states a change. It compares the list with what it has passed on, so that
what it missed, as while callbacks took long or the aggregator was restarted, is made up for by the
latest state of each alert. One thread reads, another one calls. DESIGN N95.
"""

import dataclasses
import json
import math
import os
import random
import re
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from . import limits
from .aggregator import Aggregator, AggregatorError, check_timeout, find
from .callbacks import CALLBACKS
from .client import CLIENT
from .diagnostics import DIAGNOSTICS

SEVERITIES = ("info", "warning", "critical")

_STREAM = "/api/v1/stream"
# Where the list begins: before it is what the page states of itself.
_LIST = re.compile(r'"alerts":\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
# What an event of the stream states about alerts.
_STATED = ("ready", "firing", "firing_severity", "changed_at_seconds")

_Key = Tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Alert:
    """One alert, in one state."""

    rule: str
    operation: str
    """The operation, or the metric where the rule is a threshold."""
    scope: str
    """`fleet` or `node`."""
    node: str
    """The node that it is about; empty for the fleet."""
    state: str
    """`pending`, `firing`, `resolved`; a watch has `inactive` for one that was firing and is not
    listed any more: it ended while the aggregator was not reached, or has another severity now."""
    severity: str
    """`info`, `warning` or `critical`."""
    since: float
    """When it entered the state, in seconds since 1970."""
    firing_since: Optional[float]
    """When it last began to fire."""
    summary: str
    """One line for people."""
    evidence: Optional[Mapping[str, Any]]
    """The values that changed its state."""
    fields: Mapping[str, Any]
    """All fields of `/api/v1/alerts`, these included; empty where it is not listed."""

    @property
    def key(self) -> _Key:
        """What stays the same as its state changes."""
        return (self.rule, self.node, self.operation)


class _Page(NamedTuple):
    """The list of alerts."""

    ready: bool
    """False while the aggregator reads what came before its start: alerts may be missing."""
    at_seconds: float
    alerts: Iterator[Alert]
    """Raises AggregatorError at what is no alert."""


class AlertWatch:
    """What `on_alert` returns: its state, and how to end it."""

    def __init__(
        self, aggregator: Aggregator, callback: Callable[[Alert], object], severity: Optional[str]
    ) -> None:
        self.severity = severity
        self.fault = "nothing was read yet"
        """Why alerts are not followed at this moment; empty when they are."""
        self.reads = 0
        """How often the list was read."""
        self._aggregator = aggregator
        self._callback = callback
        self._stopped = threading.Event()
        # What was passed on last, of alerts that are listed.
        self._known: Dict[_Key, Alert] = {}
        self._is_due = True
        self._read_from_s = 0.0
        self._retry_s = limits.STREAM_RETRY_MIN_S
        self._failing_since_s: Optional[float] = None

    def stop(self) -> None:
        """Ends the watch; calls that wait already are still made."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether it has been ended."""
        return self._stopped.is_set()

    def _run(self) -> None:
        while not self.is_stopped:
            self._attempt(self._follow)
            # Without a stream too, as where all are in use, changes arrive, only later.
            if not self.is_stopped:
                self._attempt(self._read)
            self._stopped.wait(self._retry_s * random.uniform(0.75, 1.25))
            self._retry_s = min(2 * self._retry_s, limits.STREAM_RETRY_MAX_S)

    def _attempt(self, part: Callable[[], None]) -> None:
        try:
            part()
        except AggregatorError as error:
            self._on_fault(str(error))
        except Exception as error:  # The thread must outlive whatever is wrong here.
            self._on_fault(f"{self._aggregator.url}: {error!r}")

    def _on_fault(self, fault: str) -> None:
        self.fault = fault
        now_s = time.monotonic()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        if now_s - self._failing_since_s >= limits.ABSENT_WARN_S:
            DIAGNOSTICS.warn_safely("alerts", f"alerts are not followed: {fault}")

    def _follow(self) -> None:
        """Reads the stream until it ends, and the list when an event states a change."""
        stated_before: Optional[Tuple[Any, ...]] = None
        with self._aggregator.open(_STREAM, limits.STREAM_SILENCE_S) as stream:
            for pulse in _pulses(iter(lambda: stream.readline(limits.STREAM_LINE_BYTES_MAX), b"")):
                if self.is_stopped:
                    return
                self._retry_s = limits.STREAM_RETRY_MIN_S
                stated = tuple(pulse.get(name) for name in _STATED)
                self._is_due = self._is_due or stated != stated_before
                # A change that comes after this event and before the list is read is stated again.
                stated_before = stated
                if self._is_due and time.monotonic() >= self._read_from_s:
                    self._read()
        raise AggregatorError(f"{self._aggregator.url}{_STREAM} has ended")

    def _read(self) -> None:
        """Reads the list and passes on what is new. Bounds the share of time that this takes."""
        begun_s = time.monotonic()
        try:
            page = _page(self._aggregator, self.severity, limits.ALERTS_WAIT_S)
            self._is_due = not self._pass_on(page)
            self.reads += 1
            self.fault, self._failing_since_s = "", None
        finally:
            rest_s = (time.monotonic() - begun_s) / limits.ALERTS_READ_SHARE
            self._read_from_s = begun_s + max(limits.ALERTS_READ_EVERY_S, rest_s)

    def _pass_on(self, page: _Page) -> bool:
        """Has the callback called for what is new; False if not all calls had a place."""
        missing = dict(self._known)
        until_s = time.monotonic() + limits.CALLS_WAIT_S
        for alert in page.alerts:
            before = missing.pop(alert.key, None)
            # One that is pending may never fire.
            if alert.state == "pending" or before is not None and not _differ(before, alert):
                continue
            if before is None and len(self._known) >= limits.ALERTS_MAX:
                CLIENT.registry.drop("callbacks")
            elif self.reads == 0 and alert.state == "resolved":
                # It ended before there was a watch.
                self._known[alert.key] = _bare(alert)
            elif not self._call(alert, alert, until_s):
                return False

        # After a restart of the aggregator some may come yet.
        for alert in missing.values() if page.ready else ():
            gone = dataclasses.replace(alert, state="inactive", since=page.at_seconds)
            if alert.state == "firing" and not self._call(alert, gone, until_s):
                return False
            del self._known[alert.key]
        return True

    def _call(self, alert: Alert, passed_on: Alert, until_s: float) -> bool:
        while not CALLBACKS.post(self._callback, passed_on):
            if self._stopped.wait(limits.CALLS_POLL_S) or time.monotonic() >= until_s:
                # Not known, so that the next read passes it on, if it is still the latest.
                CLIENT.registry.drop("callbacks")
                return False
        self._known[alert.key] = _bare(alert)
        return True


def on_alert(
    callback: Callable[[Alert], object],
    *,
    severity: Optional[str] = None,
    url: Optional[str] = None,
    token_file: "str | os.PathLike[str] | None" = None,
) -> AlertWatch:
    """Has `callback(alert)` called, in another thread, when an alert of the mesh fires or ends.

    Those that fire at this moment come first. A change comes at most once; of changes of an alert
    that follow each other while calls wait, the last one. `severity` selects one. The aggregator is
    at `url`, or PLIMSOLL_URL; its token is in `token_file`, or is PLIMSOLL_TOKEN. One that is not
    reached is tried again, at most 37 s later, with a warning after 10 s. A forked child has no
    watch.

    Raises ValueError without an aggregator, for what cannot be used, and beyond 8 watches, and
    OSError for a file that cannot be read. While the master switch is off it does nothing.
    """
    if not callable(callback):
        raise TypeError("on_alert wants a function: on_alert(lambda alert: print(alert.summary))")
    check_severity(severity)
    if not CLIENT.settings.enabled:
        DIAGNOSTICS.on_disabled_value(CLIENT.settings)
        watch = AlertWatch(Aggregator("", "", None, "", {}, None), callback, severity)
        watch.fault = "the master switch is off"
        watch.stop()
        return watch

    _watches[:] = [watch for watch in _watches if not watch.is_stopped]
    if len(_watches) >= limits.WATCHES_MAX:
        raise ValueError(f"more than {limits.WATCHES_MAX} watches: stop() one, or use one for all")
    watch = AlertWatch(find(url, token_file), callback, severity)
    try:
        threading.Thread(target=watch._run, name="plimsoll-alerts", daemon=True).start()
        _watches.append(watch)
    except RuntimeError as error:
        # At the limit of threads. Telemetry must not stop a job.
        watch.fault = str(error)
        watch.stop()
    return watch


def get_alerts(
    severity: Optional[str] = None,
    *,
    url: Optional[str] = None,
    token_file: "str | os.PathLike[str] | None" = None,
    timeout_s: float = 5.0,
) -> List[Alert]:
    """Alerts of the mesh that are pending or firing or resolved in the last minutes, worst first.

    Needs no switch. Finds the aggregator as `on_alert` does, and raises as it does; AggregatorError
    when it refuses, or does not answer within `timeout_s`.
    """
    check_severity(severity)
    check_timeout(timeout_s)
    return list(_page(find(url, token_file), severity, timeout_s).alerts)


def check_severity(severity: Optional[str]) -> None:
    """Raises ValueError for what is none."""
    if severity is not None and severity not in SEVERITIES:
        raise ValueError(f"severity={severity!r} is none of {', '.join(SEVERITIES)}")


_watches: List[AlertWatch] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watches.clear)


def _differ(before: Alert, alert: Alert) -> bool:
    return (before.state, before.since) != (alert.state, alert.since)


def _bare(alert: Alert) -> Alert:
    """Without what takes memory."""
    return dataclasses.replace(alert, summary="", evidence=None, fields={})


def _pulses(lines: Iterator[bytes]) -> Iterator[Dict[str, Any]]:
    """What the events of a stream state. Other events and comments are left out."""
    name = b""
    for line in lines:
        if not line.endswith(b"\n"):
            raise AggregatorError(f"{_STREAM} sent half a line, or one that is too long")
        field, _, value = line.strip().partition(b":")
        if field == b"event":
            name = value.strip()
        elif field == b"data" and name == b"pulse":
            yield dict(json.loads(value))


def _page(aggregator: Aggregator, severity: Optional[str], timeout_s: float) -> _Page:
    path = "/api/v1/alerts" + (f"?severity={severity}" if severity else "")
    text = aggregator.text(path, timeout_s, limits.ALERTS_BYTES_MAX)
    where = f"{aggregator.url}{path}"
    found = _LIST.search(text)
    try:
        head, at = (text[: found.end()], found.end()) if found else ("", 0)
        page = json.loads(head + "]}")
        ready, at_seconds = bool(page["ready"]), _instant(page["at_seconds"])
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise AggregatorError(f"{where} is no list of alerts: {error!r}") from error
    return _Page(ready, at_seconds, _rows(text, at, where))


def _rows(text: str, at: int, where: str) -> Iterator[Alert]:
    """The alerts from there on, one by one: a thread that decodes JSON keeps all others waiting
    until it is done, and 10 000 alerts with context are 20 MB."""
    decoder = json.JSONDecoder()
    try:
        while True:
            between = _BETWEEN.match(text, at)
            at = between.end() if between else at
            if text[at] == "]":
                return
            row, at = decoder.raw_decode(text, at)
            yield _alert(row)
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise AggregatorError(f"{where} has what is no alert: {error!r}") from error


def _alert(row: Mapping[str, Any]) -> Alert:
    node = "" if row["scope"] == "fleet" else str(row["scope"]["node"])
    return Alert(
        rule=str(row["rule"]),
        operation=str(row["operation"]),
        scope="node" if node else "fleet",
        node=node,
        state=str(row["state"]),
        severity=str(row["severity"]),
        since=_instant(row["since_seconds"]),
        firing_since=row.get("firing_since_seconds"),
        summary=str(row.get("summary", "")),
        evidence=row.get("evidence"),
        fields=row,
    )


def _instant(seconds: Any) -> float:
    # NaN differs from itself, so it would be a change at each read.
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds!r} is no time")
    return float(seconds)
