"""Labels of a rank: from one launcher, checked, overridden, off, and in worker processes."""

import random
import unittest

from plimsoll import limits
from plimsoll.ranks import LABELS, rank_labels
from plimsoll.settings import from_environment

from .listening import run, unix_socket
from .test_labels import WORKER

TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
SLURM = {"SLURM_PROCID": "5", "SLURM_LOCALID": "0", "SLURM_NTASKS": "64"}
MPI = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
}
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def labels(*values):
    """Values of the labels in their order, without those that are None."""
    return {name: value for name, value in zip(LABELS, values) if value is not None}


class Launchers(unittest.TestCase):
    """Pure: an environment in, labels and faults out."""

    def test_one_launcher_states_all_labels(self):
        half = {"RANK": "3"}
        table = [
            ("nothing", {}, labels()),
            ("torchrun", TORCHRUN, labels("3", "1", "8")),
            ("srun", SLURM, labels("5", "0", "64")),
            ("mpirun", MPI, labels("0", "2", "4")),
            ("torchrun below srun", {**SLURM, **TORCHRUN}, labels("3", "1", "8")),
            ("mpirun in an allocation", {**MPI, **SLURM}, labels("5", "0", "64")),
            ("a rank of torchrun alone", {**SLURM, **MPI, **half}, labels("3")),
            ("a size without a rank", {**SLURM, "WORLD_SIZE": "9"}, labels("5", "0", "64")),
            ("an empty rank", {**MPI, "RANK": "", "WORLD_SIZE": "9"}, labels("0", "2", "4")),
            ("an invalid rank", {**SLURM, **TORCHRUN, "RANK": "x"}, labels(None, "1", "8")),
        ]
        for what, environment, expected in table:
            with self.subTest(what):
                self.assertEqual(dict(rank_labels(environment)[0]), expected)

    def test_only_plain_numbers_of_seven_digits_are_labels(self):
        for value in ["", "0", "7", "9999999"]:
            with self.subTest(value):
                found, faults = rank_labels({**TORCHRUN, "WORLD_SIZE": value})
                expected = labels("3", "1", value or None)
                self.assertEqual((dict(found), faults), (expected, []))
        for value in ["-1", "+1", "1.0", "1e3", " 1", "1\n", "01", "10000000", "٣", "x" * 999]:
            with self.subTest(value):
                found, [fault] = rank_labels({**TORCHRUN, "RANK": value})
                self.assertEqual(dict(found), labels(None, "1", "8"))
                self.assertTrue(fault.startswith(f"RANK={value[:40]!r} is no rank or size, so the"))
                self.assertIn("label rank is left out: write 1 to 7 digits without a lead", fault)

    def test_no_environment_mixes_launchers(self):
        chance = random.Random(7)
        variables = [(name, n) for n, names in enumerate((TORCHRUN, SLURM, MPI)) for name in names]
        for _ in range(500):
            # The value of a variable is the number of its launcher.
            chosen = dict(pair for pair in variables if chance.random() < 0.5)
            found, faults = rank_labels({name: str(number) for name, number in chosen.items()})
            ranks = [chosen[name] for name in RANKS if name in chosen]
            self.assertEqual({value for _, value in found}, {str(first) for first in ranks[:1]})
            self.assertEqual((faults, "rank" in dict(found)), ([], bool(ranks)))


class InSettings(unittest.TestCase):
    """How they go together with default labels and switches."""

    def test_labels_of_the_user_win_and_have_their_place_first(self):
        settings = from_environment({**TORCHRUN, "PLIMSOLL_LABELS": "rank=9,run=r7"})
        expected = (("rank", "9"), ("run", "r7"), ("local_rank", "1"), ("world_size", "8"))
        self.assertEqual(settings.default_labels, expected)
        in_code = from_environment(TORCHRUN).changed(labels={"world_size": 2})
        self.assertEqual(dict(in_code.default_labels), labels("3", "1", "2"))
        removed = in_code.changed(labels={"world_size": None})
        self.assertEqual(dict(removed.default_labels), labels("3", "1", "8"))
        full = ",".join(f"k{n}=v" for n in range(limits.LABELS_MAX))
        full = from_environment({**TORCHRUN, "PLIMSOLL_LABELS": full})
        first = dict(full.default_labels[: limits.LABELS_MAX])
        self.assertEqual(set(first), {f"k{n}" for n in range(limits.LABELS_MAX)})

    def test_only_off_leaves_them_out(self):
        for switch, count, faults in [("", 3, 0), ("on", 3, 0), ("off", 0, 0), ("0", 3, 1)]:
            with self.subTest(switch):
                settings = from_environment({**TORCHRUN, "PLIMSOLL_RANKS": switch})
                found = (len(settings.ranks), len(settings.invalid_variables))
                self.assertEqual(found, (count, faults))
        invalid = {**TORCHRUN, "RANK": "gold", "PLIMSOLL_RANKS": "off"}
        self.assertEqual(from_environment(invalid).invalid_variables, ())
        [fault] = from_environment({"PLIMSOLL_RANKS": "no"}).invalid_variables
        self.assertEqual(fault, "PLIMSOLL_RANKS='no' changes nothing: set PLIMSOLL_RANKS=off or on")


class Processes(unittest.TestCase):
    """Interpreters of their own."""

    def test_a_job_of_a_launcher_has_them_without_any_setting(self):
        for more, expected in [
            (TORCHRUN, "op{local_rank:1,rank:3,world_size:8}"),
            ({**TORCHRUN, "PLIMSOLL_RANKS": "off"}, "op"),
            ({**MPI, "PLIMSOLL_LABELS": "rank=7"}, "op{local_rank:2,rank:7,world_size:4}"),
        ]:
            with self.subTest(expected), unix_socket() as listening:
                script = "import plimsoll\nplimsoll.record('op', seconds=1)"
                run(script, listening.path, listening, **more)
                self.assertEqual(listening.read().counts(), {expected: 1})

    def test_a_forked_child_is_the_same_rank_and_labels_of_code_are_not_replaced(self):
        with unix_socket() as listening:
            # `WORKER` sets the labels run and rank in code.
            run(WORKER.replace("sys.argv[1]", "'fork'"), listening.path, listening, **TORCHRUN)
            rest = "world_size:8}"
            expected = {
                f"op{{local_rank:1,rank:3,run:r7,{rest}": 1,
                f"op{{local_rank:1,rank:5,run:r7,{rest}": 1,
            }
            self.assertEqual(listening.read().counts(), expected)


if __name__ == "__main__":
    unittest.main()
