"""How this process ends, as an exit handler sees it: only a job that ends in good order states so.

Reads what the interpreter and multiprocessing keep about it, and installs no hook: those belong to
the program. DESIGN N56.
"""

import enum
import sys
import threading
from types import FrameType
from typing import Optional


class Ending(enum.Enum):
    """How far the end of this process has come, and what its datagrams state about it."""

    NONE = "none"
    """It goes on."""
    FAILED = "failed"
    """An unhandled exception ends it, or nothing shows how it ends: no final datagram."""
    IN_ORDER = "in_order"
    """It ends in good order: the final datagram follows the last values."""
    OVER = "over"
    """The exit handler is done; what is recorded now is sent under numberings of its own."""


def worker_frame() -> Optional[FrameType]:
    """The call of multiprocessing that runs a worker: it keeps the exit code. None if not found."""
    # The first value may come from any thread, but the main one has this call.
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and not _runs_worker(frame):
        frame = frame.f_back
    return frame


def _runs_worker(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return module == "multiprocessing.process" and frame.f_code.co_name == "_bootstrap"


def ending(worker: Optional[FrameType]) -> Ending:
    """How the process ends whose exit handler calls this; `worker` is of `worker_frame`."""
    has_failed = _has_exception() if worker is None else _has_exit_code(worker)
    return Ending.FAILED if has_failed else Ending.IN_ORDER


def _has_exception() -> bool:
    """Whether an exception ends the main thread. The code of a `sys.exit` is not to be seen here."""
    # Set for an unhandled exception, the second from 3.12 on. An interactive session, which has a
    # prompt, sets them for each exception, and goes on.
    kept = (getattr(sys, name, None) for name in ("last_value", "last_exc"))
    return any(error is not None for error in kept) and not hasattr(sys, "ps1")


def _has_exit_code(worker: FrameType) -> bool:
    """Whether a worker ends with another exit code than 0."""
    code = worker.f_locals.get("exitcode")
    if code is None:
        # Up to 3.12, finalizers run while the exception that ends the worker passes through.
        error = sys.exc_info()[1]
        return not isinstance(error, SystemExit) or error.code not in (None, 0)
    return bool(code != 0)
