//! Splits the latencies of an interval into parts that each fit into one message.

use plimsoll_schemas::limits::wire::{MESSAGE_BYTES_SPLIT, SERIES_MAX};
use plimsoll_schemas::wire::Latency;

use super::size::{histogram_bytes, name_bytes};

/// Splits `latency`; returns nothing when it holds nothing.
pub(crate) fn split(latency: Latency) -> Vec<Latency> {
    let mut parts = Parts::default();
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
    parts: Vec<Latency>,
    /// Bytes and series of the last part.
    bytes: usize,
    series: usize,
}

impl Parts {
    /// The part that has room for one more series of `bytes`.
    fn with_room(&mut self, bytes: usize) -> &mut Latency {
        let fits = self.bytes + bytes <= MESSAGE_BYTES_SPLIT && self.series < SERIES_MAX;
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
