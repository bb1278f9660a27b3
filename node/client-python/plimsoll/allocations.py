"""What was allocated in some seconds and is still there, by stack, from the standard library's
tracemalloc, which sees each allocation.

Tracing runs while there is a watch, unless the job itself had started it. Code that allocates
takes several times as long meanwhile. In a child of fork the watches of its parent are over.
"""

import dis
import gc
import os
import sys
import threading
import time
import traceback
import tracemalloc
from itertools import chain
from types import CodeType, FunctionType
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from . import limits
from .sampler import TRUNCATED, Frame, Stack

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_UNKNOWN = "[unknown]"
_Place = Tuple[str, int]
"""A file and a line."""


class Growth(NamedTuple):
    """What one stack allocated that is still there."""

    stack: Stack
    """Without a thread, which is not known."""
    blocks: int
    size_bytes: int


class Allocations(NamedTuple):
    """What became of memory between two instants."""

    growths: List[Growth]
    """The largest first."""
    peak_bytes: int
    """The most that was allocated on top of the beginning. Where the job traced before and had a
    higher peak then, what was there at the end."""
    leaked_bytes: int
    """The sum over all stacks, also of those beyond the bound."""
    blocks: int
    """Those that are still there, of all stacks."""


class AllocationWatch:
    """Allocations from its making to `end`."""

    def __init__(self) -> None:
        _tracing.enter()
        self._process = os.getpid()
        self._before = tracemalloc.take_snapshot()
        self._size, self._peak = tracemalloc.get_traced_memory()

    def end(self, full_paths: bool = False) -> Optional[Allocations]:
        """What there is now; None if tracing was stopped meanwhile, as in a child of fork."""
        if self._process != os.getpid():
            return None
        try:
            size, peak = tracemalloc.get_traced_memory()
            after = tracemalloc.take_snapshot()
        except RuntimeError:
            return None
        finally:
            _tracing.leave()
        peak_bytes = (peak if peak > self._peak else size) - self._size

        grown = [
            of
            for of in after.compare_to(self._before, "traceback")
            if of.size_diff > 0 and not _is_ours(of.traceback[-1].filename)
        ]
        kept = sorted(grown, key=lambda of: -of.size_diff)[: limits.STACKS_MAX]
        names = _functions({frame.filename for of in kept for frame in of.traceback})
        growths = [
            Growth(_stack(of.traceback, names, full_paths), max(of.count_diff, 0), of.size_diff)
            for of in kept
        ]
        leaked_bytes = sum(of.size_diff for of in grown)
        blocks = sum(max(of.count_diff, 0) for of in grown)
        return Allocations(growths, max(peak_bytes, 0), leaked_bytes, blocks)


def watched(seconds: float, full_paths: bool = False) -> Optional[Allocations]:
    """Allocations of the next seconds, or of fewer if tracing takes too much memory itself."""
    watch = AllocationWatch()
    # Of a job that traces itself, what that takes is not ours.
    bytes_max = tracemalloc.get_tracemalloc_memory() + limits.TRACEMALLOC_BYTES_MAX
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        if tracemalloc.get_tracemalloc_memory() > bytes_max:
            break
        time.sleep(min(left_s, limits.TRACEMALLOC_POLL_S))
    return watch.end(full_paths)


class _Tracing:
    """Whether tracemalloc runs for us, and for how many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._is_ours = False

    def enter(self) -> None:
        with self._lock:
            if not tracemalloc.is_tracing():
                self._is_ours = True
                tracemalloc.start(limits.ALLOCATION_FRAMES_MAX)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._is_ours:
                self._is_ours = False
                tracemalloc.stop()

    def forked(self) -> None:
        if self._is_ours:
            tracemalloc.stop()
        self.__init__()  # type: ignore[misc]


_tracing = _Tracing()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tracing.forked)


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE) or file == tracemalloc.__file__


def _stack(trace: tracemalloc.Traceback, names: Dict[_Place, str], full_paths: bool) -> Stack:
    frames = []
    if (trace.total_nframe or 0) > len(trace):
        frames.append(Frame(TRUNCATED, "", 0))
    for frame in trace:
        parts = frame.filename.split(os.sep)
        file = frame.filename if full_paths else os.sep.join(parts[-2:])
        function = names.get((frame.filename, frame.lineno), _UNKNOWN)
        frames.append(Frame(function, file, frame.lineno))
    return Stack("", tuple(frames))


def _functions(files: Set[str]) -> Dict[_Place, str]:
    """The function of each line: tracemalloc has none. Found in the functions that are alive, since
    to compile a file again would hold up all threads and repeat its warnings."""
    names: Dict[_Place, str] = {}
    codes = [of.__code__ for of in gc.get_objects() if type(of) is FunctionType]
    # A module that runs is no function before Python 3.11.
    frames = chain.from_iterable(map(traceback.walk_stack, sys._current_frames().values()))
    codes += [frame.f_code for frame, _ in frames]
    for code in _with_inner(of for of in codes if of.co_filename in files):
        name = getattr(code, "co_qualname", code.co_name)
        for _, line in dis.findlinestarts(code):
            place = (code.co_filename, line or 0)
            # The line of a `def` runs in the function around it.
            if line != code.co_firstlineno or place not in names:
                names[place] = name
    return names


def _with_inner(codes: Iterable[CodeType]) -> Iterable[CodeType]:
    """Code objects with those of comprehensions and functions defined in them."""
    # By identity: those of two files may be equal.
    found: Dict[int, CodeType] = {}
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        if id(code) not in found:
            found[id(code)] = code
            waiting += [of for of in code.co_consts if isinstance(of, CodeType)]
    return found.values()
