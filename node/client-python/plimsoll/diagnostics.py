"""Warnings about values that are never recorded or sent: each cause once a process, with its fix.

Owns what the program used while it was off. Changes nothing about recording: a function that is
decorated while timers are off stays untouched. A program that uses the package and sets no switch
gets one warning; one that switches it off gets none.
"""

import os
import sys
import warnings
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Set

from . import limits
from .settings import PROFILERS, Settings

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_USES = {
    "timers": "@timed, timer() and step() record nothing",
    "shards": "shard reads are not recorded",
    "experiments": "experiments record nothing and write no file",
}
MASTER_FIX = "set PLIMSOLL_ENABLE=1, or call plimsoll.configure(enable=True)"
_ON_PURPOSE = "PLIMSOLL_ENABLE=0 keeps it off without this warning"


class PlimsollWarning(RuntimeWarning):
    """Values are not recorded or not sent, and nothing states that this is on purpose."""


class Diagnostics:
    """What was used in vain, and which warnings were given; one for each process, below."""

    def __init__(self) -> None:
        self.is_watching = False
        """Whether a use of what is off is worth a call of `on_disabled_use`."""
        self._warned: Set[str] = set()
        # Profiler -> why its uses record nothing.
        self._disabled_uses: Dict[str, str] = {}
        self._undecorated = 0
        self._undecorated_names: List[str] = []
        self._was_enabled = False

    # What happens.

    def on_import(self, settings: Settings) -> None:
        """Warns about the environment. Raises nothing, since no variable may stop a job."""
        for fault in settings.invalid_switches:
            self.warn_safely(fault, fault)
        self.is_watching = self._watches(settings)
        self._was_enabled = settings.enabled
        if settings.enabled:
            for fault in settings.invalid_variables:
                self.warn_safely(fault, fault)

    def on_settings(self, before: Settings, after: Settings) -> None:
        """Warns when timers are enabled too late, and about variables that are in use from now."""
        self.is_watching = self._watches(after)
        self._was_enabled = self._was_enabled or after.enabled
        if after.enabled:
            for fault in after.invalid_variables:
                self.warn_once(fault, fault)
        for profiler in PROFILERS:
            if after.is_on(profiler):
                self._disabled_uses.pop(profiler, None)
        if after.is_on("timers") and not before.is_on("timers") and self._undecorated:
            text = self._late_text()
            self._disabled_uses["timers"] = text
            self.warn_once("late", text)

    def on_decorated_while_off(self, function: Callable[..., Any], settings: Settings) -> None:
        """Counts a function that stays untouched, and keeps the first few names."""
        self._undecorated += 1
        if len(self._undecorated_names) < limits.UNDECORATED_NAMES_MAX:
            function = getattr(function, "__func__", function)
            module = getattr(function, "__module__", None)
            name = getattr(function, "__qualname__", type(function).__name__)
            self._undecorated_names.append(f"{module}.{name}" if module else str(name))
        # While no switch is set, `configure` may still follow: that is for the exit.
        if self.is_watching and not _is_unset(settings):
            self.on_disabled_use("timers", settings)

    def on_disabled_use(self, profiler: str, settings: Settings) -> None:
        """A use of a profiler that is off: warns once, unless it was switched off on purpose."""
        if _is_unset(settings):
            self._on_unset_use(f"{MASTER_FIX} (beside it PLIMSOLL_ENABLE_{profiler.upper()}=1)")
            return
        text = _disabled_text(profiler, settings)
        if text:
            self._disabled_uses[profiler] = text
            self.warn_once(profiler, text)

    def on_disabled_value(self, settings: Settings) -> None:
        """A value that the program measured itself while the master switch is off."""
        if self.is_watching and _is_unset(settings):
            self._on_unset_use(MASTER_FIX)

    def _on_unset_use(self, fix: str) -> None:
        """Warns once that no switch was ever set. A filter that raises prints instead: the tests of
        a program that is merely instrumented pass as before."""
        self.is_watching = False
        self.warn_safely("unset", f"no switch is set, so nothing is recorded: {fix}; {_ON_PURPOSE}")

    def on_untimed(self, kind: str, operation: str) -> None:
        """A call returned something that is awaited in its own way: warns once."""
        text = (
            f"@timed({operation!r}): the call returned a {kind}, whose end cannot be seen; nothing is"
            f" recorded. Use `with plimsoll.timer({operation!r}):` around its await"
        )
        self.warn_safely("untimed", text)

    def on_exit(self, settings: Settings) -> None:
        """Warns if a profiler was on all the time and the master switch never was, and if functions
        were decorated and no switch was ever set."""
        if self._was_enabled or not self.is_watching:
            return
        if self._undecorated and _is_unset(settings):
            self.on_disabled_use("timers", settings)
        for profiler in PROFILERS:
            text = _disabled_text(profiler, settings) if getattr(settings, profiler) else ""
            if text:
                self.warn_safely(profiler, text)

    # What comes out.

    def disabled_uses(self) -> str:
        """Why the profilers that the program used record nothing; empty if all record."""
        return "; ".join(self._disabled_uses.values())

    def warn_once(self, cause: str, text: str) -> None:
        """Warns at the line that called the package; raises if the program's filters say so."""
        if cause in self._warned:
            return
        self._warned.add(cause)
        warnings.warn(f"plimsoll: {text}", PlimsollWarning, stacklevel=_caller_level())

    def warn_safely(self, cause: str, text: str) -> None:
        """As `warn_once`, for places that may not raise: a filter that raises prints instead."""
        try:
            self.warn_once(cause, text)
        except PlimsollWarning as warning:
            print(f"PlimsollWarning: {warning}", file=sys.stderr)

    @staticmethod
    def _watches(settings: Settings) -> bool:
        profilers = any(getattr(settings, name) for name in PROFILERS)
        return settings.enabled or profilers or _is_unset(settings)

    def _late_text(self) -> str:
        more = self._undecorated - len(self._undecorated_names)
        names = ", ".join(self._undecorated_names) + (f" and {more} more" if more else "")
        total = self._undecorated
        count = "1 function was" if total == 1 else f"{total} functions were"
        return (
            f"{count} decorated with @timed while timers were off, and record nothing: {names}. "
            "Call plimsoll.configure() before the import of the modules that define them, "
            "or set PLIMSOLL_ENABLE=1 and PLIMSOLL_ENABLE_TIMERS=1"
        )


def _is_unset(settings: Settings) -> bool:
    """Whether neither the environment nor code set any switch, be it to off."""
    return not settings.chosen and not settings.invalid_switches


def _disabled_text(profiler: str, settings: Settings) -> str:
    """Why a use of this profiler records nothing; empty if that is on purpose."""
    variable = f"PLIMSOLL_ENABLE_{profiler.upper()}"
    if settings.enabled:
        if profiler in settings.chosen:
            return ""
        fix = f"set {variable}=1, or call plimsoll.configure({profiler}=True)"
        before = " before the import of decorated functions" if profiler == "timers" else ""
        return f"{profiler} are off, so {_USES[profiler]}: {fix}{before}"
    if getattr(settings, profiler) and "enable" not in settings.chosen:
        return (
            f"{profiler} are on ({variable}), but the master switch is off, "
            f"so {_USES[profiler]}: {MASTER_FIX}"
        )
    return ""


def _caller_level() -> int:
    """The `stacklevel` with which `warn_once` reaches the code that called this package."""
    # `warnings.warn` leaves out the frames of an import, and so does this count.
    frame: Optional[FrameType] = sys._getframe(1)
    level = 0
    while frame is not None:
        name = frame.f_code.co_filename
        if not ("importlib" in name and "_bootstrap" in name):
            level += 1
            if not name.startswith(_PACKAGE):
                break
        frame = frame.f_back
    return level


DIAGNOSTICS = Diagnostics()
