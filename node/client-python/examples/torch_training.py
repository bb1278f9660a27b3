"""A real PyTorch loop: worker processes read shards, epochs are timed, the model learns.

    pip install torch
    PYTHONPATH=node/client-python python node/client-python/examples/torch_training.py

Runs on a CPU. The workers of the DataLoader are processes of their own, and so clients of
their own: their reads arrive without a line of code for it. Makes its own data.
"""

import argparse
import os
import tempfile
from typing import List, Tuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import plimsoll

FEATURES = 32
ROWS_PER_SHARD = 256
Batch = Tuple[torch.Tensor, torch.Tensor]


class Shards(Dataset):
    """Files of rows; one item is one shard."""

    def __init__(self, paths: List[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Batch:
        path = self.paths[index]
        with plimsoll.read_shard(path) as read:
            features, targets = torch.load(path)
            read.size_bytes, read.rows = os.path.getsize(path), len(targets)
        return features, targets


def write_shards(folder: str, count: int) -> List[str]:
    """A line through the origin, and noise."""
    truth = torch.randn(FEATURES, 1)
    paths = []
    for number in range(count):
        features = torch.randn(ROWS_PER_SHARD, FEATURES)
        targets = features @ truth + 0.1 * torch.randn(ROWS_PER_SHARD, 1)
        paths.append(os.path.join(folder, f"shard-{number}.pt"))
        torch.save((features, targets), paths[-1])
    return paths


@plimsoll.timed("train_step")
def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    """Forward, backward, update."""
    features, targets = (part.flatten(0, 1) for part in batch)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(features), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


@plimsoll.timed("epoch_hook")
def validate(model: nn.Module, path: str) -> float:
    """What an epoch ends with: the operation of the built-in budget."""
    features, targets = torch.load(path)
    with torch.no_grad():
        return nn.functional.mse_loss(model(features), targets).item()


def main() -> None:
    """The training."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--start", choices=["fork", "spawn"], default="fork")
    parser.add_argument("--export", default="", help="write the run's figures to this file")
    given = parser.parse_args()
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with tempfile.TemporaryDirectory() as folder, plimsoll.experiment("torch") as run:
        *paths, held_out = write_shards(folder, given.shards + 1)
        loader = DataLoader(
            Shards(paths),
            batch_size=2,
            shuffle=True,
            num_workers=given.workers,
            multiprocessing_context=given.start if given.workers else None,
        )
        for epoch in range(given.epochs):
            with run.cycle():
                for batch in loader:
                    loss = train_step(model, optimizer, batch)
                    plimsoll.count("rows", batch[1].numel())
                held_out_loss = validate(model, held_out)
            plimsoll.gauge("loss", held_out_loss)
            print(f"epoch {epoch}: loss {loss:.4f}, held out {held_out_loss:.4f}")
    if given.export:
        run.export_json(given.export)
    print(plimsoll.flush())
    print(plimsoll.stats())


if not plimsoll.stats().enabled:
    print("nothing is recorded: set PLIMSOLL_ENABLE=1 and PLIMSOLL_ENABLE_TIMERS, .. (README.md)")

if __name__ == "__main__":
    main()
