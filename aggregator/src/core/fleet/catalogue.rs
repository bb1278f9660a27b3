//! The index of a sensor in the catalogue. Readings are kept by it, so that no name is searched
//! for: tens of readings a second come from each of thousands of nodes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use plimsoll_schemas::hardware::{CATALOGUE, Sensor};

static PLACES: LazyLock<BTreeMap<&str, usize>> =
    LazyLock::new(|| (0..).zip(CATALOGUE).map(|(place, sensor)| (sensor.name, place)).collect());

/// The place of a sensor in the catalogue; `None` of one that is not in it.
pub(crate) fn place(name: &str) -> Option<usize> {
    PLACES.get(name).copied()
}

/// The place of a sensor that is in the catalogue, worked out when this is compiled.
pub(crate) const fn place_of(sensor: &Sensor) -> usize {
    let mut place = 0;
    while !is_same(CATALOGUE[place].name.as_bytes(), sensor.name.as_bytes()) {
        place += 1;
    }
    place
}

/// Comparison with `==` is not possible in a constant.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut same = 0;
    while same < one.len() && same < other.len() && one[same] == other[same] {
        same += 1;
    }
    same == one.len() && same == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sensor_has_its_place_and_no_other_name_has_one() {
        let found = CATALOGUE.iter().map(|sensor| place(sensor.name));
        assert!(found.eq((0..CATALOGUE.len()).map(Some)));
        assert!(CATALOGUE.iter().map(|sensor| place_of(sensor)).eq(0..CATALOGUE.len()));
        assert_eq!(place("no_such_sensor"), None);
    }
}
