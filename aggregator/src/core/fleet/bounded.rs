//! Tables that take no more than a given number of entries, and which of them make room.
//!
//! DESIGN A167.

use std::collections::BTreeMap;

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
