"""`deterministic_profile`: each call of a block, by the time of functions with what they call.

The standard library's cProfile counts: before Python 3.12 the thread that enters the block, from
then on all threads, whose times mix where several run. Each call costs time, which is measured here
and stated: functions that are called often look slower than they are. For a process as it runs use
its stacks.
"""

import cProfile
import json
import os
import sys
import types
from time import perf_counter_ns as clock
from typing import Dict, List, NamedTuple, Optional, TextIO, Type, Union

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .timing import in_words


_THREADS = "this thread" if sys.version_info < (3, 12) else "all threads"


class FunctionTime(NamedTuple):
    """One function, over all of its calls in the block."""

    name: str
    file: str
    """Empty of a built-in function."""
    line: int
    calls: int
    self_seconds: float
    """Without what it called."""
    cumulative_seconds: float
    """With what it called; of a recursive function once."""


class DeterministicProfile:
    """A block whose calls are counted, with `with`; may be used once."""

    def __init__(
        self,
        top: int,
        export: Optional[Union[str, "os.PathLike[str]"]],
        file: Optional[TextIO],
    ) -> None:
        if top < 1:
            raise ValueError(f"top={top} must be at least 1")
        self.top = top
        self.seconds = 0.0
        """How long the block took, profiling included."""
        self.cost_seconds = 0.0
        """About how much of that profiling took."""
        self.functions: List[FunctionTime] = []
        """All of them, the longest cumulative time first."""
        self._export = export
        self._file = file
        self._profile: Optional[cProfile.Profile] = None
        self._started_ns = 0

    def __enter__(self) -> "DeterministicProfile":
        if not CLIENT.settings.is_on("timers"):
            if DIAGNOSTICS.is_watching:
                DIAGNOSTICS.on_disabled_use("timers", CLIENT.settings)
            return self
        profile = cProfile.Profile()
        try:
            profile.enable()
        except ValueError as error:
            raise RuntimeError(f"deterministic_profile within another profiler: {error}") from None
        self._profile = profile
        self._started_ns = clock()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        profile, self._profile = self._profile, None
        if profile is None:
            return
        profile.disable()
        self.seconds = (clock() - self._started_ns) / 1e9
        self.functions = _functions(profile)
        calls = sum(of.calls for of in self.functions)
        self.cost_seconds = min(calls * _seconds_a_call(), self.seconds)

        print(self.text(), file=self._file or sys.stderr)
        if self._export is not None:
            with open(self._export, "w", encoding="utf-8") as file:
                json.dump(self.as_json(), file, indent=1)

    def text(self) -> str:
        """The first functions as a table, under a line with the cost of the profile."""
        calls = sum(of.calls for of in self.functions)
        share = self.cost_seconds / self.seconds if self.seconds else 0.0
        took, cost = in_words(self.seconds), in_words(self.cost_seconds)
        lines = [
            f"{took} with {calls:,} calls in {_THREADS}, of which profiling took about {cost} "
            f"({share:.0%}); by cumulative time:",
            f"{'cumulative':>12} {'itself':>10} {'calls':>12}  function",
        ]
        for of in self.functions[: self.top]:
            place = f" ({of.file}:{of.line})" if of.file else ""
            times = f"{in_words(of.cumulative_seconds):>12} {in_words(of.self_seconds):>10}"
            lines.append(f"{times} {of.calls:>12,}  {of.name}{place}")
        left_out = len(self.functions) - self.top
        return "\n".join(lines + [f"{left_out:>36,}  more functions"] * (left_out > 0))

    def as_json(self) -> Dict[str, object]:
        """Seconds and shares of the block; at most 10 000 functions."""
        percent = 100 / self.seconds if self.seconds else 0.0
        functions = self.functions[: limits.PROFILED_FUNCTIONS_MAX]
        return {
            "kind": "deterministic",
            "duration_seconds": self.seconds,
            "cost_seconds": self.cost_seconds,
            "functions_omitted": len(self.functions) - len(functions),
            "top_functions": [
                {**of._asdict(), "percent": of.cumulative_seconds * percent} for of in functions
            ],
        }


def deterministic_profile(
    *,
    top: int = 10,
    export: Optional[Union[str, "os.PathLike[str]"]] = None,
    file: Optional[TextIO] = None,
) -> DeterministicProfile:
    """`with deterministic_profile(top=10):` counts every call of the block and prints the functions
    with the longest cumulative time, to standard error or `file`; `export` is a path for JSON.

    It does nothing while timers are off. Raises RuntimeError where another profiler of this kind
    runs, and OSError if the export cannot be written.
    """
    return DeterministicProfile(top, export, file)


def _functions(profile: cProfile.Profile) -> List[FunctionTime]:
    found = []
    for of in profile.getstats():
        name, place = str(of.code), ("", 0)
        if isinstance(of.code, types.CodeType):
            name = getattr(of.code, "co_qualname", of.code.co_name)
            place = of.code.co_filename, of.code.co_firstlineno
        # What ends the profile is no part of the block.
        if "_lsprof.Profiler" in name or place[0] == __file__:
            continue
        found.append(FunctionTime(name, *place, of.callcount, of.inlinetime, of.totaltime))
    found.sort(key=lambda of: (-of.cumulative_seconds, -of.self_seconds, of.name))
    return found


def _seconds_a_call() -> float:
    """What counting adds to a call on this machine now: the least of a few tries."""

    def nothing() -> None:
        pass

    def calls() -> int:
        started_ns = clock()
        for _ in range(limits.PROFILE_TRIAL_CALLS):
            nothing()
        return clock() - started_ns

    plain = min(calls() for _ in range(3))
    counted = []
    for _ in range(3):
        profile = cProfile.Profile()
        profile.enable()
        counted.append(calls())
        profile.disable()
    return max(min(counted) - plain, 0) / limits.PROFILE_TRIAL_CALLS / 1e9
