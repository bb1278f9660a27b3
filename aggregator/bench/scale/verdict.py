"""Targets of a section, and whether a run meets them."""

from typing import NamedTuple


class Target(NamedTuple):
    """A bound on one figure."""

    name: str
    most: float | None = None
    least: float | None = None

    def is_met(self, value):
        """A figure that was not measured meets no target."""
        if value is None:
            return False
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)


class Result(NamedTuple):
    """One target of a run: what was measured, in words, and whether that is enough."""

    name: str
    measured: str
    met: bool

    def line(self):
        """The result as a Markdown list item."""
        separator = ": " if self.measured else ""
        verdict = "met" if self.met else "**missed**"
        return f"- {self.name}{separator}{self.measured}: {verdict}"


def exit_code(failed, missed, allow_missed):
    """0: measured, and all targets met; 1: a section failed; 6: a target was missed."""
    if failed:
        return 1
    return 6 if missed and not allow_missed else 0
