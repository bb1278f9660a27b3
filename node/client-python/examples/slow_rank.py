"""Ranks in step, and one of them slow: what a straggler rule names, planted.

    torchrun --standalone --nproc-per-node 4 slow_rank.py --slow-rank 2 --slow-in compute

The ranks wait for each other after each step, as in synchronous training: with PyTorch by an
all-reduce of gloo (`--barrier gloo`), otherwise over sockets, for which RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT are enough. The slow rank needs `--slow-ms` more in one function:
`augment` (compute), `read_shard` (input) or `write_checkpoint` (checkpoint).
"""

import argparse
import os
import random
import socket
import tempfile
import time
from pathlib import Path
from typing import Any, List

import plimsoll

plimsoll.configure(enable=True)

MESSAGE = b"."
CONNECT_SECONDS = 60


class SocketBarrier:
    """Each rank sends a byte to the first one, which answers when it has all of them."""

    def __init__(self, rank: int, world: int) -> None:
        port = int(os.environ["MASTER_PORT"]) + 1
        address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), port)
        if rank == 0:
            with socket.create_server(address, backlog=world) as server:
                server.settimeout(CONNECT_SECONDS)
                self.peers: List[socket.socket] = [server.accept()[0] for _ in range(world - 1)]
        else:
            self.peers = [connected(address)]
        self.is_first = rank == 0

    def wait(self) -> None:
        """Returns once every rank has called it as often."""
        if not self.is_first:
            self.peers[0].sendall(MESSAGE)
            if not self.peers[0].recv(1):
                raise SystemExit("the first rank has ended")
            return
        for peer in self.peers:
            if not peer.recv(1):
                raise SystemExit("another rank has ended")
        for peer in self.peers:
            peer.sendall(MESSAGE)


def connected(address: Any) -> socket.socket:
    """A connection to the first rank, which may not listen yet."""
    end = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection(address, timeout=CONNECT_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


class GlooBarrier:
    """An all-reduce of PyTorch on the processor."""

    def __init__(self) -> None:
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        self.gradients = torch.zeros(1_000)
        self.all_reduce = torch.distributed.all_reduce

    def wait(self) -> None:
        """Returns once every rank has called it as often."""
        self.all_reduce(self.gradients)


def augment(milliseconds: float) -> None:
    """What a rank computes longer."""
    end = time.perf_counter() + random.lognormvariate(0, 0.05) * milliseconds / 1e3
    while time.perf_counter() < end:
        pass


def read_shard(milliseconds: float) -> None:
    """A rank whose input comes late waits in it."""
    time.sleep(milliseconds / 1e3)


def write_checkpoint(path: str, milliseconds: float) -> None:
    """A small file, and what a slow disk adds to it."""
    with open(path, "wb") as file:
        file.write(bytes(4_096))
    time.sleep(milliseconds / 1e3)


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300, help="how long the job runs")
    parser.add_argument("--step-ms", type=float, default=60, help="a step of a healthy rank")
    parser.add_argument("--slow-rank", type=int, default=None, help="which rank is slow, if any")
    parser.add_argument("--slow-ms", type=float, default=20, help="what it needs longer")
    parser.add_argument("--slow-in", default="compute", help="input, compute or checkpoint")
    parser.add_argument("--slow-file", type=Path, help="it is slow while this file has such a word")
    parser.add_argument("--barrier", default="sockets", choices=("sockets", "gloo"))
    given = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    barrier = GlooBarrier() if given.barrier == "gloo" else SocketBarrier(rank, world)

    with tempfile.NamedTemporaryFile(prefix="plimsoll-checkpoint-") as file:
        # All ranks take the same number of steps: one that ends early would stop the others.
        for _ in range(int(given.seconds * 1e3 / given.step_ms)):
            slow_in = slow_class(given) if rank == given.slow_rank else ""
            train_step(barrier, given.step_ms, {slow_in: given.slow_ms}, file.name)
    print(plimsoll.flush())


def slow_class(given: argparse.Namespace) -> str:
    """The class of time that the slow rank has more of now, if any."""
    if given.slow_file is None:
        return str(given.slow_in)
    try:
        return str(given.slow_file.read_text()).strip()
    except FileNotFoundError:
        return ""


def train_step(barrier: Any, step_ms: float, more: Any, checkpoint: str) -> None:
    """One step; `more` has milliseconds that a class of its time takes longer."""
    with plimsoll.step("train_step") as step:
        with step.phase("input"):
            read_shard(0.05 * step_ms + more.get("input", 0))
        with step.phase("forward", class_="compute"):
            # As where a device computes: many ranks fit on few processors.
            time.sleep(0.7e-3 * step_ms)
            augment(0.1 * step_ms + more.get("compute", 0))
        with step.phase("checkpoint"):
            write_checkpoint(checkpoint, more.get("checkpoint", 0))
        with step.phase("all_reduce", class_="sync"):
            barrier.wait()


if __name__ == "__main__":
    main()
