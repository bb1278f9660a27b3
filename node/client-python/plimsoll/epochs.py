"""Epochs and cycles of this process, as recorded, for the file that `plimsoll run` names.

One JSON line for each, in the order in which the flush thread takes them, so a recording call does
nothing for it. A line is one write to the end of the file: processes of a run share it. What
cannot be written stops the writing and nothing else. DESIGN A198.
"""

import json
import os
from typing import Dict, Optional, Sequence

from . import limits
from .diagnostics import DIAGNOSTICS
from .memory import peak_resident_bytes

VARIABLE = "PLIMSOLL_EPOCHS_FILE"


class EpochFile:
    """The lines of one process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._process = 0
        # By operation: one that is recorded all the time leaves the others their room.
        self._left: Dict[str, int] = {}

    def write(self, operation: str, values_ns: Sequence[float]) -> None:
        """Writes latencies of an operation that is one of epochs."""
        self._begin()
        left = self._left.get(operation, limits.EPOCHS_MAX if self._has_room(operation) else 0)
        kept = values_ns[:left]
        self._left[operation] = left - len(kept)
        self._append([{"operation": operation, "ns": value} for value in kept])
        if kept and len(kept) == left:
            self._append([{"full": limits.EPOCHS_MAX, "operation": operation}])

    def _has_room(self, operation: str) -> bool:
        return operation in self._left or len(self._left) < limits.EPOCH_OPERATIONS_MAX

    def end(self) -> None:
        """The process ends: writes the most memory that it had."""
        peak = peak_resident_bytes()
        if peak is not None:
            self._append([{"peak_resident_bytes": peak}])

    def _begin(self) -> None:
        # A forked child has its own.
        if self._process != os.getpid():
            self._process, self._left = os.getpid(), {}

    def _append(self, entries: Sequence[Dict[str, object]]) -> None:
        if not (self._path and entries):
            return
        process = os.getpid()
        try:
            # Not created: without the file of `plimsoll run` nothing reads it.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                for entry in entries:
                    os.write(file, json.dumps({"process": process, **entry}).encode() + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            self._path = ""
            DIAGNOSTICS.warn_safely("epochs", f"{VARIABLE}: epochs are no longer written: {error}")


def _from_environment() -> Optional[EpochFile]:
    path = os.environ.get(VARIABLE)
    return EpochFile(path) if path else None


EPOCHS = _from_environment()


def epochs_of(operation: str) -> Optional[EpochFile]:
    """Where the latencies of an operation go besides, if they are of epochs or cycles."""
    is_epoch = operation.endswith("epoch") or (operation.startswith("epoch") and "." not in operation)
    return EPOCHS if is_epoch or operation == "cycle" else None
