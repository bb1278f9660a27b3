//! The hardware samples of the open interval, folded into one.
//!
//! Owns at most [`READINGS_MAX`] readings. A counter has its latest value, any other sensor its
//! worst by its direction in the catalogue: faster sampling than sending is for the peaks. A sample
//! without a value does not replace one, as with the polls of a GPU.
//!
//! DESIGN N53.

use plimsoll_schemas::hardware::{CATALOGUE, Direction, Reading};

use crate::limits::READINGS_MAX;

/// The readings that the open interval will carry.
#[derive(Default)]
pub(super) struct OpenReadings(Vec<Reading>);

impl OpenReadings {
    pub(super) fn fold(&mut self, mut sample: Vec<Reading>) {
        if self.0.is_empty() {
            sample.truncate(READINGS_MAX);
            self.0 = sample;
            return;
        }

        let mut expected = 0;
        for reading in sample {
            // Samples have one order, so that most readings are found at once.
            let is_same =
                |open: &Reading| open.sensor == reading.sensor && open.labels == reading.labels;

            let at = match self.0.get(expected).is_some_and(is_same) {
                true => Some(expected),
                false => self.0.iter().position(is_same),
            };

            match at {
                Some(at) => {
                    expected = at + 1;
                    fold_one(&mut self.0[at], reading);
                }
                None if self.0.len() < READINGS_MAX => self.0.push(reading),
                None => {}
            }
        }
    }

    /// The folded sample; the next one begins anew.
    pub(super) fn take(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.0)
    }
}

fn fold_one(open: &mut Reading, next: Reading) {
    let is_kept = match (open.value, next.value) {
        (Some(value), Some(other)) => is_worse(&next.sensor, value, other),
        (Some(_), None) => true,
        (None, _) => false,
    };
    if !is_kept {
        *open = next;
    }
}

/// Whether `value` of a sensor is to be kept in place of a later one.
fn is_worse(name: &str, value: f64, later: f64) -> bool {
    match CATALOGUE.iter().find(|sensor| sensor.name == name) {
        Some(sensor) if sensor.cumulative => false,
        // The least of a GPU's polls stays the least.
        Some(_) if name.contains("_min_") => Direction::LowIsWorse.is_worse(value, later),
        Some(sensor) => sensor.direction.is_worse(value, later),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{
        CPU_USAGE_RATIO, DISK_AVAILABLE_BYTES, GPU_POWER_MIN_WATTS, MissingReading,
        NETWORK_RECEIVE_BYTES_TOTAL, Sensor,
    };
    use plimsoll_schemas::ids::Labels;
    use proptest::prelude::*;

    use super::*;

    fn ok(sensor: &Sensor, value: f64) -> Reading {
        Reading::ok(sensor, Labels::default(), value)
    }

    fn folded(samples: impl IntoIterator<Item = Vec<Reading>>) -> Vec<Reading> {
        let mut open = OpenReadings::default();
        samples.into_iter().for_each(|sample| open.fold(sample));
        open.take()
    }

    #[test]
    fn ten_samples_of_an_interval_become_their_worst_and_counters_their_latest() {
        let samples = (0..10_u32).map(|n| {
            let share = f64::from((n * 7) % 10) / 10.0;
            vec![
                ok(&CPU_USAGE_RATIO, share),
                ok(&DISK_AVAILABLE_BYTES, 100.0 + share),
                ok(&GPU_POWER_MIN_WATTS, 70.0 + share),
                ok(&NETWORK_RECEIVE_BYTES_TOTAL, f64::from(1_000 + n)),
            ]
        });
        assert_eq!(
            folded(samples),
            [
                ok(&CPU_USAGE_RATIO, 0.9),
                ok(&DISK_AVAILABLE_BYTES, 100.0),
                ok(&GPU_POWER_MIN_WATTS, 70.0),
                ok(&NETWORK_RECEIVE_BYTES_TOTAL, 1_009.0),
            ]
        );
    }

    #[test]
    fn a_reading_without_a_value_replaces_none_and_is_replaced_by_one() {
        let absent = |reason| {
            let missing = MissingReading::failed(reason);
            Reading::absent(&CPU_USAGE_RATIO, Labels::default(), missing)
        };
        let value = ok(&CPU_USAGE_RATIO, 0.5);
        let kept = folded([vec![value.clone()], vec![absent("io_error")]]);
        let replaced = folded([vec![absent("io_error")], vec![value.clone()]]);
        assert_eq!([kept, replaced], [vec![value.clone()], vec![value]]);
        assert_eq!(folded([vec![absent("io_error")], vec![absent("hangs")]]), [absent("hangs")]);
    }

    #[test]
    fn an_interval_without_a_sample_has_no_reading() {
        let mut open = OpenReadings::default();
        open.fold(vec![ok(&CPU_USAGE_RATIO, 0.5)]);
        assert_eq!(open.take(), [ok(&CPU_USAGE_RATIO, 0.5)]);
        assert_eq!(open.take(), []);
    }

    #[test]
    fn readings_are_bounded_however_many_sensors_come_and_go() {
        let of = |device: usize| {
            let labels = Labels::new([("device", format!("d{device}"))]).unwrap();
            Reading::ok(&DISK_AVAILABLE_BYTES, labels, 1.0)
        };
        let sample = |from: usize| (from..from + 1_500).map(of).collect::<Vec<_>>();
        let folded = folded([sample(0), sample(1_000)]);
        assert_eq!(folded.len(), READINGS_MAX);
        assert_eq!((&folded[0], &folded[READINGS_MAX - 1]), (&of(0), &of(READINGS_MAX - 1)));
    }

    proptest! {
        #[test]
        fn folding_equals_a_naive_maximum_in_whatever_order_sensors_come(
            samples in proptest::collection::vec(
                proptest::collection::btree_map(0..6_u8, 0..100_u8, 0..6), 1..8),
            reversed in any::<bool>(),
        ) {
            let reading = |(device, value): (&u8, &u8)| {
                let labels = Labels::new([("core", device.to_string())]).unwrap();
                Reading::ok(&CPU_USAGE_RATIO, labels, f64::from(*value))
            };
            let sample = |(n, sample): (usize, &std::collections::BTreeMap<u8, u8>)| {
                let mut readings: Vec<_> = sample.iter().map(reading).collect();
                if reversed && n % 2 == 1 {
                    readings.reverse();
                }
                readings
            };
            let mut naive = std::collections::BTreeMap::new();
            for (device, value) in samples.iter().flatten() {
                let greatest = naive.entry(*device).or_insert(*value);
                *greatest = (*greatest).max(*value);
            }
            let mut expected: Vec<_> = naive.iter().map(reading).collect();
            let mut folded = folded(samples.iter().enumerate().map(sample));
            expected.sort_by(|a, b| a.labels.cmp(&b.labels));
            folded.sort_by(|a, b| a.labels.cmp(&b.labels));
            prop_assert_eq!(folded, expected);
        }
    }
}
