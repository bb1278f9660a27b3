"""The golden interval log is readable without our code: PyPI's hdrhistogram, and Java's library."""

import collections
import json
import pathlib
import re
import shutil
import subprocess
import unittest

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "hlog"
LOG = DATA / "latencies.hlog"
JAR = pathlib.Path("/usr/share/java/hdrhistogram.jar")
MAX_NS = 3_600_000_000_000


def tag(line):
    """The documented form: the operation, and the node if there is one."""
    return line["operation"] + (f";node={line['node']}" if "node" in line else "")


def stated():
    return json.loads((DATA / "latencies.json").read_text(encoding="utf-8"))


class Python(unittest.TestCase):
    def intervals(self):
        reader = HistogramLogReader(str(LOG), HdrHistogram(1_000, MAX_NS, 3))
        while (interval := reader.get_next_interval_histogram(absolute=True)) is not None:
            yield interval
        reader.close()

    def test_every_line_has_the_samples_that_are_stated(self):
        read = {}
        for interval in self.intervals():
            read[interval.get_tag(), round(interval.get_start_time_stamp())] = interval
        lines = stated()
        self.assertEqual(len(read), len(lines))
        for line in lines:
            interval = read[tag(line), line["start_ms"]]
            values = line["values_ns"]
            self.assertEqual(interval.get_total_count(), len(values))
            length_ms = interval.get_end_time_stamp() - interval.get_start_time_stamp()
            self.assertEqual(round(length_ms), line["length_ms"])
            for value in values:
                same = [v for v in values if interval.values_are_equivalent(v, value)]
                self.assertEqual(interval.get_count_at_value(value), len(same))


@unittest.skipUnless(JAR.exists() and shutil.which("java"), "no libhdrhistogram-java and java")
class Java(unittest.TestCase):
    def process(self, *arguments):
        command = ["java", "-cp", str(JAR), "org.HdrHistogram.HistogramLogProcessor", "-i", str(LOG)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    def test_tags_counts_and_maxima_are_those_stated(self):
        values = collections.defaultdict(list)
        for line in stated():
            values[tag(line)] += line["values_ns"]
        listed = self.process("-listtags").splitlines()[1:]
        self.assertEqual(set(listed), set(values))
        for name, of_tag in values.items():
            text = self.process("-tag", name, "-outputValueUnitRatio", "1")
            found = re.search(r"Max +=\s*([\d.]+), Total count +=\s*(\d+)", text)
            self.assertEqual(int(found[2]), len(of_tag))
            # The upper end of a bucket, which is less than 0.1 % wide.
            self.assertAlmostEqual(float(found[1]) / max(of_tag), 1.0, delta=0.001)


if __name__ == "__main__":
    unittest.main()
