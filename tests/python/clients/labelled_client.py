"""Records 1 000 latencies of `step` under default labels, and prints their statistics as JSON.

The environment has PLIMSOLL_SOCKET and PLIMSOLL_LABELS; 600 of the calls have a role of their own.
"""

import json
import sys

import plimsoll


def main() -> None:
    """Records everything, flushes and prints."""
    plimsoll.configure(enable=True, labels={"rank": 3})
    for number in range(1_000):
        labels = {"role": "loader"} if number % 5 < 3 else {}
        plimsoll.record("step", seconds=0.002 + number * 0.0001, **labels)
    statistics = plimsoll.get_summary_stats("step")
    if not plimsoll.flush(timeout_s=10.0):
        sys.exit(f"not sent: {plimsoll.stats()}")
    json.dump(statistics, sys.stdout)


if __name__ == "__main__":
    main()
