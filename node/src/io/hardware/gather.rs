//! Collects readings: makes labels valid, bounds every list, counts what is left out.

use std::collections::BTreeMap;

use crate::limits::READINGS_MAX;
use plimsoll_schemas::hardware::{Reading, Sensor};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::LABEL_VALUE_BYTES_MAX;

use super::losses::Losses;
use super::scale::Raw;

/// Readings of one sample.
#[derive(Default)]
pub(super) struct Gather {
    readings: Vec<Reading>,
    skipped: u64,
}

impl Gather {
    /// One reading of a sensor that a machine has once.
    pub(super) fn put(&mut self, sensor: &Sensor, raw: Raw) {
        self.put_of(sensor, &Labels::default(), raw);
    }

    /// One reading of a sensor that a machine may have several times.
    pub(super) fn put_of(&mut self, sensor: &Sensor, labels: &Labels, raw: Raw) {
        self.readings.push(match raw {
            Ok(value) => Reading::ok(sensor, labels.clone(), value),
            Err(missing) => Reading::absent(sensor, labels.clone(), missing),
        });
    }

    /// Readings that another thread made.
    pub(super) fn append(&mut self, readings: Vec<Reading>) {
        self.readings.extend(readings);
    }

    /// Counts things that were left out.
    pub(super) fn skip(&mut self, things: usize) {
        self.skipped += things as u64;
    }

    /// Labels whose values were made to fit; without labels, it counts one thing left out.
    pub(super) fn labels(&mut self, pairs: &[(&str, &str)]) -> Option<Labels> {
        let labels = Labels::new(pairs.iter().map(|(key, value)| (key, label_value(value)))).ok();
        self.skip(usize::from(labels.is_none()));
        labels
    }

    /// Sorts things by name, each name once, at most `most` of them, the rest counted.
    pub(super) fn named<T>(
        &mut self,
        things: impl IntoIterator<Item = (String, T)>,
        most: usize,
    ) -> Vec<(String, T)> {
        let mut named = BTreeMap::new();
        for (name, thing) in things {
            let twice = named.insert(label_value(&name), thing).is_some();
            self.skip(usize::from(twice));
        }
        self.skip(named.len().saturating_sub(most));
        named.into_iter().take(most).collect()
    }

    /// The readings, where nothing can have been left out.
    pub(super) fn readings(self) -> Vec<Reading> {
        self.readings
    }

    /// The readings, as many as one message takes.
    pub(super) fn finish(mut self, losses: &Losses) -> Vec<Reading> {
        self.skip(self.readings.len().saturating_sub(READINGS_MAX));
        self.readings.truncate(READINGS_MAX);
        losses.skip(self.skipped);
        self.readings
    }
}

/// `text` without control characters and cut to what a label's value may hold.
fn label_value(text: &str) -> String {
    let mut value: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    value.truncate(value.floor_char_boundary(LABEL_VALUE_BYTES_MAX));
    value
}

#[cfg(test)]
mod tests {

    use plimsoll_schemas::hardware::LOAD1;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_sorted_distinct_and_bounded_and_the_rest_is_counted() {
        let mut gather = Gather::default();
        let things = [("c", 1), ("a", 2), ("a", 3), ("b", 4)].map(|(k, v)| (k.to_owned(), v));
        let named = gather.named(things, 2);
        assert_eq!(named, [("a".to_owned(), 3), ("b".to_owned(), 4)]);
        assert_eq!(gather.skipped, 2);
    }

    #[test]
    fn a_sample_is_cut_to_the_bound_and_the_rest_is_counted() {
        let (mut gather, losses) = (Gather::default(), Losses::default());
        (0..READINGS_MAX + 3).for_each(|_| gather.put(&LOAD1, Ok(1.0)));
        assert_eq!(gather.finish(&losses).len(), READINGS_MAX);
        assert_eq!(losses.skipped(), 3);
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_value_that_labels_accept(
            text in "\\PC*|[\\x00-\\x7f\u{80}-\u{ff}]{0,300}",
        ) {
            let value = label_value(&text);
            let labels = Labels::new([("mount", &value)]);
            prop_assert_eq!(labels.as_ref().unwrap().get("mount"), Some(value.as_str()));
        }
    }
}
