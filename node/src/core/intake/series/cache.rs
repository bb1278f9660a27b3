//! The series cache: maps the bytes of a line's name, type and tags to the slot of its series, so
//! that tags are parsed once per series and not once per sample.
//!
//! A hash table, because every line is looked up; nothing depends on the order of its entries.
//! Only valid forms are cached, so a hit needs no further check.
//!
//! DESIGN N17.

use std::hash::{BuildHasher, Hasher};

use crate::limits::{CACHED_FORMS_PER_SERIES_MAX, CACHED_SERIES_BYTES_MAX};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::labels::LineLabelStats;
use crate::core::intake::lines::{Line, MetricType, ValueUnit};
use crate::core::intake::scan::is_same;

/// The cached result for one form of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedSeries {
    pub(crate) slot: usize,
    pub(crate) unit: ValueUnit,
    /// Statistics of its tags, if not all became labels unchanged.
    pub(crate) labels: Option<LineLabelStats>,
}

pub(crate) struct SeriesCache {
    table: HashTable<Entry>,
    state: FixedState,
    entries_max: usize,
}

struct Entry {
    hash: u64,
    metric_type: MetricType,
    /// True when it was found in this interval.
    is_used: bool,
    name_len: usize,
    tags_len: usize,
    /// Name, tags and container.
    bytes: Box<[u8]>,
    known: CachedSeries,
}

impl SeriesCache {
    /// An empty cache. `seed` keeps a sender from choosing names that collide.
    pub(crate) fn new(series_max: usize, seed: u64) -> Self {
        Self {
            table: HashTable::new(),
            state: FixedState::with_seed(seed),
            entries_max: series_max.saturating_mul(CACHED_FORMS_PER_SERIES_MAX),
        }
    }

    /// The hash of a line for [`Self::find`] and [`Self::insert`].
    #[inline]
    pub(crate) fn hash(&self, line: &Line<'_>) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(line.name);
        hasher.write_u8(line.metric_type as u8);
        for part in [line.tags, line.container] {
            if !part.is_empty() {
                hasher.write(part);
            }
        }
        hasher.finish()
    }

    /// The result for a line, if its form is cached.
    #[inline]
    pub(crate) fn find(&mut self, hash: u64, line: &Line<'_>) -> Option<CachedSeries> {
        let entry = self.table.find_mut(hash, |entry| entry.is_of(line))?;
        entry.is_used = true;
        Some(entry.known)
    }

    /// Caches the result for a line, if there is room for it.
    pub(crate) fn insert(&mut self, hash: u64, line: &Line<'_>, known: CachedSeries) {
        let bytes = [line.name, line.tags, line.container].concat();
        if self.table.len() >= self.entries_max || bytes.len() > CACHED_SERIES_BYTES_MAX {
            return;
        }

        let entry = Entry {
            hash,
            metric_type: line.metric_type,
            is_used: true,
            name_len: line.name.len(),
            tags_len: line.tags.len(),
            bytes: bytes.into(),
            known,
        };

        self.table.insert_unique(hash, entry, |entry| entry.hash);
    }

    /// Evicts what was not found since the last call, and entries of removed slots: `moved` maps
    /// each slot to its new index.
    pub(crate) fn on_slots_moved(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        self.table.retain(|entry| {
            let slot = moved(entry.known.slot).filter(|_| entry.is_used);
            entry.is_used = false;
            entry.known.slot = slot.unwrap_or_default();
            slot.is_some()
        });
        if self.table.is_empty() {
            self.table = HashTable::new();
        }
    }
}

impl Entry {
    #[inline]
    fn is_of(&self, line: &Line<'_>) -> bool {
        let (name, rest) = self.bytes.split_at(self.name_len);
        let (tags, container) = rest.split_at(self.tags_len);
        self.metric_type == line.metric_type
            && is_same(name, line.name)
            && is_same(tags, line.tags)
            && is_same(container, line.container)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::intake::lines::parse;

    const UNIT: ValueUnit = ValueUnit::Bytes;

    fn known(slot: usize) -> CachedSeries {
        CachedSeries { slot, unit: UNIT, labels: None }
    }

    fn remember(cache: &mut SeriesCache, text: &str, slot: usize) {
        let line = parse(text.as_bytes()).unwrap();
        cache.insert(cache.hash(&line), &line, known(slot));
    }

    fn find(cache: &mut SeriesCache, text: &str) -> Option<usize> {
        let line = parse(text.as_bytes()).unwrap();
        cache.find(cache.hash(&line), &line).map(|known| known.slot)
    }

    #[test]
    fn a_line_is_found_by_name_type_tags_and_container_and_by_nothing_else() {
        let mut cache = SeriesCache::new(9, 7);
        let known = "ab:1|ms|#cd:e|c:f";
        remember(&mut cache, known, 3);
        let collision = cache.hash(&parse(known.as_bytes()).unwrap());
        assert_eq!(find(&mut cache, "ab:2:3|ms|@0.5|#cd:e|c:f|T5"), Some(3));
        for other in [
            "ab:1|h|#cd:e|c:f",
            "ab:1|ms|#xd:e|c:f",
            "abc:1|ms|#d:e|c:f",
            "ab:1|ms|#cd|c:f",
            "ab:1|ms|#cd:e",
        ] {
            assert_eq!(find(&mut cache, other), None, "{other}");
            let line = parse(other.as_bytes()).unwrap();
            assert!(cache.find(collision, &line).is_none(), "{other} by a collision");
        }
    }

    #[test]
    fn entries_not_used_in_an_interval_or_without_a_slot_are_evicted() {
        let mut cache = SeriesCache::new(1, 7);
        for (slot, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            remember(&mut cache, &format!("{name}:1|ms"), slot);
        }
        assert_eq!(find(&mut cache, "e:1|ms"), None, "there was no room");
        cache.on_slots_moved(|slot| (slot != 1).then_some(slot + 10));
        assert_eq!(find(&mut cache, "b:1|ms"), None);
        assert_eq!(find(&mut cache, "a:1|ms"), Some(10));
        cache.on_slots_moved(Some);
        assert_eq!(find(&mut cache, "c:1|ms"), None);
        assert_eq!(find(&mut cache, "a:1|ms"), Some(10));
    }

    #[test]
    fn a_long_form_is_not_cached() {
        let mut cache = SeriesCache::new(9, 7);
        let long = format!("a:1|ms|#k:{}", "v".repeat(CACHED_SERIES_BYTES_MAX));
        remember(&mut cache, &long, 1);
        assert_eq!(find(&mut cache, &long), None);
    }
}
