"""Labels of a rank: which process of a job this one is, as the job's launcher states it.

Reads the variables of one launcher and never mixes two: `torchrun` below `srun` sets both, and a
rank of the one with the size of the other describes no process. DESIGN N84.
"""

import re
from typing import List, Mapping, Tuple

from . import limits
from .names import Pair

LABELS = ("rank", "local_rank", "world_size")

# Variables in the order of LABELS. The first launcher whose rank is set counts: a script that
# exports WORLD_SIZE alone is no launcher.
_LAUNCHERS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
)

# One number has one spelling, so that no rank has two groups.
_NUMBER = re.compile(f"0|[1-9][0-9]{{0,{limits.RANK_DIGITS_MAX - 1}}}")


def rank_labels(environment: Mapping[str, str]) -> Tuple[Tuple[Pair, ...], List[str]]:
    """Labels of the first launcher found, and the faults of its values that are no numbers."""
    found = next((names for names in _LAUNCHERS if environment.get(names[0])), ())
    pairs, faults = [], []
    for label, variable in zip(LABELS, found):
        value = environment.get(variable, "")
        if _NUMBER.fullmatch(value):
            pairs.append((label, value))
        elif value:
            shown = repr(value[: limits.RANK_SHOWN_CHARS_MAX])
            digits = f"1 to {limits.RANK_DIGITS_MAX} digits without a leading zero"
            fix = f"is left out: write {digits}, or set PLIMSOLL_RANKS=off"
            faults.append(f"{variable}={shown} is no rank or size, so the label {label} {fix}")
    return tuple(pairs), faults
