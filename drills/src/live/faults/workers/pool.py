"""Pools of short-lived workers: each task is timed, and a pool ends its workers with SIGTERM as soon
as the last task has returned. Prints how many tasks have returned."""

import multiprocessing
import sys
import time

import plimsoll

plimsoll.configure(enable=True)


def work(task: int) -> int:
    with plimsoll.timer("pool_task"):
        time.sleep(0.005)
    return task


if __name__ == "__main__":
    pools, workers, tasks = (int(argument) for argument in sys.argv[1:])
    returned = 0
    for _ in range(pools):
        with multiprocessing.Pool(workers) as pool:
            returned += len(pool.map(work, range(tasks), chunksize=1))
    print(returned)
