//! Collects readings: makes labels valid, bounds every list, counts what is left out.

use std::collections::BTreeMap;

use crate::limits::READINGS_MAX;
use plimsoll_schemas::hardware::{Reading, SENSORS_UNREAD, Sensor};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::labelled;
use plimsoll_schemas::limits::wire::LABEL_VALUE_BYTES_MAX;

use super::scale::Raw;

labelled! {
    /// What a machine may have more of than is read, and of what some may hang.
    pub(super) enum List {
        BlockDevices = "block_devices",
        Cores = "cores",
        FileSystems = "file_systems",
        Gpus = "gpus",
        Interfaces = "interfaces",
        Processes = "processes",
        Readings = "readings",
        Thermometers = "thermometers",
    }
}

#[derive(Default)]
pub(super) struct Gather {
    readings: Vec<Reading>,
    /// How many of each list are not read.
    left_out: BTreeMap<List, usize>,
}

impl Gather {
    /// One reading of a sensor that a machine has once.
    pub(super) fn put(&mut self, sensor: &Sensor, raw: Raw) {
        self.put_of(sensor, &Labels::default(), raw);
    }

    /// One reading of a sensor with these labels, which are made to fit.
    pub(super) fn put_with(&mut self, sensor: &Sensor, pairs: &[(&str, &str)], raw: Raw) {
        if let Some(labels) = self.labels(pairs) {
            self.put_of(sensor, &labels, raw);
        }
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

    /// Counts things of a list that are not read. Zero is reported too, so that an alert resolves.
    pub(super) fn leave_out(&mut self, list: List, things: usize) {
        *self.left_out.entry(list).or_default() += things;
    }

    /// Labels whose values were made to fit; without labels, it counts one thing left out.
    pub(super) fn labels(&mut self, pairs: &[(&str, &str)]) -> Option<Labels> {
        let labels = Labels::new(pairs.iter().map(|(key, value)| (key, label_value(value)))).ok();
        if labels.is_none() {
            self.leave_out(List::Readings, 1);
        }
        labels
    }

    /// Sorts things by name, each name once, at most `most` of them, the rest counted.
    pub(super) fn named<T>(
        &mut self,
        list: List,
        things: impl IntoIterator<Item = (String, T)>,
        most: usize,
    ) -> Vec<(String, T)> {
        let mut named = BTreeMap::new();
        for (name, thing) in things {
            let twice = named.insert(label_value(&name), thing).is_some();
            self.leave_out(list, usize::from(twice));
        }
        self.leave_out(list, named.len().saturating_sub(most));
        named.into_iter().take(most).collect()
    }

    /// The readings, and what is not read.
    pub(super) fn finish(mut self) -> Vec<Reading> {
        for (list, things) in std::mem::take(&mut self.left_out) {
            self.put_with(&SENSORS_UNREAD, &[("list", list.as_str())], Ok(things as f64));
        }
        self.readings
    }

    /// The same of all threads together, as many as one message takes.
    pub(super) fn finish_sample(mut self) -> Vec<Reading> {
        let most = READINGS_MAX - List::ALL.len();
        self.leave_out(List::Readings, self.readings.len().saturating_sub(most));
        self.readings.truncate(most);
        self.finish()
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

    fn unread(readings: &[Reading], list: &str) -> Option<f64> {
        let of = |one: &&Reading| one.sensor == SENSORS_UNREAD.name;
        let mut unread = readings.iter().filter(of);
        unread.find(|one| one.labels.get("list") == Some(list))?.value
    }

    #[test]
    fn names_are_sorted_distinct_and_bounded_and_the_rest_is_counted() {
        let mut gather = Gather::default();
        let things = [("c", 1), ("a", 2), ("a", 3), ("b", 4)].map(|(k, v)| (k.to_owned(), v));
        let named = gather.named(List::Interfaces, things, 2);
        assert_eq!(named, [("a".to_owned(), 3), ("b".to_owned(), 4)]);
        gather.named(List::Gpus, [("a".to_owned(), 1)], 2);
        let readings = gather.finish();
        assert_eq!(unread(&readings, "interfaces"), Some(2.0));
        assert_eq!(unread(&readings, "gpus"), Some(0.0), "what is whole is stated");
    }

    #[test]
    fn a_sample_is_cut_to_the_bound_and_the_rest_is_counted() {
        let mut gather = Gather::default();
        (0..READINGS_MAX + 3).for_each(|_| gather.put(&LOAD1, Ok(1.0)));
        let readings = gather.finish_sample();
        assert!(readings.len() <= READINGS_MAX);
        assert_eq!(unread(&readings, "readings"), Some(3.0 + List::ALL.len() as f64));
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
