"""`step`: how long one turn of a loop takes, and the phases in which its time was spent.

Times are exclusive: each moment counts for the innermost open phase, or for the phase `other`
outside of any, so that the phases of a step add up to it exactly. At its end a step leaves one
sample of its own and one of each phase, however often that was entered. A step is found by its
object alone, never by a global: tasks and threads have one each. DESIGN N85.
"""

import os
from time import perf_counter_ns as clock
from typing import Dict, List, Optional, Tuple, Type

from . import limits
from .client import CLIENT
from .diagnostics import DIAGNOSTICS
from .names import part_name
from .spans import RINGS, Root, note
from .timing import count_error

CLASSES = ("input", "compute", "sync", "checkpoint", "llm", "database", "mode", "other")
"""Values of the label `class` of a phase: what its time is good for."""

_PhaseKey = Tuple[str, str]
"""Name and class: phases that share both are one."""

_OTHER: _PhaseKey = ("other", "other")


class Phase:
    """A part of a step, with `with`; made by `Step.phase`."""

    __slots__ = ("key", "begun_ns", "_step")

    def __init__(self, step: "Step", key: _PhaseKey) -> None:
        self.key = key
        self.begun_ns = 0
        self._step = step

    def __enter__(self) -> "Phase":
        self._step._enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._step._leave(self)


class Step:
    """One turn of a loop, with `with`; may be used again when it is over."""

    __slots__ = (
        *("operation", "labels", "elapsed_ns", "_open", "_spent", "_counted_ns", "_process"),
        *("_begun_ns", "_root"),
    )

    def __init__(self, operation: str, labels: Dict[str, object]) -> None:
        self.operation = operation
        self.labels = labels
        self.elapsed_ns = 0
        """Nanoseconds that the step took, once it is over."""
        # Open phases, the innermost last; empty unless the step goes on.
        self._open: List[Phase] = []
        self._spent: Dict[_PhaseKey, int] = {}
        self._counted_ns = self._process = self._begun_ns = 0
        # While spans are kept.
        self._root: Optional[Root] = None

    def phase(self, name: str, /, *, class_: Optional[str] = None) -> Phase:
        """A part of this step: the operation `<step>.<name>`, with the label `class`.

        Without `class_` that is the name, if it is one of CLASSES, or else `other`. Phases may
        nest: the time of the inner one is not counted in the outer. Those of one step must not run
        side by side.
        """
        return Phase(self, (name, _class_of(name, class_)))

    def __enter__(self) -> "Step":
        self._open, self._spent = [Phase(self, _OTHER)], {_OTHER: 0}
        self._process = os.getpid()
        self._root = Root() if RINGS else None
        self._begun_ns = self._counted_ns = clock()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *_: object) -> None:
        opened, self._open = self._open, []
        if not opened:
            return
        self._count(opened)
        # A copy: threads may share the step against its contract.
        spent = dict(self._spent)
        self.elapsed_ns = sum(spent.values())

        # A forked child leaves the blocks of its parent too; their time is the parent's.
        if self._process == os.getpid():
            self._record(spent, kind is not None and issubclass(kind, Exception))
        root, self._root = self._root, None
        if root is not None:
            root.leave()
            if RINGS and self._process == os.getpid():
                bounds = self._begun_ns, self._counted_ns
                note(self.operation, *bounds, self.labels, "step", own=root.number)

    def _record(self, spent: Dict[_PhaseKey, int], failed: bool) -> None:
        CLIENT.registry.latency(self.operation, self.labels).add(max(0, self.elapsed_ns))
        if failed:
            count_error(self.operation, self.labels)

        for (name, class_), spent_ns in spent.items():
            operation, labels = part_name(self.operation, name), {**self.labels, "class": class_}
            CLIENT.registry.latency(operation, labels).add(max(0, spent_ns))

    def _enter(self, phase: Phase) -> None:
        opened = self._open
        if not opened:
            return
        self._count(opened)
        has_series = phase.key in self._spent or len(self._spent) < limits.PHASES_MAX
        if has_series and len(opened) < limits.PHASES_OPEN_MAX:
            opened.append(phase)
            phase.begun_ns = self._counted_ns
            self._spent.setdefault(phase.key, 0)
        else:
            CLIENT.registry.drop("phases")

    def _leave(self, phase: Phase) -> None:
        opened = self._open
        # Not open: the step is over, or there was no room for the phase.
        if phase not in opened:
            return
        self._count(opened)
        # Blocks end inside out; exit stacks and generators may not.
        opened.remove(phase)
        if RINGS and self._process == os.getpid():
            name, class_ = phase.key
            labels = {**self.labels, "class": class_}
            operation = part_name(self.operation, name)
            note(operation, phase.begun_ns, self._counted_ns, labels, "phase")

    def _count(self, opened: List[Phase]) -> None:
        """The time since the last call belongs to the innermost phase."""
        now_ns, key = clock(), opened[-1].key
        # Another thread may have begun the step anew, against its contract: then the key is new.
        self._spent[key] = self._spent.get(key, 0) + now_ns - self._counted_ns
        self._counted_ns = now_ns


class NoStep(Step):
    """What a step is while timers are off: it never begins, so its phases count nothing."""

    __slots__ = ()

    def __enter__(self) -> Step:
        return self


NO_STEP = NoStep("", {})


def _class_of(name: str, class_: Optional[str]) -> str:
    wanted = name if class_ is None else class_
    if wanted in CLASSES:
        return wanted
    if class_ is not None:
        text = f"class_={class_!r} of the phase {name!r} is none of {', '.join(CLASSES)}"
        DIAGNOSTICS.warn_once("class", f"{text}: it counts as other")
    return "other"


def step(operation: str = "step", /, **labels: object) -> Step:
    """One turn of a loop: a sample of `operation`, and one of `<operation>.<phase>` for each phase.

    What is outside of all phases is `<operation>.other`, so that the phases add up to the step. An
    `Exception` that leaves the step counts in `<operation>.errors`. A step that does not end,
    such as one in which the process is forked or killed, is not recorded.
    """
    if not (CLIENT.settings.enabled and CLIENT.settings.timers):
        if DIAGNOSTICS.is_watching:
            DIAGNOSTICS.on_disabled_use("timers", CLIENT.settings)
        return NO_STEP
    return Step(operation, labels)
