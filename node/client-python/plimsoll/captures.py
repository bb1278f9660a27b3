"""Orders of the node for stacks, memory or spans of this process, answered from inside.

For machines on which no `plimsoll-profiler` may read it from outside, and for what only the process
itself can see. `PLIMSOLL_CAPTURES=1` switches it on. A thread listens on an abstract Unix socket
with this process's number in its name, which ends with the process. The kernel states who connects:
root, the user of this process and the owner of the node's socket may order. An order and a response
are one line of JSON each; a profile follows.
"""

import gzip
import json
import os
import platform
import socket
import struct
import threading
import time
from time import perf_counter_ns as clock
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from . import limits
from .chrome_trace import trace_events
from .pprof import encode, encode_growth
from .sampler import StackSampler, is_sampling
from .spans import RINGS, Ring

NAME = "\0plimsoll-captures.{}"
RUNG = "client"
THREAD = "plimsoll-captures"
ROOT = 0
CREDENTIALS = struct.Struct("3i")
TICK_MS = 10
"""The unit of the start of a process in `/proc`, the same on every 64-bit Linux."""


def listen(node_socket: str) -> Optional[socket.socket]:
    """Listens for orders; None where the system has no such socket, or no thread to spare."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(NAME.format(os.getpid()))
        listener.listen(1)
        given = (listener, node_socket)
        threading.Thread(target=_serve, args=given, name=THREAD, daemon=True).start()
    except (OSError, RuntimeError):
        # As at the limit of threads. Telemetry must not stop a job, and the node reports it.
        return None
    return listener


def _serve(listener: socket.socket, node_socket: str) -> None:
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            # Such as too many open files; the next order may find room.
            time.sleep(1)
            continue
        with stream:
            try:
                if _may_order(stream, node_socket):
                    _answer(stream)
            except Exception:  # The thread must outlive whatever is wrong with an order.
                # The node reports a connection that ends without a response.
                continue


def _may_order(stream: socket.socket, node_socket: str) -> bool:
    _pid, user, _group = CREDENTIALS.unpack(
        stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    )
    users = {ROOT, os.geteuid()}
    try:
        users.add(os.stat(node_socket).st_uid)
    except (OSError, ValueError):
        # The node listens elsewhere: its user is not known.
        pass
    return user in users


def _answer(stream: socket.socket) -> None:
    stream.settimeout(limits.ORDER_WAIT_S)
    with stream.makefile("rb") as lines:
        order = json.loads(lines.readline(limits.ORDER_BYTES_MAX))
    state, facts, profile = captured(order)
    response = {"state": state, "facts": facts, "bytes": len(profile)}
    stream.sendall(json.dumps(response).encode() + b"\n" + profile)


def captured(order: Dict[str, Any]) -> Tuple[Any, Dict[str, Any], bytes]:
    """What becomes of an order: its state, its facts and its profile, as the node reads them.

    Raises what comes of an order that is none, such as KeyError.
    """
    if not 0 < int(order["seconds"]) <= limits.SAMPLING_S_MAX:
        raise ValueError(f"seconds: {order['seconds']}")
    kind = order.get("kind", "cpu")
    facts: Dict[str, Any] = {"rung": RUNG, "pid": os.getpid(), "command": _command()}
    facts["kind"] = kind
    alive_at = order.get("alive_at")
    if order["pid"] != os.getpid() or alive_at is not None and _started_by_ms() > alive_at:
        return {"refused": "process_not_found"}, facts, b""
    capture_of = _KINDS.get(kind)
    if capture_of is None:
        del facts["kind"]
        return {"failed": "not_supported"}, facts, b""

    capture = capture_of(order)
    facts["python"] = platform.python_version()
    facts["samples"], facts["lost"] = capture.samples, capture.lost
    failure = capture.failure
    if len(capture.profile) > limits.PROFILE_BYTES_MAX:
        failure = "too_large"
    return ({"failed": failure}, facts, b"") if failure else ("kept", facts, capture.profile)


class _Capture(NamedTuple):
    """What came of one kind of capture."""

    profile: bytes = b""
    samples: int = 0
    """Stacks, blocks of memory or spans in it."""
    lost: int = 0
    failure: str = ""
    """Why there is none, as the node names it."""


def _cpu(order: Dict[str, Any]) -> _Capture:
    seconds, hz = int(order["seconds"]), int(order["hz"])
    if is_sampling():
        return _Capture(failure="profiler_busy")
    started_ns, begun_ns = time.time_ns(), clock()
    sampler = StackSampler(seconds, hz, full_paths=bool(order.get("full_paths")))
    sampler.start()
    sampler.join()
    # This thread waits for the sampler alone, so it is none of the job's.
    stacks = {stack: count for stack, count in sampler.stacks.items() if stack.thread != THREAD}
    profile = encode(
        stacks,
        period_ns=round(1e9 / hz),
        started_ns=started_ns,
        duration_ns=clock() - begun_ns,
        comments=[f"plimsoll.rung={RUNG}"],
    )
    return _Capture(profile, sum(stacks.values()), sampler.asked_ticks - sampler.taken_ticks)


def _memory(order: Dict[str, Any]) -> _Capture:
    # Here: it loads a twentieth of all that the package does, for what few processes need.
    from .allocations import watched

    started_ns, begun_ns = time.time_ns(), clock()
    found = watched(int(order["seconds"]), bool(order.get("full_paths")))
    if found is None:
        # The job stopped tracemalloc meanwhile.
        return _Capture(failure="cancelled")
    comments = [
        f"plimsoll.rung={RUNG}",
        "plimsoll.kind=memory",
        f"plimsoll.peak_bytes={found.peak_bytes}",
        f"plimsoll.leaked_bytes={found.leaked_bytes}",
        f"plimsoll.allocations={found.blocks}",
    ]
    profile = encode_growth(found.growths, started_ns, clock() - begun_ns, comments)
    return _Capture(profile, found.blocks)


def _trace(order: Dict[str, Any]) -> _Capture:
    ring = Ring(limits.SAMPLING_S_MAX)
    RINGS.append(ring)
    try:
        time.sleep(int(order["seconds"]))
    finally:
        RINGS.remove(ring)
    spans = ring.spans()
    text = json.dumps(trace_events(spans, ring.dropped))
    return _Capture(gzip.compress(text.encode()), len(spans), ring.dropped)


_KINDS: Dict[str, Callable[[Dict[str, Any]], _Capture]] = {
    "cpu": _cpu,
    "memory": _memory,
    "trace": _trace,
}


def _command() -> str:
    with open("/proc/self/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def _started_by_ms() -> int:
    """An instant since the start of the machine by which this process had started."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[19]) + 1) * TICK_MS
