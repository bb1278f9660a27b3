//! A message that was never sent: it has no seq and no bytes yet, so it may still be merged
//! with another one. Merging adds samples and counters exactly and gives up only the time at
//! which each was taken.

pub(crate) mod events;

use std::collections::BTreeMap;

use crate::limits::COALESCED_BYTES_MAX;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::limits::wire::{INTERVAL_NS_MAX, SAMPLES_MAX, SERIES_MAX};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{Body, Latency};

/// An upper bound of the bytes one bucket takes: six for its count, three for the gap before.
const BUCKET_BYTES: usize = 9;
/// An upper bound of the bytes that one limit takes: three numbers, and its part of the name.
const OVER_BYTES: usize = 36;
/// An upper bound of the bytes around what is said of samples that may lie elsewhere.
const BLUR_BYTES: usize = 96;
/// An upper bound of the bytes around a series: field names, numbers, HDR header.
const SERIES_BYTES: usize = 256;
/// An upper bound of the bytes of a header without labels and a bus body, whose reasons are all
/// our own.
const HEADER_BYTES: usize = 1_024;

/// Names the content of a draft; one that has taken in another has a new name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftId(pub u64);

/// Gives each name once.
#[derive(Debug, Default)]
pub struct DraftIds(u64);

impl DraftIds {
    /// A name that was never given before.
    pub fn give(&mut self) -> DraftId {
        self.0 += 1;
        DraftId(self.0)
    }
}

/// One message before it is sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What it will carry.
    pub body: Body,
    /// Begin of its interval.
    pub start: Wall,
    /// Length of its interval.
    pub length_ns: u64,
    /// What the node was called by when its samples were taken: a later incarnation that sends
    /// it may be called otherwise.
    pub labels: Labels,
    /// True for the farewell.
    pub last: bool,
    /// When its oldest part came to be.
    pub enqueued: Mono,
    /// When its newest part did.
    pub latest: Mono,
    /// Its name, once it is in the outbox.
    pub id: DraftId,
    size: Size,
}

/// What a body takes, in memory and at most on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    samples: u64,
    series: usize,
    wire_bytes: usize,
    heap_bytes: usize,
}

impl Draft {
    /// A message about the interval that began at `start`.
    #[must_use]
    pub fn new(body: Body, start: Wall, length_ns: u64, enqueued: Mono) -> Self {
        let size = Size::of(&body);
        Self {
            body,
            start,
            length_ns: length_ns.max(1),
            labels: Labels::default(),
            last: false,
            enqueued,
            latest: enqueued,
            id: DraftId::default(),
            size,
        }
    }

    /// The same message, of a node with these labels.
    #[must_use]
    pub fn labelled(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    /// The same message, marked as the node's last.
    #[must_use]
    pub fn farewell(self) -> Self {
        Self { last: true, ..self }
    }

    /// Samples that it carries.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.size.samples
    }

    /// Bytes that it stands for: those in memory, or on the wire where that may be more.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(label_bytes).sum();
        HEADER_BYTES + labels + self.size.wire_bytes.max(self.size.heap_bytes)
    }

    /// Critical messages may take the tokens that are reserved.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.last
    }

    /// True when it carries samples, counters or gauges, none of which may be left out.
    #[must_use]
    pub fn is_latency(&self) -> bool {
        matches!(self.body, Body::Latency(_))
    }

    /// True when a newer one of its kind takes its place.
    #[must_use]
    pub fn is_state(&self) -> bool {
        matches!(self.body, Body::Hardware(_) | Body::Bus(_))
    }

    /// Takes in `newer`, which came after it, unless one message could not hold both or their
    /// samples belong to other labels.
    ///
    /// # Errors
    /// Gives `newer` back when it does not fit; then no larger one will either.
    pub fn try_join(&mut self, newer: Self) -> Result<(), Box<Self>> {
        let ((start, length_ns), latest) = (self.span(&newer), newer.latest);
        let both = self.size.plus(newer.size);
        let other = self.labels != newer.labels;
        if other || length_ns > INTERVAL_NS_MAX || both.samples > SAMPLES_MAX {
            return Err(Box::new(newer));
        }
        let (Body::Latency(ours), Body::Latency(theirs)) = (&mut self.body, &newer.body) else {
            return Err(Box::new(newer));
        };
        if both.fits() {
            let Body::Latency(theirs) = newer.body else { return Err(Box::new(newer)) };
            join(ours, theirs);
        } else {
            // What two have in common counts once, which only the sum itself can tell.
            let mut joined = ours.clone();
            join(&mut joined, theirs.clone());
            if !Size::of_latency(&joined).fits() {
                return Err(Box::new(newer));
            }
            *ours = joined;
        }
        self.size = Size::of(&self.body);
        self.latest = self.latest.max(latest);
        (self.start, self.length_ns) = (start, length_ns);
        Ok(())
    }

    /// From the earlier beginning to the later end.
    fn span(&self, newer: &Self) -> (Wall, u64) {
        let start = self.start.min(newer.start);
        let end = |draft: &Self| draft.start.0.saturating_add(draft.length_ns);
        (start, end(self).max(end(newer)) - start.0)
    }
}

impl Size {
    fn of(body: &Body) -> Self {
        match body {
            Body::Latency(latency) => Self::of_latency(latency),
            Body::Hardware(hardware) => {
                let bytes = hardware.readings.iter().map(|reading| {
                    let labels: usize = reading.labels.iter().map(label_bytes).sum();
                    reading.sensor.len() + labels + SERIES_BYTES
                });
                let bytes = bytes.sum();
                Self { wire_bytes: bytes, heap_bytes: bytes, ..Self::default() }
            }
            Body::Bus(_) => Self::default(),
            Body::Event(events) => {
                let bytes = events.events.iter().map(events::bytes).sum();
                Self { wire_bytes: bytes, heap_bytes: bytes, ..Self::default() }
            }
        }
    }

    fn of_latency(latency: &Latency) -> Self {
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

    fn plus(self, other: Self) -> Self {
        Self {
            samples: self.samples.saturating_add(other.samples),
            series: self.series + other.series,
            wire_bytes: self.wire_bytes + other.wire_bytes,
            heap_bytes: self.heap_bytes + other.heap_bytes,
        }
    }

    fn fits(self) -> bool {
        self.wire_bytes <= COALESCED_BYTES_MAX && self.series <= SERIES_MAX
    }
}

/// Adds what is newer: samples and amounts add up, of two gauges the newer holds.
fn join(older: &mut Latency, newer: Latency) {
    join_series(&mut older.histograms, newer.histograms, |ours, theirs| ours.merge(&theirs));
    // Two finite numbers may add up to infinity, which the wire refuses.
    join_series(&mut older.counters, newer.counters, |ours, theirs| {
        *ours = (*ours + theirs).clamp(f64::MIN, f64::MAX);
    });
    join_series(&mut older.gauges, newer.gauges, |ours, theirs| *ours = theirs);
}

fn join_series<V>(older: &mut Vec<(Series, V)>, newer: Vec<(Series, V)>, add: impl Fn(&mut V, V)) {
    let mut joined: BTreeMap<Series, V> = std::mem::take(older).into_iter().collect();
    for (series, theirs) in newer {
        match joined.get_mut(&series) {
            Some(ours) => add(ours, theirs),
            None => drop(joined.insert(series, theirs)),
        }
    }
    *older = joined.into_iter().collect();
}

/// An upper bound of the bytes of a series without its buckets.
pub(super) fn name_bytes(series: &Series) -> usize {
    let labels: usize = series.labels.iter().map(label_bytes).sum();
    series.operation.as_str().len() + labels + SERIES_BYTES
}

/// An upper bound of the bytes of one label.
fn label_bytes((key, value): (&str, &str)) -> usize {
    key.len() + value.len() + 6
}

/// An upper bound of the bytes of a histogram's buckets, and of what is known beside them.
pub(super) fn histogram_bytes(histogram: &Histogram) -> usize {
    let buckets = histogram.counts().iter().count();
    let blur = histogram.blur().map_or(0, |blur| BLUR_BYTES + blur.buckets() * BUCKET_BYTES);
    buckets * BUCKET_BYTES + blur + histogram.overs().limits().len() * OVER_BYTES
}

#[cfg(test)]
mod tests;
