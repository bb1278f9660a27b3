"""Feeds a node through our own package: what is to be sent comes as JSON on standard input.

{"operation": name, "values_ns": [..]}; the socket stands in PLIMSOLL_SOCKET. A third of the values
is recorded here, a third by a forked child, a third by a thread; nothing is flushed by hand, so
that each must bring its own home when it ends.
"""

import json
import os
import sys
import threading
from typing import List

import plimsoll


def record(operation: str, values_ns: List[int]) -> None:
    """Records each value."""
    for value_ns in values_ns:
        plimsoll.record_ns(operation, value_ns, outcome="hit")


def main() -> None:
    """Records everything and ends."""
    task = json.load(sys.stdin)
    plimsoll.configure(enable=True)
    operation, values_ns = task["operation"], task["values_ns"]
    record(operation, values_ns[0::3])
    child = os.fork()
    if child == 0:
        record(operation, values_ns[1::3])
        sys.exit(0)
    thread = threading.Thread(target=record, args=(operation, values_ns[2::3]))
    thread.start()
    thread.join()
    plimsoll.count("plimsoll_count", 7, zone="x")
    plimsoll.gauge("plimsoll_gauge", 1.25)
    _, status = os.waitpid(child, 0)
    sys.exit(status)


if __name__ == "__main__":
    main()
