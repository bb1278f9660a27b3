"""What the file of a run gets of epochs: each value as recorded, in order, with or without a node."""

import json
import os
import random
import tempfile
import unittest

from plimsoll import epochs, limits

from .listening import enter, run, unix_socket

START = "import os, random, sys, plimsoll\n"


class Epochs(unittest.TestCase):
    """Real interpreters, each with a file as `plimsoll run` makes it."""

    def setUp(self):
        self.listening = enter(self, unix_socket())
        self.path = os.path.join(enter(self, tempfile.TemporaryDirectory()), "epochs.jsonl")
        open(self.path, "w").close()

    def run_script(self, script, socket=None):
        address = socket or self.listening.path
        return run(START + script, address, PLIMSOLL_EPOCHS_FILE=self.path)

    def lines(self):
        with open(self.path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def epochs(self):
        return [(of["operation"], of["ns"]) for of in self.lines() if "ns" in of]

    def test_any_values_are_written_as_recorded_and_in_order(self):
        seed = random.Random(7)
        values = [seed.randrange(1, 10**12) for _ in range(3_000)]
        script = f"for value in {values}: plimsoll.record_ns('epoch_hook', value)"
        # Also without a node: then they wait in the process until it ends.
        for socket in (None, "/absent/node.sock"):
            open(self.path, "w").close()
            self.run_script(script, socket)
            self.assertEqual(self.epochs(), [("epoch_hook", value) for value in values])
            peaks = [of["peak_resident_bytes"] for of in self.lines() if "ns" not in of]
            self.assertEqual(len(peaks), 1)
            self.assertGreater(peaks[0], 1_000_000)

    def test_epochs_and_cycles_alone_are_written(self):
        names = {
            "epoch": True,
            "train_epoch": True,
            "epoch_hook": True,
            "cycle": True,
            "epoch_hook.forward": False,
            "step": False,
        }
        sizes = "plimsoll.distribution('epoch', unit='bytes').record(4096)"
        self.run_script(f"{sizes}\nfor name in {list(names)}: plimsoll.record_ns(name, 5)")
        written = [name for name, is_written in names.items() if is_written]
        self.assertCountEqual(self.epochs(), [(name, 5) for name in written])

    def test_forked_processes_write_whole_lines_and_no_epoch_twice(self):
        self.run_script(
            """
import multiprocessing

def work(first):
    for n in range(500):
        plimsoll.record_ns("epoch", first + n)

context = multiprocessing.get_context("fork")
work(10_000)
workers = [context.Process(target=work, args=(first,)) for first in (20_000, 30_000)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
"""
        )
        by_process = {}
        for line in self.lines():
            if "ns" in line:
                by_process.setdefault(line["process"], []).append(line["ns"])
        first = (10_000, 20_000, 30_000)
        expected = [list(range(of, of + 500)) for of in first]
        self.assertCountEqual(by_process.values(), expected)

    def test_a_process_writes_a_bounded_number_and_that_it_was_more(self):
        count = limits.EPOCHS_MAX + 5
        self.run_script(f"for n in range({count}): plimsoll.record_ns('epoch', n)")
        self.assertEqual(self.epochs(), [("epoch", n) for n in range(limits.EPOCHS_MAX)])
        full = [of["full"] for of in self.lines() if "full" in of]
        self.assertEqual(full, [limits.EPOCHS_MAX])

    def test_a_file_that_is_gone_costs_a_warning_and_no_sample(self):
        os.remove(self.path)
        printed = self.run_script("for n in range(3): plimsoll.record_ns('epoch', 5)")
        self.assertEqual(printed.count("PLIMSOLL_EPOCHS_FILE: epochs are no longer written"), 1)
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual(self.listening.read().counts(), {"epoch": 3})

    def test_without_the_variable_nothing_is_written(self):
        self.assertIsNone(epochs.EPOCHS)
        run(START + "plimsoll.record_ns('epoch', 5)", self.listening.path)
        self.assertEqual(self.lines(), [])


if __name__ == "__main__":
    unittest.main()
