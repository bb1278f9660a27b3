//! Splits latencies into parts that each fit into one message.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::limits::wire::SERIES_MAX;
use plimsoll_schemas::wire::Latency;

/// Bytes of one bucket: six for its count, three for the gap before it.
const BUCKET_BYTES: usize = 9;
/// Bytes of one limit: three numbers, and its part of the field name.
const OVER_BYTES: usize = 36;
/// Bytes around the bucket uncertainty of a histogram.
const UNCERTAINTY_BYTES: usize = 96;
/// Bytes around a series: field names, numbers, HDR header.
pub(super) const SERIES_BYTES: usize = 256;
/// Bytes around one label.
pub(super) const LABEL_BYTES: usize = 6;

/// Splits `latency` into parts whose bodies are at most `bytes` long, save that of a series which
/// is longer by itself; returns nothing when it holds nothing.
pub(crate) fn split(latency: Latency, bytes: usize) -> Vec<Latency> {
    let mut parts = Parts { bytes_max: bytes, ..Parts::default() };
    for entry in latency.histograms {
        let bytes = name_bytes(&entry.0) + histogram_bytes(&entry.1);
        parts.with_room(bytes).histograms.push(entry);
    }
    for entry in latency.counters {
        parts.with_room(name_bytes(&entry.0)).counters.push(entry);
    }
    for entry in latency.gauges {
        parts.with_room(name_bytes(&entry.0)).gauges.push(entry);
    }
    parts.parts
}

#[derive(Default)]
struct Parts {
    bytes_max: usize,
    parts: Vec<Latency>,
    /// Bytes and series of the last part.
    bytes: usize,
    series: usize,
}

impl Parts {
    /// The part that has room for one more series of `bytes`.
    fn with_room(&mut self, bytes: usize) -> &mut Latency {
        let fits = self.bytes + bytes <= self.bytes_max && self.series < SERIES_MAX;
        if self.parts.is_empty() || !fits {
            self.parts.push(Latency::default());
            (self.bytes, self.series) = (0, 0);
        }
        self.bytes += bytes;
        self.series += 1;
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }
}

/// Upper bound of the bytes of a series without its buckets.
fn name_bytes(series: &Series) -> usize {
    series.operation.as_str().len() + labels_bytes(&series.labels) + SERIES_BYTES
}

/// Upper bound of the bytes of the buckets, the bucket uncertainty and the counts over limits of a
/// histogram.
fn histogram_bytes(histogram: &Histogram) -> usize {
    let buckets = histogram.counts().iter().count();
    let rows = |buckets: usize| UNCERTAINTY_BYTES + buckets * BUCKET_BYTES;
    let uncertainty = histogram.uncertainty().map_or(0, |of| rows(of.buckets()));
    buckets * BUCKET_BYTES + uncertainty + histogram.overs().limits().len() * OVER_BYTES
}

pub(super) fn labels_bytes(labels: &Labels) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len() + LABEL_BYTES).sum()
}
