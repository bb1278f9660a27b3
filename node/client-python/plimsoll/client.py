"""The client of this process: one registry, one sender, one thread that flushes.

A new process, a forked child included, has nothing: no thread and no socket until its first
value. Callers never send; they leave values, start the thread with the first one, and wake it with
the first one after a pause. That one is sent at once, and then what there is every `flush_ms`,
since a process that is killed gets no notice. Without values the thread sleeps. What a process
that ends leaves behind is sent by `at_exit`, for a bounded time. DESIGN N49, N56.
"""

import atexit
import dataclasses
import functools
import os
import socket
import sys
import threading
import time
from types import FrameType
from typing import Dict, Optional

from . import captures, limits, spans
from .callbacks import CALLBACKS
from .diagnostics import DIAGNOSTICS, MASTER_FIX
from .ending import Ending, ending, worker_frame
from .epochs import EPOCHS
from .flush_result import FlushResult
from .link import DEFAULT_PATH, Link, Outcome
from .registry import Registry
from .sender import Sender
from .settings import Settings, from_environment
from .wakeup import Wakeup


@dataclasses.dataclass(frozen=True)
class Stats:
    """What the client of this process did so far."""

    enabled: bool
    """Whether anything is recorded."""
    address: str
    """Where the node is expected."""
    connected: bool
    """Whether the node took the last datagram."""
    client: str
    """The random name under which this process numbers its datagrams to this address."""
    datagrams: int
    """Datagrams that the node's socket took."""
    samples: int
    """Latency samples in them."""
    held: int
    """Values that wait to be sent: latency samples, events, counters and gauges."""
    series: int
    """Series in use, of all kinds."""
    overflowed: int
    """Values whose series had no place and went into `other`."""
    dropped: Dict[str, int]
    """What could not be kept, by reason; sent as `plimsoll_client_dropped` too."""
    raised: int
    """Calls of functions of the job, of `on_alert` and thresholds, that ended with an exception."""
    fault: str
    """What keeps datagrams from the node right now, in words; empty when nothing does."""


class Client:
    """Everything that one process has; a single one is made, below."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.registry = Registry(self._wake)
        self.registry.recording = settings.enabled
        self.registry.relabel(settings.default_labels)
        # The thread that forked this process, unless it was a main thread: the process ends with
        # the last of its threads, so none of ours may outlive that one.
        self._forked_by: Optional[threading.Thread] = None
        self._forking: Optional[threading.Thread] = None
        self._begin()
        spans.keep(_kept_seconds(settings))
        DIAGNOSTICS.on_import(settings)
        atexit.register(self.at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_child=self._forked)

    def _begin(self) -> None:
        self._sender = Sender(self.registry, Link(self.settings.socket))
        self._sending = threading.Lock()
        self._starting = threading.RLock()
        self._thread: Optional[threading.Thread] = None
        self._orders: Optional[socket.socket] = None
        self._wakeup = Wakeup()
        self._ending = Ending.NONE
        self._worker: Optional[FrameType] = None
        # Flushes requested, flushes done, and how the last one ended.
        self._turn = threading.Condition()
        self._requested = 0
        self._done = 0
        self._outcome = Outcome.SENT
        self._fault = ""
        self._dropped_reported = 0
        self._absent_since_s: Optional[float] = None

    def _before_fork(self) -> None:
        current = threading.current_thread()
        self._forking = None if current is threading.main_thread() else current

    def _forked(self) -> None:
        self._forked_by = self._forking or self._forked_by
        self._sender.link.close()
        if self._orders is not None:
            # The parent answers there.
            self._orders.close()
        self._begin()
        self.registry.forked()
        spans.forked()
        spans.keep(_kept_seconds(self.settings))

    def apply(self, settings: Settings) -> None:
        """Applies new settings; pending values go to the new socket, under a new numbering."""
        before, self.settings = self.settings, settings
        moved = settings.socket != before.socket
        self.registry.recording = settings.enabled
        if _kept_seconds(settings) != _kept_seconds(before):
            spans.keep(_kept_seconds(settings))
        if settings.default_labels != before.default_labels:
            self.registry.relabel(settings.default_labels)
        if not settings.enabled:
            self.registry.sleep()
        if moved:
            with self._sending:
                self._sender.move(Link(settings.socket))
        self._wakeup.ring()
        DIAGNOSTICS.on_settings(before, settings)

    def stats(self) -> Stats:
        """What happened so far."""
        link = self._sender.link
        return Stats(
            enabled=self.settings.enabled,
            address=link.address,
            connected=link.is_connected,
            client=self._sender.client,
            datagrams=self._sender.datagrams,
            samples=self._sender.samples,
            held=self._held(),
            series=len(self.registry),
            overflowed=self.registry.overflowed,
            dropped=self.registry.dropped(),
            raised=CALLBACKS.raised,
            fault=self._fault or link.fault,
        )

    def flush(self, wait_s: float) -> FlushResult:
        """Sends what was recorded before, and waits for it up to `wait_s`.

        Returns at once when no node is reachable; then warns once.
        """
        result = self._flush(wait_s)
        if result.outcome == "unreachable":
            DIAGNOSTICS.warn_once("unreachable", f"{result.queued} values wait: {result.reason}")
        return result

    def at_exit(self) -> None:
        """At the exit of the process: sends the last values, then a datagram that marks the end."""
        DIAGNOSTICS.on_exit(self.settings)
        # A spawned worker of multiprocessing runs this twice, and its exit code is the same.
        self._ending = ending(self._worker)
        if self.registry.is_awake or self._thread is not None:
            self._flush_at_exit()
            if EPOCHS is not None:
                EPOCHS.end()
        if self.settings.trace_dir is not None and _kept_seconds(self.settings):
            self._export_at_exit(self.settings.trace_dir)
        if self._ending is Ending.IN_ORDER:
            self._ending = Ending.OVER

    @staticmethod
    def _export_at_exit(folder: str) -> None:
        """After the last values: a full disk costs the trace alone."""
        from .chrome_trace import export_trace  # at the exit alone: it loads gzip

        # Several machines may share the folder.
        path = os.path.join(folder, f"{socket.gethostname()}.{os.getpid()}.trace.json.gz")
        try:
            export_trace(path)
        except (OSError, RuntimeError, ValueError) as error:
            DIAGNOSTICS.warn_safely("variable", f"PLIMSOLL_TRACE_DIR: no trace in {path}: {error}")

    def _flush_at_exit(self) -> None:
        try:
            result = self._flush(limits.EXIT_WAIT_S)
        except BaseException:
            # A signal handler raised, such as `sys.exit` on a SIGTERM that comes while it ends.
            self._flush(limits.EXIT_WAIT_S)
            raise
        if result.queued:
            text = f"{result.queued} values were lost at the exit: {result.reason}"
            DIAGNOSTICS.warn_safely("unreachable", text)

    def _held(self) -> int:
        with self.registry.still():
            return self._sender.held() + self.registry.held()

    def _flush(self, wait_s: float) -> FlushResult:
        deadline = time.monotonic() + wait_s
        values_before = self._sender.values
        while True:
            outcome = self._flush_in_thread(deadline)
            # Unreachable at once, since what is kept is sent later.
            if outcome is not Outcome.FULL or time.monotonic() >= deadline:
                break
        obstacle = "" if outcome is Outcome.SENT else self._obstacle(outcome, wait_s)
        return self._result(outcome, self._sender.values - values_before, obstacle)

    def _result(self, outcome: Outcome, sent: int, obstacle: str) -> FlushResult:
        dropped_ever = sum(self.registry.dropped().values())
        dropped = dropped_ever - self._dropped_reported
        self._dropped_reported = dropped_ever
        queued = self._held()
        make = functools.partial(FlushResult, sent=sent, queued=queued, dropped=dropped)
        disabled_uses = DIAGNOSTICS.disabled_uses()
        if not self.settings.enabled:
            why = [disabled_uses or f"the master switch is off: {MASTER_FIX}", obstacle]
            return make("disabled", reason="; ".join(filter(None, why if queued else why[:1])))
        if outcome is Outcome.FULL:
            return make("timeout", reason=obstacle)
        # With nothing queued, all that failed is the datagram that marks the end.
        if outcome is Outcome.UNREACHABLE and queued:
            return make("unreachable", reason=obstacle)
        if dropped:
            reasons = ", ".join(reason for reason, n in self.registry.dropped().items() if n)
            text = f"{dropped} values were dropped, reasons so far: {reasons}; README lists them"
            return make("dropped", reason=text)
        if not sent and disabled_uses and self._sender.values == 0:
            return make("disabled", reason=disabled_uses)
        return make("sent" if sent else "nothing", reason="")

    def _obstacle(self, outcome: Outcome, wait_s: float) -> str:
        """What keeps values from the node, with the fix."""
        link = self._sender.link
        doctor = "`python -m plimsoll doctor` checks the address"
        if outcome is Outcome.UNREACHABLE:
            start = "plimsoll-node" if link.is_udp else f"plimsoll-node --unix {link.address}"
            return f"{link.fault}. Start `{start}`, or set PLIMSOLL_SOCKET; {doctor}"
        fault = self._fault or link.fault or f"{link.address}: not all was sent in time"
        return f"{fault}. Allow more time than flush(timeout_s={wait_s:g}); {doctor}"

    def _flush_in_thread(self, deadline: float) -> Outcome:
        """One flush by the thread, so that an interrupt of this one cannot cut it in half."""
        if self._thread is None or not self._thread.is_alive():
            return self._flush_once(max(0.0, deadline - time.monotonic()))
        with self._turn:
            self._requested += 1
            ticket = self._requested
            self._wakeup.ring()
            wait_s = max(0.0, deadline - time.monotonic())
            done = self._turn.wait_for(lambda: self._done >= ticket, wait_s)
            return self._outcome if done else Outcome.FULL

    def _flush_once(self, wait_s: float = -1) -> Outcome:
        # A signal handler that flushes must not wait for ever for what it interrupted.
        if not self._sending.acquire(timeout=wait_s):
            return Outcome.FULL
        try:
            self._fault = ""
            outcome = self._send()
            if outcome is not Outcome.SENT:
                self.registry.fold_halves()
            return outcome
        except Exception as error:  # The thread must outlive whatever is wrong here.
            self._fault = f"flush failed: {error!r}"
            return Outcome.FULL
        finally:
            self._sending.release()

    def _send(self) -> Outcome:
        """Sends what there is, and what the end of the process adds to it."""
        # Once, since the exit handler may change it meanwhile.
        now = self._ending
        if now is Ending.OVER:
            return self._sender.flush_after_end()
        outcome = self._sender.flush()
        if outcome is Outcome.SENT and now is Ending.FAILED:
            return self._sender.tail()
        if outcome is Outcome.SENT and now is Ending.IN_ORDER:
            return self._sender.end()
        return outcome

    def _run(self) -> None:
        while self._forked_by is None or self._forked_by.is_alive():
            requested = self._requests()
            begun_s = time.monotonic()
            outcome = self._flush_once()
            with self._turn:
                self._done, self._outcome = requested, outcome
                self._turn.notify_all()
            self._warn_of_absence(outcome)
            self._wait_for_turn(outcome, time.monotonic() - begun_s)
        # Nothing shows whether the thread that forked this process failed.
        self._ending = Ending.FAILED
        self._flush_once()

    def _warn_of_absence(self, outcome: Outcome) -> None:
        """A process that neither flushes nor ends is to warn of an absent node as well."""
        if outcome is not Outcome.UNREACHABLE:
            self._absent_since_s = None
            return
        now_s = time.monotonic()
        if self._absent_since_s is None:
            self._absent_since_s = now_s
        if now_s - self._absent_since_s >= limits.ABSENT_WARN_S:
            text = f"values wait: {self._obstacle(outcome, 0)}"
            DIAGNOSTICS.warn_safely("unreachable", text)

    def _requests(self) -> int:
        with self._turn:
            # All that rang is served by the flush that follows.
            self._wakeup.clear()
            return self._requested

    def _wait_for_turn(self, outcome: Outcome, took_s: float) -> None:
        """Waits until a flush is due, or a request, a value after a pause or new settings ring."""
        flush_s = self.settings.flush_ms / 1_000
        if self._forked_by is not None:
            # This thread must notice in time that the other one has ended.
            flush_s = min(flush_s, limits.TAIL_AFTER_S)
        if outcome is Outcome.UNREACHABLE:
            self._wakeup.wait(max(flush_s, limits.RETRY_S))
            return
        # From the begin of one flush to that of the next, with a rest after one that took long.
        is_rung = self._wakeup.wait(max(flush_s - took_s, limits.FLUSH_MS_MIN / 1_000))
        if not is_rung and outcome is Outcome.SENT and self.registry.doze():
            is_bounded = self._sender.owes_tail or self._forked_by is not None
            self._wakeup.wait(limits.TAIL_AFTER_S if is_bounded else -1)

    def _wake(self) -> None:
        """On the first value of this process, or after a pause: starts or wakes the thread."""
        with self._starting:
            if self.registry.is_awake or not self.settings.enabled:
                return
            self.registry.wake()
            if self._thread is not None:
                self._wakeup.ring()
                return
            self._end_with_multiprocessing()
            thread = threading.Thread(target=self._run, name="plimsoll-flush", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # At the end of an interpreter, or at the limit of threads: `at_exit` is left.
                self._fault = str(error)
                return
            self._thread = thread
            if self.settings.captures:
                self._orders = captures.listen(self.settings.socket or DEFAULT_PATH)

    def _end_with_multiprocessing(self) -> None:
        """Workers of multiprocessing leave by `os._exit`, after finalizers of their own."""
        process = sys.modules.get("multiprocessing.process")
        finalizers = sys.modules.get("multiprocessing.util")
        if process is None or finalizers is None or process.parent_process() is None:
            return
        self._worker = worker_frame()
        # Below every usual priority, since others may record until they end.
        finalizers.Finalize(None, self.at_exit, exitpriority=-1_000)


def _kept_seconds(settings: Settings) -> int:
    return settings.trace_seconds if settings.is_on("timers") else 0


CLIENT = Client(from_environment())
