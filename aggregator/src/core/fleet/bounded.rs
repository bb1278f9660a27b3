//! Tables that take no more than a given number of entries, and which of them make room.
//!
//! DESIGN A167, A175.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_schemas::time::Wall;

use super::window::Windows;
use crate::limits::TABLE_CROWDED_PERCENT;

/// The entry under `key`, made if there is room for it.
pub(super) fn bounded_entry<'a, K: Ord + Clone, V: Default>(
    map: &'a mut BTreeMap<K, V>,
    key: &K,
    max: usize,
) -> Option<&'a mut V> {
    if map.len() >= max && !map.contains_key(key) {
        return None;
    }
    Some(map.entry(key.clone()).or_default())
}

/// Shortens a list, of which the oldest entries come first, to `max` entries: each time the holder
/// with most of them gives up its oldest. Of holders with as many that is the one whose oldest is
/// the oldest of all, so no holder pushes out what another one has.
pub(crate) fn shorten<T>(list: &mut VecDeque<T>, max: usize, holder: impl Fn(&T) -> &str) {
    if list.len() <= max {
        return;
    }
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for entry in &*list {
        *held.entry(holder(entry).to_owned()).or_default() += 1;
    }

    while list.len() > max {
        let most = held.values().copied().max().unwrap_or_default();
        let has_most = |entry: &T| held.get(holder(entry)) == Some(&most);
        let Some(oldest) = list.iter().position(has_most) else { return };
        let Some(entry) = list.remove(oldest) else { return };
        if let Some(entries) = held.get_mut(holder(&entry)) {
            *entries -= 1;
        }
    }
}

/// Whether a table that takes `max` entries is so full that idle ones are evicted.
pub(super) fn is_crowded(entries: usize, max: usize) -> bool {
    entries * 100 > max * TABLE_CROWDED_PERCENT
}

/// Of some that may be evicted, the one that had been idle for longest when any node was last seen;
/// `None` if none had.
pub(super) fn longest_idle<'a, K>(
    as_of: Wall,
    entries: impl Iterator<Item = (&'a K, &'a Windows)>,
) -> Option<&'a K> {
    let idle = entries.filter(|(_, windows)| windows.idle_from() <= as_of);
    idle.min_by_key(|(_, windows)| windows.touched()).map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However many entries one holder adds, each other one keeps its newest up to an equal
        /// part of the list.
        #[test]
        fn each_holder_keeps_its_newest_up_to_an_equal_part(
            added in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => 1..5_u8], 0..200),
            max in 5..40_usize,
        ) {
            let name = |holder: u8| holder.to_string();
            let mut list: VecDeque<(String, usize)> = VecDeque::new();
            for (at, holder) in added.iter().enumerate() {
                list.push_back((name(*holder), at));
                shorten(&mut list, max, |(holder, _)| holder);
            }
            prop_assert_eq!(list.len(), added.len().min(max));
            prop_assert!(list.iter().map(|(_, at)| at).is_sorted());
            for holder in 0..5 {
                let of = |(at, of): (usize, &u8)| (*of == holder).then_some(at);
                let all: Vec<usize> = added.iter().enumerate().filter_map(of).collect();
                let kept = list.iter().filter(|(of, _)| *of == name(holder));
                let kept: Vec<usize> = kept.map(|(_, at)| *at).collect();
                prop_assert!(all.ends_with(&kept));
                prop_assert!(kept.len() >= all.len().min(max / 5));
            }
        }
    }
}
