# DESIGN N42.
"""Judges measured values against targets, and turns the verdicts into an exit code.

A section declares its targets as data (`TARGETS`), judges each measured value with
`Target.judge` and puts the verdicts anywhere into its result. `missed` finds them again.
"""

import operator
from dataclasses import dataclass

RELATIONS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}

# 2 is argparse's code for a wrong command line.
MET, FAILED, MISSED = 0, 1, 6


@dataclass(frozen=True)
class Target:
    """A bound that a measured value must keep."""

    name: str
    relation: str
    bound: float
    unit: str = ""

    def judge(self, value):
        """The verdict on a value, ready for JSON."""
        return {
            "name": self.name,
            "relation": self.relation,
            "bound": self.bound,
            "unit": self.unit,
            "value": value,
            "met": RELATIONS[self.relation](value, self.bound),
        }


def text(verdict):
    """A verdict as a line: `anonymous memory, idle <= 1.5 MiB: 1.1 MiB, met`."""
    bound, value = (figure(verdict[key], verdict["unit"]) for key in ("bound", "value"))
    return f"{verdict['name']} {verdict['relation']} {bound}: {value}, {word(verdict['met'])}"


def figure(value, unit):
    """A number with its unit."""
    return f"{value:.3g} {unit}".strip()


def word(met):
    """A verdict as a word of Markdown."""
    return "met" if met else "**missed**"


def _found(result, key):
    """Every dictionary inside a result that has this key."""
    if isinstance(result, dict):
        if key in result:
            yield result
        for inner in result.values():
            yield from _found(inner, key)
    elif isinstance(result, list):
        for inner in result:
            yield from _found(inner, key)


def missed(result):
    """The verdicts inside a result whose target is missed, as lines."""
    return [text(verdict) for verdict in _found(result, "met") if not verdict["met"]]


def failed(result):
    """The reasons inside a result for what could not be measured."""
    return [str(found["failed"]) for found in _found(result, "failed")]


def exit_code(result, allow_missed=False):
    """1 when something could not be measured, 6 when a target is missed, 0 otherwise."""
    if failed(result):
        return FAILED
    return MISSED if missed(result) and not allow_missed else MET
