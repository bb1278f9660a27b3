//! A set of sensor readings, which all have one list of their sensors in common while only values
//! change: pages and checkpoints that hold an older copy cost the values alone.
//!
//! DESIGN A68, A73.

use std::sync::Arc;

use plimsoll_schemas::hardware::{CATALOGUE, Reading, Sensor, SensorState};
use plimsoll_schemas::ids::Labels;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::core::fleet::catalogue;

/// Readings in the order of their message. Those of sensors that are not in the catalogue keep
/// their places, which changes count by, and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadingTable {
    rows: Arc<[Row]>,
    /// As many as there are rows; 0 where there is none.
    values: Vec<f64>,
}

/// What of a reading stays while its value changes.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// `None` for a sensor that is not in the catalogue.
    place: Option<u16>,
    labels: Labels,
    /// Why there is no value; `None` if there is one.
    missing: Option<Box<Missing>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Missing {
    state: SensorState,
    reason: Option<Box<str>>,
}

/// A reading of a sensor in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownReading<'t> {
    /// The sensor's index in the catalogue.
    pub place: usize,
    /// Which one, if a machine has several.
    pub labels: &'t Labels,
    /// Whether there is a value, and if not, why.
    pub state: SensorState,
    /// The value in the sensor's unit.
    pub value: Option<f64>,
    /// Why there is no value, if the node states it.
    pub reason: Option<&'t str>,
}

impl KnownReading<'_> {
    pub fn sensor(&self) -> &'static Sensor {
        CATALOGUE[self.place]
    }
}

impl ReadingTable {
    /// The readings of sensors in the catalogue.
    pub fn iter(&self) -> impl Iterator<Item = KnownReading<'_>> + Clone {
        self.rows.iter().zip(&self.values).filter_map(|(row, value)| row.known(*value))
    }

    /// How many readings are of sensors that are not in the catalogue.
    pub(super) fn unknown(&self) -> u64 {
        self.rows.iter().filter(|row| row.place.is_none()).count() as u64
    }

    /// Replaces values; a place without a value is left alone.
    pub(super) fn change(&mut self, changed: &[(u32, f64)]) {
        for (place, value) in changed {
            let Ok(place) = usize::try_from(*place) else { continue };
            if self.rows.get(place).is_some_and(|row| row.missing.is_none()) {
                self.values[place] = *value;
            }
        }
    }
}

impl Row {
    fn known(&self, value: f64) -> Option<KnownReading<'_>> {
        let place = self.place?.into();
        let labels = &self.labels;

        let known = match &self.missing {
            None => KnownReading {
                place,
                labels,
                state: SensorState::Ok,
                value: Some(value),
                reason: None,
            },
            Some(missing) => {
                let (state, reason) = (missing.state, missing.reason.as_deref());
                KnownReading { place, labels, state, value: None, reason }
            }
        };

        Some(known)
    }
}

impl From<Vec<Reading>> for ReadingTable {
    fn from(readings: Vec<Reading>) -> Self {
        let values = readings.iter().map(|reading| reading.value.unwrap_or_default()).collect();
        let rows = readings.into_iter().map(|Reading { sensor, labels, state, value, reason }| {
            let place = catalogue::place(&sensor).and_then(|place| u16::try_from(place).ok());
            let missing = value.is_none().then(|| Box::new(Missing { state, reason }));
            let labels = if place.is_some() { labels } else { Labels::default() };
            Row { place, labels, missing }
        });
        Self { rows: rows.collect(), values }
    }
}

/// A row as a checkpoint stores it: like a [`Reading`], whose sensor's name outlives an upgrade.
#[derive(Serialize)]
struct StoredReading<'t> {
    sensor: &'static str,
    labels: &'t Labels,
    state: SensorState,
    value: Option<f64>,
    reason: Option<&'t str>,
}

impl Serialize for ReadingTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.iter().zip(&self.values).map(|(row, value)| {
            let sensor = row.place.map_or("", |place| CATALOGUE[usize::from(place)].name);
            let labels = &row.labels;
            let Some(missing) = &row.missing else {
                let state = SensorState::Ok;
                return StoredReading { sensor, labels, state, value: Some(*value), reason: None };
            };
            let (state, reason) = (missing.state, missing.reason.as_deref());
            StoredReading { sensor, labels, state, value: None, reason }
        });
        serializer.collect_seq(rows)
    }
}

impl<'de> Deserialize<'de> for ReadingTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Reading>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{CPU_CORE_USAGE_RATIO, LOAD1, MissingReading};

    use super::*;

    fn readings() -> Vec<Reading> {
        let core = |n: &str| Labels::new([("core", n)]).unwrap();
        let mut later = Reading::ok(&LOAD1, core("9"), 9.0);
        later.sensor = "later_version".to_owned();
        vec![
            Reading::ok(&CPU_CORE_USAGE_RATIO, core("0"), 0.5),
            later,
            Reading::absent(&CPU_CORE_USAGE_RATIO, core("1"), MissingReading::failed("io")),
            Reading::ok(&LOAD1, Labels::default(), 1.5),
        ]
    }

    #[test]
    fn it_holds_the_readings_of_known_sensors_at_the_places_of_their_message() {
        let mut table = ReadingTable::from(readings());
        table.change(&[(0, 0.75), (1, 8.0), (2, 7.0), (3, 2.5), (4, 1.0)]);
        let known: Vec<_> = table.iter().map(|of| (of.sensor().name, of.value)).collect();
        let core = CPU_CORE_USAGE_RATIO.name;
        assert_eq!(known, [(core, Some(0.75)), (core, None), (LOAD1.name, Some(2.5))]);
        let reasons: Vec<_> = table.iter().filter_map(|of| of.reason).collect();
        assert_eq!((reasons, table.unknown()), (vec!["io"], 1));
    }

    #[test]
    fn a_checkpoint_restores_it_with_the_places_of_what_it_does_not_know() {
        let table = ReadingTable::from(readings());
        let bytes = rmp_serde::to_vec_named(&table).unwrap();
        assert_eq!(rmp_serde::from_slice::<ReadingTable>(&bytes).unwrap(), table);
    }

    #[test]
    fn a_copy_of_before_a_change_has_the_same_rows() {
        let before = ReadingTable::from(readings());
        let mut after = before.clone();
        after.change(&[(0, 0.75)]);
        assert!(Arc::ptr_eq(&before.rows, &after.rows));
        assert_eq!(before, ReadingTable::from(readings()));
    }
}
