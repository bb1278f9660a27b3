"""What bounds the end of a step or request, and where nothing in it was timed. Pure.

The critical path goes backwards: from the end of the root to the span that ended last before, from
where that one began to the next, and so on; within each span of the path likewise. A span may have
waited for spans of its own lane, and for those that its lane handed over to tasks and threads.
"""

from bisect import bisect_right
from typing import Dict, Iterator, List, Sequence, Set, Tuple

from . import limits
from .spans import Lane, Span


def critical(spans: Sequence[Span]) -> Set[int]:
    """The `id` of each span that is on the critical path of a root among them."""
    marked: Set[int] = set()
    for root, inside in _roots(spans):
        ends = [span.ended_ns for span in inside]
        waiting = [root]
        while waiting:
            outer = waiting.pop()
            until_ns = outer.ended_ns
            for at in range(bisect_right(ends, until_ns) - 1, -1, -1):
                span = inside[at]
                if span.ended_ns <= outer.begun_ns:
                    break
                is_within = outer.begun_ns <= span.begun_ns and span.ended_ns <= until_ns
                is_near = outer.lane in (span.lane, span.within.lane)
                if is_within and is_near and span is not outer and id(span) not in marked:
                    marked.add(id(span))
                    waiting.append(span)
                    until_ns = span.begun_ns
    return marked


def gaps(spans: Sequence[Span]) -> List[Span]:
    """The times of a root in which nothing was timed, between the spans of each lane."""
    found = []
    for root, inside in _roots(spans):
        lanes: Dict[Lane, List[Span]] = {root.lane: []}
        for span in inside:
            lanes.setdefault(span.lane, []).append(span)
        for lane, row in lanes.items():
            row.sort(key=lambda span: span.begun_ns)
            spent_ns = root.begun_ns if lane == root.lane else row[0].begun_ns
            bounds = [(span.begun_ns, span.ended_ns) for span in row]
            # Before the first and behind the last span it is the root's own lane that waits.
            bounds += [(root.ended_ns, root.ended_ns)] * (lane == root.lane)
            for begun_ns, ended_ns in bounds:
                if begun_ns - spent_ns >= limits.GAP_NS_MIN:
                    found.append(Span("gap", "gap", spent_ns, begun_ns, lane, root.within, 0, {}))
                spent_ns = max(spent_ns, ended_ns)
    return found


def _roots(spans: Sequence[Span]) -> Iterator[Tuple[Span, List[Span]]]:
    """Each step or request with the spans in it, by their ends, of equal ones the longest last."""
    inside: Dict[int, List[Span]] = {}
    for span in spans:
        inside.setdefault(span.within.root, []).append(span)
    for root in spans:
        if root.own:
            of_root = inside.get(root.own, [])
            bounds = root.begun_ns, root.ended_ns
            rows = [of for of in of_root if bounds[0] <= of.begun_ns and of.ended_ns <= bounds[1]]
            yield root, sorted(rows, key=lambda span: (span.ended_ns, -span.begun_ns))
