"""A threshold on values of the job, and what it finds in them. Calls nothing and keeps no state."""

import dataclasses
from typing import Callable, Dict, Optional, Sequence, Union

from .names import tag_pairs

COMPARISONS = ("greater", "less", "equal")


@dataclasses.dataclass(frozen=True)
class Crossing:
    """A value of this process that crossed a threshold."""

    name: str
    labels: Dict[str, str]
    state: str
    """`firing` when it exceeds the threshold, `resolved` when it no longer does."""
    value: float
    """What was judged: of a latency seconds, of a counter its total in this process."""
    threshold: float
    comparison: str
    severity: str


# Two of the same content are two, so that the state of one that was replaced does not outlive it.
@dataclasses.dataclass(frozen=True, eq=False)
class Threshold:
    """What a value is compared with, and what is called when that changes."""

    name: str
    value: float
    comparison: str
    severity: str
    callback: Callable[[Crossing], object]

    def crossing(
        self, is_over: bool, values: Sequence[Union[int, float]], tags: str
    ) -> Optional[Crossing]:
        """The change that new values of a series are, which was over it or not; None for none."""
        if self.comparison == "equal":
            judged: float = self.value if self.value in values else values[-1]
            is_now = judged == self.value
        else:
            judged = max(values) if self.comparison == "greater" else min(values)
            is_now = judged > self.value if self.comparison == "greater" else judged < self.value
        if is_now == is_over:
            return None
        state = "firing" if is_now else "resolved"
        labels = dict(tag_pairs(tags))
        return Crossing(
            self.name, labels, state, judged, self.value, self.comparison, self.severity
        )
