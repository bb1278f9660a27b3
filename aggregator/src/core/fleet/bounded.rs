//! Maps that take no more than a given number of entries.

use std::collections::BTreeMap;

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
