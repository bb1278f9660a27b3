//! Recorded and not yet sent data, merged by series, so that it does not grow with time.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use crate::limits::FRAME_BYTES_SPLIT;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::limits::wire::SAMPLES_MAX;
use plimsoll_schemas::wire::Latency;

use crate::default_labels::DefaultLabels;
use crate::directory::{Directory, UNSET};
use crate::half::Samples;

/// Bytes that an entry takes beside its names and its buckets, at most.
const ENTRY_BYTES: usize = 160;
/// Bytes that a label takes beside key and value.
const LABEL_BYTES: usize = 6;
/// Bytes that a bucket with samples takes, and the gap before it.
const BUCKET_BYTES: usize = 12;

#[derive(Default)]
pub(crate) struct Unsent {
    defaults: DefaultLabels,
    histograms: BTreeMap<u32, (Series, Histogram)>,
    counters: BTreeMap<Series, f64>,
    gauges: BTreeMap<Series, f64>,
    clamped: u64,
    /// Samples beyond what one histogram on the wire may hold.
    pub(crate) overfull: u64,
}

/// The part of the unsent data that one frame carries.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FrameLoad {
    pub(crate) latency: Latency,
    pub(crate) clamped: u64,
}

impl Unsent {
    /// Nothing unsent; every series gets these labels.
    pub(crate) fn new(defaults: DefaultLabels) -> Self {
        Self { defaults, ..Self::default() }
    }

    pub(crate) fn add(&mut self, index: u32, series: impl FnOnce() -> Series, taken: &Samples) {
        let (_, sum) = self.histograms.entry(index).or_insert_with(|| (series(), <_>::default()));
        // A histogram beyond the limit of the wire would lose its whole frame, with all other
        // series.
        if sum.count() + taken.histogram.count() > SAMPLES_MAX {
            self.overfull += taken.histogram.count();
            return;
        }
        sum.merge(&taken.histogram);
        self.clamped += taken.clamped;
    }

    /// Takes the growth of counters and the last values of gauges.
    pub(crate) fn take_numbers(&mut self, directory: &Directory) {
        for (series, counter) in &directory.counters {
            let grown = counter.swap(0, Relaxed);
            if grown > 0 {
                #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 in one flush")]
                let grown = grown as f64;
                *self.counters.entry(series.clone()).or_default() += grown;
            }
        }
        for (series, gauge) in &directory.gauges {
            let bits = gauge.swap(UNSET, Relaxed);
            if bits != UNSET {
                self.gauges.insert(series.clone(), f64::from_bits(bits));
            }
        }
    }

    /// Takes the largest load that fits one frame; `None` when nothing is unsent.
    pub(crate) fn cut(&mut self) -> Option<FrameLoad> {
        let mut load = FrameLoad::default();
        let defaults = std::mem::take(&mut self.defaults);
        let more = label_bytes(defaults.iter());
        let mut room = FRAME_BYTES_SPLIT;

        // The first entry always fits: even the largest entry fits a frame by itself.
        let mut fits = |bytes: usize, first: bool| {
            let fits = first || bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };

        let latency = &mut load.latency;
        while let Some(entry) = self.histograms.first_entry() {
            let (series, histogram) = entry.get();
            let buckets = histogram.counts().iter().count();
            let bytes = series_bytes(series) + more + buckets * BUCKET_BYTES;
            if !fits(bytes, latency.histograms.is_empty()) {
                break;
            }
            let (series, histogram) = entry.remove();
            latency.histograms.push((defaults.added_to(series), histogram));
        }

        let mut numbers = |unsent: &mut BTreeMap<Series, f64>, into: &mut Vec<(Series, f64)>| {
            while let Some(entry) = unsent.first_entry() {
                if !fits(series_bytes(entry.key()) + more, false) {
                    break;
                }
                let (series, value) = entry.remove_entry();
                into.push((defaults.added_to(series), value));
            }
        };

        numbers(&mut self.counters, &mut latency.counters);
        numbers(&mut self.gauges, &mut latency.gauges);
        load.clamped = std::mem::take(&mut self.clamped);
        self.defaults = defaults;
        (load != FrameLoad::default()).then_some(load)
    }
}

fn series_bytes(series: &Series) -> usize {
    ENTRY_BYTES + series.operation.as_str().len() + label_bytes(series.labels.iter())
}

fn label_bytes<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    labels.map(|(key, value)| key.len() + value.len() + LABEL_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::layout;
    use plimsoll_schemas::ids::{Labels, Operation, Seq};
    use plimsoll_schemas::wire::frame::{Frame, encode};

    use super::*;

    fn series(name: &str) -> Series {
        Series::plain(Operation::new(name).unwrap())
    }

    fn taken(values: impl Iterator<Item = u64>) -> Samples {
        let mut taken = Samples::default();
        values.for_each(|value| taken.record(value));
        taken
    }

    #[test]
    fn what_waits_longer_is_merged_and_does_not_grow() {
        let mut unsent = Unsent::default();
        for round in 0..100 {
            unsent.add(3, || series("epoch_hook"), &taken(round..round + 10));
        }
        let load = unsent.cut().unwrap();
        assert_eq!(load.latency.histograms.len(), 1);
        assert_eq!(load.latency.samples(), 1_000);
        assert_eq!(unsent.cut(), None);
    }

    /// The fullest histogram that there can be, many times, with the longest names.
    #[test]
    fn every_load_fits_a_frame_and_none_is_left() {
        let every_bucket = taken((0..layout::LEN).map(layout::lowest));
        let mut unsent = Unsent::default();
        for index in 0..5 {
            unsent.add(index, || series(&format!("{index}{}", "x".repeat(127))), &every_bucket);
        }
        for index in 5..400 {
            unsent.add(index, || series(&format!("small_{index}")), &taken(0..20_000));
        }
        let labels = (0..16).map(|n| (format!("{n:064}"), "v".repeat(128)));
        let labels = Labels::new(labels).unwrap();
        for index in 0..1_000 {
            let operation = Operation::new(format!("{index:0128}")).unwrap();
            unsent.counters.insert(Series { operation, labels: labels.clone() }, 1.0);
        }
        let (mut samples, mut counters) = (0, 0);
        while let Some(FrameLoad { latency, clamped }) = unsent.cut() {
            samples += latency.samples();
            counters += latency.counters.len();
            let frame =
                Frame { client: "c".repeat(64), seq: Seq(1 << 53), clamped, latency, last: false };
            assert!(encode(&frame).is_ok());
        }
        assert_eq!(samples, 5 * layout::LEN as u64 + 395 * 20_000);
        assert_eq!(counters, 1_000);
    }

    #[test]
    fn more_samples_than_the_wire_allows_are_counted() {
        let mut unsent = Unsent::default();
        let mut many = Samples::default();
        many.histogram.record_n(5, SAMPLES_MAX);
        unsent.add(0, || series("busy"), &many);
        unsent.add(0, || series("busy"), &taken(0..7));
        assert_eq!(unsent.overfull, 7);
        assert_eq!(unsent.cut().unwrap().latency.samples(), SAMPLES_MAX);
    }
}
