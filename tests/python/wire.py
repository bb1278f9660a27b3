"""Reads a Plimsoll message, wire version 1, with msgpack and hdrhistogram from PyPI alone.

A message is one MessagePack map with named fields; fields not named here are skipped:

    schema       1
    kind         "latency", "hardware", "bus", "event" or "interval": what the body is
    node         the sender
    incarnation  the run of the node: its start in nanoseconds since 1970
    seq          number of the message within the incarnation, from 1
    start_ns     begin of the interval, nanoseconds since 1970
    length_ns    length of the interval
    recorded     samples in all messages of this incarnation up to this one
    lost         of those, samples given up: {reason: samples}
    last         true on the last message of an orderly end
    successor         the incarnation that reports this one, which ended without a final_message
    labels       of the node itself: {key: value}; absent without, and without samples
    body         latency:  histograms, and counters and gauges of {operation, labels, value}
                 hardware: readings of {sensor, labels, state, value}; only "ok" has a value
                 bus:      counters of the node's way to its broker, round_trip_ns perhaps nil
                 event:    events of {source, title, text, alert_type, low_priority, at, host,
                           aggregation_key, labels}, oldest first
                 interval: {latency, hardware, bus, event}: a body of each, those that there are

Hardware has a number as its set, and all readings or changed: [[place, value], ..] of those in the
set of that number whose value is no longer the same. A node without a set always has all readings.

An event is an "event" or a "service_check" of a job, at a time in nanoseconds since 1970. Its
alert_type is "info", "success", "warning" or "error"; on a check these are unknown, ok, warning
and critical. What is empty or false in it is absent.

A histogram is {operation, labels, unit: "ns", count, sum_ns, sum_carry, min_ns, max_ns, hdr}.
The figures are exact; the sum is sum_carry * 2**64 + sum_ns, and sum_carry may be absent. hdr
holds the standard HdrHistogram V2 bytes, uncompressed: 1 us to 1 h in ns, 3 digits. Of limits
that the node had, it has over: [[limit_ns, over, uncertain], ..], at most 4, ascending: this many
samples are above the limit, and of so many more in the limit's own bucket that is not known.

Samples of which only a wide bucket is known are counted somewhere in it, and the histogram has
uncertainty: {placed, low, high, sum_ns, sum_carry, over}. placed holds the counts that may lie elsewhere
(absent: all do), low where they would be counted were each as small as it may be, high as large:
V2 payloads without the header. The sum and the samples over limits are then those in uncertainty, where
uncertain counts the samples in a bucket that the limit divides.
"""

import collections
import zlib

import msgpack
from hdrh.histogram import HdrHistogram

SCHEMA = 1
HEADER_BYTES = 40
MAX_NS = 3_600_000_000_000


def read(message):
    """The message as a dict; each histogram has its HdrHistogram under "hdr"."""
    fields = msgpack.unpackb(message)
    if fields["schema"] != SCHEMA:
        raise ValueError(f"schema {fields['schema']} is not {SCHEMA}")
    for histogram in parts(fields).get("latency", {}).get("histograms", []):
        uncertainty = histogram.pop("uncertainty", None)
        if uncertainty is not None:
            histogram["uncertainty"] = read_uncertainty(histogram["hdr"], uncertainty)
            histogram.update(sum_ns=uncertainty["sum_ns"], sum_carry=uncertainty.get("sum_carry", 0))
            histogram["over"] = uncertainty.get("over", [])
        histogram["sum_ns"] += histogram.pop("sum_carry", 0) << 64
        histogram["hdr"] = decode_hdr(histogram["hdr"])
    return fields


def parts(fields):
    """The bodies of a message by their kinds: one, or those of an interval."""
    return fields["body"] if fields["kind"] == "interval" else {fields["kind"]: fields["body"]}


def changed(readings, hardware):
    """Readings of a set after a later message with changes of it."""
    values = dict(hardware.get("changed", []))
    return [{**one, "value": values.get(place, one["value"])} for place, one in enumerate(readings)]


def read_uncertainty(v2_bytes, uncertainty):
    """Its rows as HdrHistograms, in the layout of the histogram that they are about."""
    payloads = {"placed": v2_bytes[HEADER_BYTES:], **uncertainty}
    rows = {}
    for row in ("placed", "low", "high"):
        payload = payloads[row]
        head = v2_bytes[:4] + len(payload).to_bytes(4, "big") + v2_bytes[8:HEADER_BYTES]
        rows[row] = decode_hdr(head + payload)
    return rows


def decode_hdr(v2_bytes):
    """The library takes V2 bytes deflated only, so they are deflated first."""
    return HdrHistogram.decode(zlib.compress(v2_bytes), b64_wrap=False)


def quantile(histogram, permille):
    """Upper end of the bucket with the sample of rank ceil(q * count), cut to the largest.

    The library rounds a percentile to the nearest rank; given rank / count, it cannot.
    """
    count = histogram["count"]
    if count == 0:
        return 0
    rank = max(1, -(-permille * count // 1000))
    return min(histogram["hdr"].get_value_at_percentile(100.0 * rank / count), histogram["max_ns"])


def rows_of(hdr):
    """Lowest and highest value of each bucket with samples, and how many it holds."""
    return [(hdr.get_lowest_equivalent_value(row.value_iterated_to), row.value_iterated_to,
             row.count_at_value_iterated_to) for row in hdr.get_recorded_iterator()]


def ends(histogram, end):
    """The same of all samples, were those that may lie elsewhere at their "low" or "high" end."""
    rows = collections.Counter()
    uncertainty = histogram.get("uncertainty")
    parts = [(histogram["hdr"], 1)]
    if uncertainty is not None:
        parts += [(uncertainty["placed"], -1), (uncertainty[end], 1)]
    for hdr, sign in parts:
        for lowest, highest, n in rows_of(hdr):
            rows[lowest, highest] += sign * n
    return sorted((lowest, highest, n) for (lowest, highest), n in rows.items() if n)


def bounds(histogram, permille):
    """What the sample of rank ceil(q * count) surely lies between."""
    rank = max(1, -(-permille * histogram["count"] // 1000))

    def at_rank(end):
        seen = 0
        for lowest, highest, n in ends(histogram, end):
            seen += n
            if seen >= rank:
                return lowest, highest
        return 0, 0

    return at_rank("low")[0], min(at_rank("high")[1], MAX_NS)


def over(histogram, limit_ns):
    """Samples above a limit, and how many more may be: as stated, else counted from the buckets."""
    for stated_ns, above, uncertain in histogram.get("over", []):
        if stated_ns == limit_ns:
            return above, uncertain
    if "uncertainty" not in histogram and histogram["max_ns"] <= limit_ns:
        return 0, 0
    if "uncertainty" not in histogram and histogram["min_ns"] > limit_ns:
        return histogram["count"], 0
    above = sum(n for lowest, _, n in ends(histogram, "low") if lowest > limit_ns)
    most = sum(n for _, highest, n in ends(histogram, "high") if highest > limit_ns)
    return above, most - above


def share_over(histogram, limit_ns):
    """The least and the greatest that the share of samples above a limit may be."""
    above, uncertain = over(histogram, limit_ns)
    count = histogram["count"]
    return (above / count, (above + uncertain) / count) if count else (0.0, 0.0)
