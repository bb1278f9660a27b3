"""The wire is readable without our code: golden messages, read with packages from PyPI."""

import collections
import json
import pathlib
import unittest

import wire

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data" / "wire" / "v1"
HEADER = ("schema", "kind", "node", "incarnation", "seq", "start_ns", "length_ns",
          "recorded", "lost", "last")
QUANTILES = {"p50_ns": 500, "p90_ns": 900, "p99_ns": 990, "p999_ns": 999}


def messages():
    """Name, sidecar, and message read from each golden file."""
    for path in sorted(GOLDEN.glob("*.bin")):
        sidecar = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        yield path.stem, sidecar, wire.read(path.read_bytes())


def stated_parts(sidecar):
    """The bodies that a sidecar states, by their kinds."""
    return sidecar["body"].get("interval", sidecar["body"])


def histograms(sidecar, message):
    """Each histogram as stated and as decoded."""
    stated, decoded = (of.get("latency", {}).get("histograms", [])
                       for of in (stated_parts(sidecar), wire.parts(message)))
    return zip(stated, decoded, strict=True)


def known(stated, fields):
    """Those fields of a map that the sidecar states."""
    return {key: fields[key] for key in stated}


def shaped(stated, decoded):
    """Lists of maps with the fields that are stated; all else as it is."""
    if isinstance(stated, list) and stated and isinstance(stated[0], dict):
        return [known(row, one) for row, one in zip(stated, decoded, strict=True)]
    return decoded


def buckets(hdr):
    """Lowest value of each bucket with samples, and how many it holds."""
    return {
        hdr.get_lowest_equivalent_value(item.value_iterated_to): item.count_at_value_iterated_to
        for item in hdr.get_recorded_iterator()
    }


def expected_buckets(hdr, samples):
    """The same, counted from the samples that went in."""
    counts = collections.Counter()
    for value_ns, n in samples:
        counts[hdr.get_lowest_equivalent_value(value_ns)] += n
    return dict(counts)


class GoldenMessages(unittest.TestCase):
    """Each golden message against its sidecar."""

    maxDiff = None

    def each(self, check):
        """Calls check(stated, decoded) for every message, each in a subtest of its own."""
        found = list(messages())
        self.assertGreaterEqual(len(found), 10, f"golden messages are missing from {GOLDEN}")
        for name, sidecar, message in found:
            with self.subTest(name):
                check(sidecar, message)

    def test_headers_are_those_stated(self):
        def check(sidecar, message):
            self.assertEqual({key: message[key] for key in HEADER},
                             {key: sidecar[key] for key in HEADER})
            self.assertEqual(message.get("labels"), sidecar.get("labels"))
            subject = sidecar["subject"].split(".")
            self.assertEqual(subject[-2:], [message["node"], message["kind"]])

        self.each(check)

    def test_plain_parts_of_bodies_are_those_stated(self):
        def check(sidecar, message):
            bodies = stated_parts(sidecar)
            self.assertEqual(set(bodies), set(wire.parts(message)))
            for kind, stated in bodies.items():
                for part, values in stated.items():
                    if part != "histograms":
                        decoded = shaped(values, wire.parts(message)[kind][part])
                        self.assertEqual(decoded, values, (kind, part))

        self.each(check)

    def test_an_event_holds_no_field_but_those_stated(self):
        checked = []

        def check(sidecar, message):
            stated, decoded = (of.get("event", {}).get("events", [])
                               for of in (stated_parts(sidecar), wire.parts(message)))
            for stated, decoded in zip(stated, decoded, strict=True):
                later = {"later"} if sidecar.get("unknown_fields") else set()
                self.assertEqual(set(decoded), set(stated) | later)
                checked.append(stated["title"])

        self.each(check)
        self.assertGreaterEqual(len(checked), 8)

    def test_histograms_have_the_samples_and_quantiles_stated(self):
        checked = []

        def check(sidecar, message):
            for stated, decoded in histograms(sidecar, message):
                self.check_histogram(stated, decoded)
                checked.append(stated["operation"])

        self.each(check)
        self.assertGreaterEqual(len(checked), 10)

    def test_samples_over_limits_are_those_stated_and_the_truth_lies_between(self):
        checked = []

        def check(sidecar, message):
            for stated, decoded in histograms(sidecar, message):
                self.assertEqual(decoded.get("over", []), stated.get("over", []))
                self.check_over(stated, decoded)
                checked.extend(stated.get("over", []))

        self.each(check)
        self.assertGreaterEqual(len(checked), 5)

    def check_over(self, stated, decoded):
        """What is over limits: those in the message, and others."""
        known = {limit_ns: (above, uncertain) for limit_ns, above, uncertain in stated.get("over", [])}
        samples = stated.get("before", []) + stated["samples"] + stated.get("truth", [])
        for limit_ns in [*known, 18_000_000, 25_000_001]:
            truth = sum(n for value_ns, n in samples if value_ns > limit_ns)
            above, uncertain = wire.over(decoded, limit_ns)
            self.assertEqual((above, uncertain), known.get(limit_ns, (above, uncertain)))
            self.assertTrue(above <= truth <= above + uncertain, (above, uncertain, truth))
            if limit_ns in known and not uncertain and not stated.get("before"):
                count = decoded["count"] or 1
                self.assertEqual(wire.share_over(decoded, limit_ns), (truth / count, truth / count))

    def check_histogram(self, stated, decoded):
        """One histogram: its name, exact figures, quantiles, and every bucket."""
        hdr, figures = decoded["hdr"], stated["figures"]
        self.assertEqual((decoded["operation"], decoded["labels"], decoded["unit"]),
                         (stated["operation"], stated["labels"], "ns"))
        exact = {key: decoded[key] for key in ("count", "sum_ns", "min_ns", "max_ns")}
        quantiles = {key: wire.quantile(decoded, permille) for key, permille in QUANTILES.items()}
        self.assertEqual({**exact, **quantiles}, figures)
        self.assertEqual(wire.quantile(decoded, 1000), figures["max_ns"])
        self.assertEqual(hdr.get_total_count(), figures["count"])
        samples = stated.get("before", []) + stated["samples"] + stated.get("placed", [])
        self.assertEqual(buckets(hdr), expected_buckets(hdr, samples))

    def test_quantiles_known_by_wide_buckets_lie_within_what_is_stated(self):
        checked = []

        def check(sidecar, message):
            for stated, decoded in histograms(sidecar, message):
                self.assertEqual("uncertainty" in decoded, "within" in stated)
                for key, (low_ns, high_ns) in stated.get("bounds", {}).items():
                    permille = QUANTILES[key]
                    self.assertEqual(wire.bounds(decoded, permille), (low_ns, high_ns))
                    truth = sorted(stated["samples"] + stated["truth"])
                    truth = [value_ns for value_ns, n in truth for _ in range(n)]
                    value_ns = truth[-(-permille * decoded["count"] // 1000) - 1]
                    self.assertTrue(low_ns <= value_ns <= high_ns, (key, value_ns))
                    checked.append(key)

        self.each(check)
        self.assertGreaterEqual(len(checked), 8)


    def test_changed_readings_are_those_of_their_set(self):
        read = {name: wire.parts(message)["hardware"] for name, _, message in messages()
                if name in ("hardware_set", "hardware_changed")}
        whole = read["hardware_set"]
        self.assertEqual(whole["set"], read["hardware_changed"]["set"])
        values = [one["value"] for one in wire.changed(whole["readings"], read["hardware_changed"])]
        self.assertEqual(values, [0.5, 1.0, None])


class Refusals(unittest.TestCase):
    """What is no message of this version."""

    def test_another_version_is_refused(self):
        with self.assertRaisesRegex(ValueError, "schema 2 is not 1"):
            wire.read(wire.msgpack.packb({"schema": 2}))

    def test_bytes_after_the_end_are_refused(self):
        message = (GOLDEN / "latency_empty.bin").read_bytes()
        with self.assertRaises(wire.msgpack.ExtraData):
            wire.read(message + b"\0")


if __name__ == "__main__":
    unittest.main()
