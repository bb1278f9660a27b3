//! Who gets a place when more series speak than an interval has places.
//!
//! A series that spoke in the last interval keeps its place, spoken or not yet; new ones
//! compete for the rest. Otherwise a flood of new names would push out whoever speaks late.

use std::collections::BTreeSet;

use plimsoll_schemas::ids::Series;

use super::dogstatsd::MetricType;

/// What a place is for.
pub(super) type Key = (MetricType, Series);

/// The places of one interval.
pub(super) struct Places {
    places_max: usize,
    reserved: BTreeSet<Key>,
    free: usize,
}

impl Places {
    /// All free.
    pub(super) fn new(places_max: usize) -> Self {
        Self { places_max, reserved: BTreeSet::new(), free: places_max }
    }

    /// Whether a series that has no place yet in this interval gets one. Ask once for each.
    pub(super) fn admit(&mut self, key: &Key) -> bool {
        if self.reserved.contains(key) {
            return true;
        }
        let fits = self.free > 0;
        self.free -= usize::from(fits);
        fits
    }

    /// The interval is over: `admitted`, the series that got a place, have one in the next.
    pub(super) fn renew(&mut self, admitted: BTreeSet<Key>) {
        self.free = self.places_max.saturating_sub(admitted.len());
        self.reserved = admitted;
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::Operation;
    use proptest::prelude::*;

    use super::*;

    fn key(name: u8) -> Key {
        let operation = Operation::new(format!("op{name}")).unwrap();
        (MetricType::Latency, Series::plain(operation))
    }

    proptest! {
        #[test]
        fn known_series_always_fit_and_no_more_than_all_places_are_given(
            intervals in prop::collection::vec(prop::collection::vec(0..20_u8, 0..40), 1..10),
        ) {
            let mut places = Places::new(6);
            let mut known = BTreeSet::new();
            for names in intervals {
                let mut admitted = BTreeSet::new();
                for key in names.into_iter().map(key) {
                    if !admitted.contains(&key) && places.admit(&key) {
                        admitted.insert(key);
                    } else {
                        prop_assert!(admitted.contains(&key) || !known.contains(&key));
                    }
                }
                prop_assert!(admitted.len() <= 6);
                places.renew(admitted.clone());
                known = admitted;
            }
        }
    }
}
