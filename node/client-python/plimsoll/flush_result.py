"""The result of a flush: what the node's socket accepted, what is still queued, and why."""

import dataclasses
from typing import Literal

FlushOutcome = Literal["sent", "nothing", "disabled", "dropped", "timeout", "unreachable"]


@dataclasses.dataclass(frozen=True)
class FlushResult:
    """What became of the values recorded since the previous flush; true if none is left or lost.

    A value is a latency sample, an event, or what one counter or gauge has to send: the amounts of
    a counter add up to one value. True for `sent` and `nothing` alone.
    """

    outcome: FlushOutcome
    """`sent`: the node's socket accepted all of them. `nothing`: nothing was queued, since the
    thread had sent all of it before. `disabled`: the master switch is off, or all that the program
    used is. `dropped`: some were dropped. `timeout`: the node listens, but did not read in time.
    `unreachable`: no node listens. After the last two the values stay queued and are sent later."""
    sent: int
    """Values that the node's socket accepted during this flush."""
    queued: int
    """Values that wait to be sent."""
    dropped: int
    """Values dropped since the previous flush; `stats().dropped` has the reasons."""
    reason: str
    """Why the outcome is not `sent` or `nothing`, with the fix; empty for these two."""

    def __bool__(self) -> bool:
        return self.outcome in ("sent", "nothing")
