"""Reads a Plimsoll message, wire version 1, with msgpack and hdrhistogram from PyPI alone.

A message is one MessagePack map with named fields; fields not named here are skipped:

    schema       1
    kind         "latency", "hardware", "bus" or "event": what the body is
    node         who speaks
    incarnation  the run of the node: its start in nanoseconds since 1970
    seq          number of the message within the incarnation, from 1
    start_ns     begin of the interval, nanoseconds since 1970
    length_ns    length of the interval
    recorded     samples in all messages of this incarnation up to this one
    lost         of those, samples given up: {reason: samples}
    last         true on the last message of an orderly end
    heir         the incarnation that says this for one which ended without a farewell, if so
    labels       of the node itself: {key: value}; absent without, and on all but "latency"
    body         latency:  histograms, and counters and gauges of {operation, labels, value}
                 hardware: readings of {sensor, labels, state, value}; only "ok" has a value
                 bus:      counters of the node's way to its broker, round_trip_ns perhaps nil
                 event:    events of {source, title, text, alert_type, low_priority, at, host,
                           aggregation_key, labels}, oldest first

An event is an "event" or a "service_check" of a job, at a time in nanoseconds since 1970. Its
alert_type is "info", "success", "warning" or "error"; on a check these are unknown, ok, warning
and critical. What is empty or false in it is absent.

A histogram is {operation, labels, unit: "ns", count, sum_ns, sum_carry, min_ns, max_ns, hdr}.
The figures are exact; the sum is sum_carry * 2**64 + sum_ns, and sum_carry may be absent. hdr
holds the standard HdrHistogram V2 bytes, uncompressed: 1 us to 1 h in ns, 3 digits. Of limits
that the node knew it has over: [[limit_ns, over, unsure], ..], at most 4, ascending: so many
samples are above the limit, and of so many more in the limit's own bucket that is not known.
"""

import zlib

import msgpack
from hdrh.histogram import HdrHistogram

SCHEMA = 1


def read(message):
    """The message as a dict; each histogram has its HdrHistogram under "hdr"."""
    fields = msgpack.unpackb(message)
    if fields["schema"] != SCHEMA:
        raise ValueError(f"schema {fields['schema']} is not {SCHEMA}")
    for histogram in fields["body"].get("histograms", []):
        histogram["sum_ns"] += histogram.pop("sum_carry", 0) << 64
        histogram["hdr"] = decode_hdr(histogram["hdr"])
    return fields


def decode_hdr(v2_bytes):
    """The library takes V2 bytes deflated only, so they are deflated first."""
    return HdrHistogram.decode(zlib.compress(v2_bytes), b64_wrap=False)


def quantile(histogram, permille):
    """Upper end of the bucket with the sample of rank ceil(q * count), cut to the largest.

    The library rounds a percentile to the nearest rank; asked for rank / count, it cannot.
    """
    count = histogram["count"]
    if count == 0:
        return 0
    rank = max(1, -(-permille * count // 1000))
    return min(histogram["hdr"].get_value_at_percentile(100.0 * rank / count), histogram["max_ns"])


def over(histogram, limit_ns):
    """Samples above a limit, and how many more may be: as told, else counted from the buckets."""
    for told_ns, above, unsure in histogram.get("over", []):
        if told_ns == limit_ns:
            return above, unsure
    if histogram["max_ns"] <= limit_ns:
        return 0, 0
    if histogram["min_ns"] > limit_ns:
        return histogram["count"], 0
    hdr = histogram["hdr"]
    last_ns = hdr.get_highest_equivalent_value(limit_ns)
    rows = [(row.value_iterated_to, row.count_at_value_iterated_to)
            for row in hdr.get_recorded_iterator()]
    above = sum(n for value_ns, n in rows if value_ns > last_ns)
    return above, 0 if last_ns == limit_ns else hdr.get_count_at_value(limit_ns)


def share_over(histogram, limit_ns):
    """The least and the greatest that the share of samples above a limit may be."""
    above, unsure = over(histogram, limit_ns)
    count = histogram["count"]
    return (above / count, (above + unsure) / count) if count else (0.0, 0.0)
