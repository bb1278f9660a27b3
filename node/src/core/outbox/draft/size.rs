//! Upper bounds of what a draft takes, in memory and on the wire, so that no merge makes a message
//! that is too large to send.

use crate::limits::COALESCED_BYTES_MAX;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::limits::wire::SERIES_MAX;
use plimsoll_schemas::wire::{Body, Event, Latency};

/// Bytes of one bucket: six for its count, three for the gap before it.
const BUCKET_BYTES: usize = 9;
/// Bytes of one limit: three numbers, and its part of the field name.
const OVER_BYTES: usize = 36;
/// Bytes around the bucket uncertainty of a histogram.
const UNCERTAINTY_BYTES: usize = 96;
/// Bytes around a series: field names, numbers, HDR header.
const SERIES_BYTES: usize = 256;
/// Bytes of a header without labels plus a bus body, whose reasons are all constants of this
/// program.
pub(super) const HEADER_BYTES: usize = 1_024;
/// Bytes around one label.
const LABEL_BYTES: usize = 6;

/// What a body takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) samples: u64,
    series: usize,
    pub(super) wire_bytes: usize,
    heap_bytes: usize,
}

impl Size {
    pub(super) fn of(body: &Body) -> Self {
        match body {
            Body::Latency(latency) => Self::of_latency(latency),
            Body::Hardware(hardware) => {
                let bytes = hardware.readings.iter().map(|reading| {
                    reading.sensor.len() + labels_bytes(&reading.labels) + SERIES_BYTES
                });
                Self::of_bytes(bytes.sum())
            }
            Body::Bus(_) => Self::default(),
            Body::Event(events) => Self::of_bytes(events.events.iter().map(event_bytes).sum()),
        }
    }

    fn of_bytes(bytes: usize) -> Self {
        Self { wire_bytes: bytes, heap_bytes: bytes, ..Self::default() }
    }

    pub(super) fn of_latency(latency: &Latency) -> Self {
        let mut size = Self::default();
        for (series, histogram) in &latency.histograms {
            size.samples = size.samples.saturating_add(histogram.count());
            size.wire_bytes += histogram_bytes(histogram);
            size.heap_bytes += histogram.heap_bytes();
            size.add_name(series);
        }
        latency.counters.iter().for_each(|(series, _)| size.add_name(series));
        latency.gauges.iter().for_each(|(series, _)| size.add_name(series));
        size
    }

    fn add_name(&mut self, series: &Series) {
        self.series += 1;
        self.wire_bytes += name_bytes(series);
        self.heap_bytes += name_bytes(series);
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            samples: self.samples.saturating_add(other.samples),
            series: self.series + other.series,
            wire_bytes: self.wire_bytes + other.wire_bytes,
            heap_bytes: self.heap_bytes + other.heap_bytes,
        }
    }

    /// Whether one message may hold it.
    pub(super) fn fits(self) -> bool {
        self.wire_bytes <= COALESCED_BYTES_MAX && self.series <= SERIES_MAX
    }

    /// Bytes of the whole message: those in memory, or on the wire if that may be more.
    pub(super) fn message_bytes(self, labels: &Labels) -> usize {
        HEADER_BYTES + labels_bytes(labels) + self.wire_bytes.max(self.heap_bytes)
    }
}

/// Bytes of a series without its buckets.
pub(super) fn name_bytes(series: &Series) -> usize {
    series.operation.as_str().len() + labels_bytes(&series.labels) + SERIES_BYTES
}

/// Bytes of the buckets, the bucket uncertainty and the counts over limits of a histogram.
pub(super) fn histogram_bytes(histogram: &Histogram) -> usize {
    let buckets = histogram.counts().iter().count();
    let rows = |buckets: usize| UNCERTAINTY_BYTES + buckets * BUCKET_BYTES;
    let uncertainty = histogram.uncertainty().map_or(0, |of| rows(of.buckets()));
    buckets * BUCKET_BYTES + uncertainty + histogram.overs().limits().len() * OVER_BYTES
}

/// Bytes of one event.
pub(super) fn event_bytes(event: &Event) -> usize {
    let texts = [&event.title, &event.text, &event.host, &event.aggregation_key];
    let texts: usize = texts.into_iter().map(String::len).sum();
    labels_bytes(&event.labels) + texts + SERIES_BYTES
}

fn labels_bytes(labels: &Labels) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len() + LABEL_BYTES).sum()
}
