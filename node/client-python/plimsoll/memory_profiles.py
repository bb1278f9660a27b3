"""`memory_profile`: the lines of code whose allocations outlive a block."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, TextIO

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .sampler import Frame

if TYPE_CHECKING:
    from .allocations import Allocations, AllocationWatch

_MB = 1e6


@dataclasses.dataclass
class LineGrowth:
    """What one line allocated that is still there."""

    file: str
    line: int
    function: str
    size_bytes: int = 0
    count: int = 0
    """Blocks of memory."""


class MemoryProfile:
    """A block whose allocations are traced, with `with`; may be used once."""

    def __init__(self, top: int, file: Optional[TextIO]) -> None:
        if top < 1:
            raise ValueError(f"top={top} must be at least 1")
        self.top = top
        self.allocations: List[LineGrowth] = []
        """The largest first; at most 1 000, and empty until the block is over."""
        self.peak_bytes = 0
        """The most that was allocated on top of what there was before."""
        self.leaked_bytes = 0
        """What was allocated in the block and is still there."""
        self._file = file
        self._watch: "Optional[AllocationWatch]" = None

    def __enter__(self) -> "MemoryProfile":
        if CLIENT.settings.is_on("timers"):
            # Here: a program without such a block need not load it.
            from .allocations import AllocationWatch

            self._watch = AllocationWatch()
        elif DIAGNOSTICS.is_watching:
            DIAGNOSTICS.on_disabled_use("timers", CLIENT.settings)
        return self

    def __exit__(self, *_: object) -> None:
        watch, self._watch = self._watch, None
        found = watch.end(full_paths=True) if watch else None
        if found is None:
            return
        self.peak_bytes, self.leaked_bytes = found.peak_bytes, found.leaked_bytes
        self.allocations = _by_line(found)
        print(self.text(), file=self._file or sys.stderr)

    def text(self) -> str:
        """The first lines as a table, under a line with their sums."""
        lines = [
            f"{self.leaked_bytes / _MB:.1f} MB allocated and still there, "
            f"{self.peak_bytes / _MB:.1f} MB at the peak; by line:",
            f"{'bytes':>14} {'blocks':>10}  line",
        ]
        for of in self.allocations[: self.top]:
            place = f"{of.function} ({of.file}:{of.line})"
            lines.append(f"{of.size_bytes:>14,} {of.count:>10,}  {place}")
        return "\n".join(lines)

    def as_dict(self) -> Dict[str, Any]:
        """The same as JSON has it."""
        return {
            "kind": "memory",
            "peak_mb": self.peak_bytes / _MB,
            "leaked_mb": self.leaked_bytes / _MB,
            "allocations": [dataclasses.asdict(of) for of in self.allocations],
        }


def memory_profile(*, top: int = 10, file: Optional[TextIO] = None) -> MemoryProfile:
    """`with memory_profile(top=10) as m:` prints the lines of all threads whose allocations outlive
    the block, to standard error or `file`. `m.as_dict()` has all of them. Does nothing while timers
    are off. Calls that allocate take several times as long in the block."""
    return MemoryProfile(top, file)


def _by_line(found: "Allocations") -> List[LineGrowth]:
    lines: Dict[Frame, LineGrowth] = {}
    for growth in found.growths:
        frame = growth.stack.frames[-1]
        line = lines.setdefault(frame, LineGrowth(frame.file, frame.line, frame.function))
        line.size_bytes += growth.size_bytes
        line.count += growth.blocks
    ordered = sorted(lines.values(), key=lambda of: -of.size_bytes)
    return ordered[: limits.ALLOCATIONS_MAX]
