//! What of a hardware sample a message needs: all readings at first, once a minute, when a sensor
//! or its state has changed, and when an aggregator asks for them; else only changed values.
//!
//! Owns the set that was sent last. Changes count from that set, not from the message before, so
//! that any of them may be superseded, dropped or overtaken and the next one still holds all.
//!
//! DESIGN N64.

use std::collections::BTreeSet;

use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::Hardware;

use crate::limits::ALL_READINGS_EVERY;

/// The set that was sent last, and where it no longer holds.
#[derive(Debug, Default)]
pub struct SentReadings {
    /// Its number; 0 before the first.
    set: u64,
    readings: Vec<Reading>,
    /// Places of values that have changed since.
    changed: BTreeSet<u32>,
    sent_at: Mono,
    /// True when the set may be missing at an aggregator.
    is_missing: bool,
}

impl SentReadings {
    /// The next message with the readings of a sample.
    pub fn next(&mut self, now: Mono, readings: Vec<Reading>) -> Hardware {
        let is_due = now.since(self.sent_at) >= ALL_READINGS_EVERY;
        if self.set == 0 || is_due || self.is_missing || !self.has_only_other_values(&readings) {
            *self = Self {
                set: self.set + 1,
                readings: readings.clone(),
                sent_at: now,
                ..Self::default()
            };
            return Hardware { readings, set: self.set, changed: Vec::new() };
        }

        // A value that differed once stays in, although it may be as in the set again: an
        // aggregator that applied the message before must be put back.
        let both = (0..).zip(self.readings.iter().zip(&readings));
        let differ = both.filter(|(_, (sent, read))| sent.value != read.value);
        self.changed.extend(differ.map(|(place, _)| place));

        let value = |place: &u32| {
            let reading = readings.get(usize::try_from(*place).ok()?)?;
            Some((*place, reading.value?))
        };

        let changed = self.changed.iter().filter_map(value).collect();
        Hardware { readings: Vec::new(), set: self.set, changed }
    }

    /// The set may not have reached every aggregator: the next message has all readings.
    pub fn on_missing(&mut self) {
        self.is_missing = true;
    }

    /// Whether the same sensors have the same states, in the same order.
    fn has_only_other_values(&self, readings: &[Reading]) -> bool {
        let is_alike = |(sent, read): (&Reading, &Reading)| {
            let of = |reading: &Reading| (reading.state, reading.value.is_some());
            sent.sensor == read.sensor
                && sent.labels == read.labels
                && of(sent) == of(read)
                && sent.reason == read.reason
        };
        self.readings.len() == readings.len() && self.readings.iter().zip(readings).all(is_alike)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{CPU_CORE_USAGE_RATIO, LOAD1, MissingReading};
    use plimsoll_schemas::ids::Labels;
    use plimsoll_schemas::wire::apply_changes;
    use proptest::prelude::*;

    use super::*;

    fn core(core: usize, value: f64) -> Reading {
        let labels = Labels::new([("core", core.to_string())]).unwrap();
        Reading::ok(&CPU_CORE_USAGE_RATIO, labels, value)
    }

    fn cores(values: &[f64]) -> Vec<Reading> {
        values.iter().enumerate().map(|(n, value)| core(n, *value)).collect()
    }

    fn at(second: u64) -> Mono {
        Mono(second * 1_000_000_000)
    }

    #[test]
    fn only_what_has_changed_since_the_whole_set_follows_it() {
        let mut sent = SentReadings::default();
        let first = sent.next(at(1), cores(&[0.1, 0.2, 0.3]));
        assert_eq!((first.set, first.readings), (1, cores(&[0.1, 0.2, 0.3])));
        let mut changes = |second, values: &[f64]| {
            let next = sent.next(at(second), cores(values));
            assert!(next.is_change());
            (next.set, next.changed)
        };
        assert_eq!(changes(2, &[0.1, 0.2, 0.3]), (1, vec![]));
        assert_eq!(changes(3, &[0.1, 0.9, 0.3]), (1, vec![(1, 0.9)]));
        assert_eq!(changes(4, &[0.1, 0.2, 0.4]), (1, vec![(1, 0.2), (2, 0.4)]), "it went back");
        assert!(!sent.next(at(61), cores(&[0.1])).is_change(), "a minute later");
    }

    #[test]
    fn a_sensor_that_comes_goes_fails_or_moves_makes_a_new_set() {
        let load = |value| Reading::ok(&LOAD1, Labels::default(), value);
        let failed =
            |reason| Reading::absent(&LOAD1, Labels::default(), MissingReading::failed(reason));
        let mut sent = SentReadings::default();
        let mut set = |readings: &[Reading]| sent.next(at(1), readings.to_vec()).set;
        for (set_is, readings) in [
            (1, vec![load(1.0), core(0, 1.0)]),
            (1, vec![load(2.0), core(0, 2.0)]),
            (2, vec![core(0, 2.0), load(2.0)]),
            (3, vec![core(0, 2.0)]),
            (4, vec![core(0, 2.0), failed("io_error")]),
            (4, vec![core(0, 3.0), failed("io_error")]),
            (5, vec![core(0, 3.0), failed("timeout")]),
            (6, vec![core(0, 3.0), load(1.0)]),
        ] {
            assert_eq!(set(&readings), set_is, "{readings:?}");
        }
        sent.on_missing();
        let next = sent.next(at(1), vec![core(0, 3.0), load(1.0)]);
        assert_eq!((next.set, next.readings.len()), (7, 2));
    }

    proptest! {
        #[test]
        fn the_set_and_any_later_changes_of_it_are_the_sample(
            samples in proptest::collection::vec(proptest::collection::vec(0..3_u8, 4), 1..40),
        ) {
            let mut sent = SentReadings::default();
            let mut whole = Vec::new();
            for (second, values) in (1..).zip(&samples) {
                let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                let Hardware { readings, changed, .. } = sent.next(at(second), cores(&values));
                if !readings.is_empty() {
                    whole = readings;
                }
                let mut known = whole.clone();
                apply_changes(&mut known, &changed);
                prop_assert_eq!(known, cores(&values));
            }
        }
    }
}
