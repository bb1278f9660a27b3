"""Resident memory of this process, as the kernel has it; None where it is not reported."""

import os
import sys
from typing import Optional


def resident_bytes() -> Optional[int]:
    """Resident memory of this process; None if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def peak_resident_bytes() -> Optional[int]:
    """The most resident memory that this process had at any time; None if it is not reported."""
    try:
        # Not of getrusage where there is this: a program that a larger process started by fork and
        # exec has that one's peak there.
        with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
            peak = next(line for line in status if line.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1_024
    except (OSError, ValueError, LookupError, StopIteration):
        return _peak_of_usage()


def _peak_of_usage() -> Optional[int]:
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, KiB elsewhere.
    return peak if sys.platform == "darwin" else peak * 1_024
