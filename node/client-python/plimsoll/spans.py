"""The last scopes that this process timed, as spans: when, in which thread or task, in which step.

Nothing is kept until a ring is in RINGS: then each scope that ends is noted in all of them. A ring
holds the last seconds, and drops its oldest spans when these are too many or too large. What is
dropped is counted. Sends nothing, and knows no format of files.
"""

import itertools
import sys
import threading
from collections import deque
from contextvars import ContextVar
from time import perf_counter_ns as clock
from typing import Deque, Dict, List, Mapping, NamedTuple, Optional

from . import limits
from .names import as_text, bare_key, cut


class Lane(NamedTuple):
    """Where spans nest: a thread, or one asyncio task in it."""

    thread: int
    """The kernel's number of it."""
    thread_name: str
    task: str
    """Empty outside of tasks."""


class Within(NamedTuple):
    """Where the context of a span comes from."""

    root: int
    """The number of the step or request; 0 for none."""
    lane: Lane
    """The lane that began it, or that handed the span's work over to another one."""


class Span(NamedTuple):
    """One timed scope."""

    name: str
    category: str
    """`span`, `step`, `phase`, `request`, `handover`, or `gap`."""
    begun_ns: int
    ended_ns: int
    lane: Lane
    within: "Within"
    own: int
    """Its own number if it is a step or a request, else 0."""
    labels: Dict[str, str]


class Ring:
    """The spans that ended in the last `keep_s` seconds, within the bounds."""

    def __init__(self, keep_s: float) -> None:
        self.dropped = 0
        """Spans that had no room, though they were young enough."""
        self._keep_ns = round(keep_s * 1e9)
        self._spans: Deque[Span] = deque()
        self._bytes = 0
        # Of one thread several times: a signal handler may end a scope while this one is held.
        self._lock = threading.RLock()

    def add(self, span: Span) -> None:
        """Adds the span that has just ended."""
        with self._lock:
            self._spans.append(span)
            self._bytes += _bytes(span)
            oldest_ns = span.ended_ns - self._keep_ns
            while True:
                first = self._spans[0]
                is_old = first.ended_ns < oldest_ns
                is_full = len(self._spans) > limits.SPANS_MAX or self._bytes > limits.SPAN_BYTES_MAX
                if not (is_old or is_full) or first is span:
                    return
                self._bytes -= _bytes(self._spans.popleft())
                self.dropped += not is_old

    def spans(self) -> List[Span]:
        """What it holds now, in the order of their ends."""
        oldest_ns = clock() - self._keep_ns
        with self._lock:
            return [span for span in self._spans if span.ended_ns >= oldest_ns]


RINGS: List[Ring] = []
"""Where spans go. A scope calls `note` unless it is empty: when off, this test is all it costs."""

_NOWHERE = Within(0, Lane(0, "", ""))
_within: "ContextVar[Within]" = ContextVar("plimsoll_within", default=_NOWHERE)
_numbers = itertools.count(1)
_here = threading.local()
_kept: Optional[Ring] = None


class Root:
    """A step or request: spans of its context belong to it, also those of tasks started in it."""

    __slots__ = ("number", "_outer")

    def __init__(self, handed: Optional[Within] = None) -> None:
        self._outer = _within.get()
        within = handed or Within(next(_numbers), _lane(_task()))
        self.number = within.root
        _within.set(within)

    def leave(self) -> None:
        """What is noted from now on belongs to the root around it."""
        # No token: a generator may leave it in another context than it entered.
        _within.set(self._outer)


def handed_over() -> Optional[Within]:
    """For the `Root` of work that another thread does for the caller; None outside of any."""
    root = _within.get().root
    return Within(root, _lane(_task())) if root and RINGS else None


def note(
    name: str,
    begun_ns: int,
    ended_ns: int,
    labels: Mapping[str, object],
    category: str = "span",
    own: int = 0,
    task: Optional[str] = None,
) -> None:
    """A scope has ended, in the lane of the caller unless `task` names another one."""
    lane = _lane(_task() if task is None else task)
    texts = {}
    for key, value in itertools.islice(labels.items(), limits.LABELS_MAX):
        # No reference to what the job labels with: it might be large.
        texts[bare_key(key)] = cut(as_text(value), limits.LABEL_VALUE_BYTES_MAX)
    name = as_text(name)[: limits.NAME_BYTES_MAX]
    span = Span(name, category, begun_ns, ended_ns, lane, _within.get(), own, texts)
    for ring in tuple(RINGS):
        ring.add(span)


def keep(seconds: float) -> Optional[Ring]:
    """Keeps the spans of the last seconds of this process from now on, or none for 0."""
    global _kept
    if _kept in RINGS:
        RINGS.remove(_kept)
    _kept = Ring(seconds) if seconds else None
    if _kept is not None:
        RINGS.append(_kept)
    return _kept


def kept() -> Optional[Ring]:
    """The ring of `keep`; None while it is off."""
    return _kept


def forked() -> None:
    """In a child: its parent's spans and readers are not its own."""
    global _here
    RINGS.clear()
    _here = threading.local()


def _lane(task: str) -> Lane:
    try:
        lane: Lane = _here.lane
    except AttributeError:
        # Not `current_thread`, which makes an entry for ever of a thread that is not Python's.
        ident = threading.get_ident()
        names = [of.name for of in threading.enumerate() if of.ident == ident]
        lane = _here.lane = Lane(threading.get_native_id(), names[0] if names else "[unnamed]", "")
    return lane._replace(task=task) if task else lane


def _task() -> str:
    # A program without a loop need not load it.
    asyncio = sys.modules.get("asyncio")
    running_loop = getattr(asyncio, "_get_running_loop", None)
    loop = running_loop() if running_loop else None
    task = asyncio.current_task(loop) if asyncio and loop else None
    return task_name(task) if task else ""


def task_name(task: object) -> str:
    """The name of a task, which is its own; of another future one made of its address."""
    get_name = getattr(task, "get_name", None)
    return str(get_name()) if get_name else f"future {id(task):x}"


def _bytes(span: Span) -> int:
    """An upper bound: a character takes up to four bytes."""
    texts = sum(len(key) + len(value) for key, value in span.labels.items())
    return limits.SPAN_FIXED_BYTES + 4 * (len(span.name) + len(span.lane.task) + texts)
