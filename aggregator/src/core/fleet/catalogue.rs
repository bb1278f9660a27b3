//! The index of a sensor in the catalogue, by its name. Hundreds of readings a second come from
//! each of thousands of nodes, so no list is searched for one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use plimsoll_schemas::hardware::CATALOGUE;

static PLACES: LazyLock<BTreeMap<&str, usize>> =
    LazyLock::new(|| (0..).zip(CATALOGUE).map(|(place, sensor)| (sensor.name, place)).collect());

/// The place of a sensor in the catalogue; `None` of one that is not in it.
#[must_use]
pub(crate) fn place(name: &str) -> Option<usize> {
    PLACES.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sensor_has_its_place_and_no_other_name_has_one() {
        let found = CATALOGUE.iter().map(|sensor| place(sensor.name));
        assert!(found.eq((0..CATALOGUE.len()).map(Some)));
        assert_eq!(place("no_such_sensor"), None);
    }
}
