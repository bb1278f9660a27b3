"""What `node/bench/run --write` puts between the marks of the page."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

from speed.table import MARK, SECTIONS, written

FACTS = {"date": "2026-01-02", "commit": "abc", "cores": 2, "cpu": "a CPU", "kernel": "Linux 6"}
FACTS |= {"rmem_max": 1, "load": 0.1, "load_at_end": 0.2, "busy": False}


class Results(unittest.TestCase):
    def setUp(self):
        self.page = (BENCH / "RESULTS.md").read_text()

    def test_page_has_the_marks_of_each_section_once(self):
        for name in SECTIONS:
            for word in ("begins", "ends"):
                self.assertEqual(self.page.count(MARK.format(name, word)), 1, name)

    def test_section_replaces_its_own_figures_alone(self):
        rust = {"rows": [{"name": "a record", "ns": 4.25, "other": True}], "targets": []}
        sections = {"rust": rust, "intake": {"failed": "no nats-server"}}
        page = written(self.page, {"machine": FACTS, "sections": sections})
        ends = MARK.format("rust", "ends")
        self.assertIn("2026-01-02, commit abc", page.split(ends)[0])
        self.assertIn("| a record | 4.2 | 1.00 x |", page.split(ends)[0])
        self.assertEqual(page.split(ends)[1], self.page.split(ends)[1])


if __name__ == "__main__":
    unittest.main()
