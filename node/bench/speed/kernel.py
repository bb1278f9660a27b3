"""Reads from the kernel: CPU time and memory of a process, dropped datagrams of a socket."""

import os
import time
from pathlib import Path


def cpu_seconds(pid):
    """CPU seconds that all threads of a process have used, those that ended included.

    The clock that clock_getcpuclockid(3) names: nanoseconds, where /proc/PID/stat counts in
    hundredths of a second.
    """
    return time.clock_gettime((~pid << 3) | 2)


def thread_seconds(pid):
    """CPU seconds of the threads of a process that live, by name, as the scheduler counts them."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        spent = int((task / "schedstat").read_text().split()[0]) / 1e9
        found[name] = found.get(name, 0) + spent
    return found


def memory_kib(pid):
    """Resident memory of a process: `rss`, of it `anonymous` and `file`, and `pss`, which shares
    the pages of libraries among their users."""
    fields = {}
    for name in ("status", "smaps_rollup"):
        for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
            key, _, value = line.partition(":")
            if value.strip().endswith(" kB"):
                fields[key] = int(value.split()[0])
    return {
        "rss": fields["VmRSS"],
        "anonymous": fields["RssAnon"],
        "file": fields["RssFile"],
        "pss": fields["Pss"],
    }


def _udp_lines(port):
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port:
            yield fields


def udp_dropped(port):
    """Datagrams that the kernel has dropped at the sockets on this port, ever."""
    return sum(int(fields[-1]) for fields in _udp_lines(port))


def udp_waiting(port):
    """Bytes that wait in the sockets on this port."""
    return sum(int(fields[4].rpartition(":")[2], 16) for fields in _udp_lines(port))


def is_bound(port):
    """Whether a process listens on this UDP port."""
    return any(True for _ in _udp_lines(port))


def describe():
    """The machine, as far as it bears on the figures."""
    models = (
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    uname = os.uname()
    return {
        "cores": os.cpu_count(),
        "cpu": next(models, uname.machine),
        "kernel": f"{uname.sysname} {uname.release}",
        "rmem_max": int(Path("/proc/sys/net/core/rmem_max").read_text()),
        "load": os.getloadavg()[0],
    }
