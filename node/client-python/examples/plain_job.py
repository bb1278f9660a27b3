"""A job without any framework: epochs, fetches, shard reads, tokens, and figures as JSON.

    PYTHONPATH=node/client-python python node/client-python/examples/plain_job.py

Works beside a node or alone; alone it keeps what it measured until it ends. Does no real work.
"""

import argparse
import asyncio
import random
import time

import plimsoll

plimsoll.configure(enable=True)


@plimsoll.timed("epoch_hook", phase="train")
def end_of_epoch() -> None:
    """What a training loop does between two epochs."""
    time.sleep(random.uniform(0.001, 0.010))


@plimsoll.timed("shard_rows")
def rows_of(shard: str):
    """A generator: its consumer's time is not in the sample."""
    with plimsoll.read_shard(shard) as read:
        time.sleep(random.uniform(0.0005, 0.0015))
        read.size_bytes, read.rows = 65_536, 100
    yield from range(100)


@plimsoll.timed("gather")
async def gather(peer: int) -> None:
    """A coroutine: its awaits are in the sample."""
    await asyncio.sleep(random.uniform(0.001, 0.002))


async def gather_all() -> None:
    """Four peers at once."""
    await asyncio.gather(*[gather(peer) for peer in range(4)])


def fetch_kernel(name: str) -> None:
    """The outcome is known only inside the block."""
    with plimsoll.timer("kernel_fetch", outcome="hit") as fetch:
        time.sleep(0.0003)
        if name.endswith("7"):
            fetch.label(outcome="miss")


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--export", default="", help="write the run's figures to this file")
    given = parser.parse_args()
    with plimsoll.experiment("plain-job") as run:
        for epoch in range(given.epochs):
            with run.cycle():
                for shard in range(5):
                    plimsoll.count("rows", sum(1 for _ in rows_of(f"shard-{shard}.bin")))
                    fetch_kernel(f"kernel-{shard + epoch}")
                with run.time("llm_inference", class_="llm") as inference:
                    time.sleep(0.002)
                    inference.tokens(64)
                asyncio.run(gather_all())
                end_of_epoch()
                run.record_memory_snapshot()
            plimsoll.gauge("epoch", epoch)
    if given.export:
        run.export_json(given.export)
    print(plimsoll.flush())
    print(plimsoll.stats())
    print("epoch_hook in this process:", plimsoll.get_summary_stats("epoch_hook"))
    print(plimsoll.shard_summary())


if __name__ == "__main__":
    main()
