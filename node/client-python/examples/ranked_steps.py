"""Steps with phases, as the ranks of a job; no line here names a rank.

    torchrun --standalone --nproc-per-node 2 node/client-python/examples/ranked_steps.py

Works beside a node or alone, and without `torchrun`: then the samples have no rank. Does no real
work.
"""

import argparse
import random
import time

import plimsoll

plimsoll.configure(enable=True)


def train_step() -> None:
    """The batch, the gradients, and their sum over all ranks: here each of them waits."""
    with plimsoll.step("train_step") as step:
        with step.phase("input"):
            time.sleep(random.uniform(0.001, 0.003))
        with step.phase("backward", class_="compute"):
            time.sleep(0.004)
            # Within the computation, and not counted in it.
            with step.phase("all_reduce", class_="sync"):
                time.sleep(0.001)
        # Outside of all phases: the phase `other`.
        time.sleep(0.0005)


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    given = parser.parse_args()
    for _ in range(given.steps):
        train_step()
    print(plimsoll.flush())
    for name, entry in plimsoll.metrics_snapshot().items():
        for series in entry["series"]:
            mean_ms = series["mean"] * 1e3
            print(f"{name:<22} {series['count']} x {mean_ms:5.2f} ms {series['labels']}")


if __name__ == "__main__":
    main()
