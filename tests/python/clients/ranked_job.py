"""Ranks of a job that wait for each other at each step; one is slower while a file exists.

The environment has PLIMSOLL_SOCKET. Runs until the file `stop` is in the directory; while `slow` is
there, rank 2 computes 20 ms longer in each step.
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

SLOW_RANK = 2
SLOWER_S = 0.020


def rank(number: int, ranks: int, directory: Path, up: int, down: int) -> None:
    """One process of the job, which its launcher has given a rank."""
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(ranks))
    import plimsoll

    plimsoll.configure(enable=True)
    drawn = random.Random(number)
    goes_on = True
    while goes_on:
        is_slow = number == SLOW_RANK and (directory / "slow").exists()
        with plimsoll.step("train_step") as step:
            with step.phase("input"):
                time.sleep(drawn.uniform(0.004, 0.006))
            with step.phase("compute"):
                time.sleep(drawn.uniform(0.070, 0.080) + (SLOWER_S if is_slow else 0.0))
            with step.phase("sync"):
                os.write(up, b".")
                goes_on = os.read(down, 1) == b"."
    if not plimsoll.flush(timeout_s=10.0):
        sys.exit(f"not sent: {plimsoll.stats()}")


def main() -> None:
    """Starts the ranks, and lets all of them pass the barrier of each step together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("directory", type=Path)
    given = parser.parse_args()

    arrivals, passes, children = [], [], []
    for number in range(given.ranks):
        (arrival, up), (down, past) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            rank(number, given.ranks, given.directory, up, down)
            # Handlers of the exit, such as those of the client, still run.
            sys.exit(0)
        os.close(up)
        os.close(down)
        arrivals.append(arrival)
        passes.append(past)
        children.append(child)

    goes_on = True
    while goes_on:
        if not all(os.read(arrival, 1) for arrival in arrivals):
            sys.exit("a rank has ended")
        goes_on = not (given.directory / "stop").exists()
        for past in passes:
            os.write(past, b"." if goes_on else b"s")
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
