//! How series were written: the bytes of a line's name, type and tags lead to the slot of its
//! series, so tags are read once a series and not once a sample.
//!
//! A hash table, because this is asked for every line; nothing ever depends on the order of its
//! entries. Only forms that led to a series are in it, so what is found needs no further check.

use std::hash::{BuildHasher, Hasher};

use crate::limits::{SPELLING_BYTES_MAX, SPELLINGS_PER_SERIES_MAX};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::dogstatsd::{Letter, Line};
use super::find::is_same;
use super::labels::LineFigures;
use super::units::TimeUnit;

/// What a spelling leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The slot of its series.
    pub(super) slot: usize,
    /// The unit of its values.
    pub(super) unit: TimeUnit,
    /// What becomes of its tags, if not all become labels.
    pub(super) labels: Option<LineFigures>,
}

/// All spellings that are remembered.
pub(super) struct Spellings {
    table: HashTable<Spelling>,
    state: FixedState,
    entries_max: usize,
}

struct Spelling {
    hash: u64,
    letter: Letter,
    /// True when it was asked for in this interval.
    is_used: bool,
    name_len: usize,
    tags_len: usize,
    /// Name, tags and container.
    bytes: Box<[u8]>,
    known: Known,
}

impl Spellings {
    /// None yet. `seed` keeps a sender from choosing names that collide.
    pub(super) fn new(series_max: usize, seed: u64) -> Self {
        Self {
            table: HashTable::new(),
            state: FixedState::with_seed(seed),
            entries_max: series_max.saturating_mul(SPELLINGS_PER_SERIES_MAX),
        }
    }

    /// What [`Self::find`] and [`Self::remember`] know a line by.
    #[inline]
    pub(super) fn hash(&self, line: &Line<'_>) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(line.name);
        hasher.write_u8(line.letter as u8);
        for part in [line.tags, line.container] {
            if !part.is_empty() {
                hasher.write(part);
            }
        }
        hasher.finish()
    }

    /// Where a line leads, if its form was seen before.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, line: &Line<'_>) -> Option<Known> {
        let spelling = self.table.find_mut(hash, |spelling| spelling.is_of(line))?;
        spelling.is_used = true;
        Some(spelling.known)
    }

    /// Remembers where a line leads, if there is room for it.
    pub(super) fn remember(&mut self, hash: u64, line: &Line<'_>, known: Known) {
        let bytes = [line.name, line.tags, line.container].concat();
        if self.table.len() >= self.entries_max || bytes.len() > SPELLING_BYTES_MAX {
            return;
        }
        let spelling = Spelling {
            hash,
            letter: line.letter,
            is_used: true,
            name_len: line.name.len(),
            tags_len: line.tags.len(),
            bytes: bytes.into(),
            known,
        };
        self.table.insert_unique(hash, spelling, |spelling| spelling.hash);
    }

    /// Forgets what was not asked for since the last call, and what leads to a slot that is gone:
    /// `moved` says where each slot is now.
    pub(super) fn renew(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        self.table.retain(|spelling| {
            let slot = moved(spelling.known.slot).filter(|_| spelling.is_used);
            spelling.is_used = false;
            spelling.known.slot = slot.unwrap_or_default();
            slot.is_some()
        });
        if self.table.is_empty() {
            self.table = HashTable::new();
        }
    }
}

impl Spelling {
    #[inline]
    fn is_of(&self, line: &Line<'_>) -> bool {
        let (name, rest) = self.bytes.split_at(self.name_len);
        let (tags, container) = rest.split_at(self.tags_len);
        self.letter == line.letter
            && is_same(name, line.name)
            && is_same(tags, line.tags)
            && is_same(container, line.container)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::intake::dogstatsd::parse;

    const UNIT: TimeUnit = TimeUnit::Milliseconds;

    fn known(slot: usize) -> Known {
        Known { slot, unit: UNIT, labels: None }
    }

    fn remember(spellings: &mut Spellings, text: &str, slot: usize) {
        let line = parse(text.as_bytes()).unwrap();
        spellings.remember(spellings.hash(&line), &line, known(slot));
    }

    fn find(spellings: &mut Spellings, text: &str) -> Option<usize> {
        let line = parse(text.as_bytes()).unwrap();
        spellings.find(spellings.hash(&line), &line).map(|known| known.slot)
    }

    #[test]
    fn a_line_is_found_by_name_type_tags_and_container_and_by_nothing_else() {
        let mut spellings = Spellings::new(9, 7);
        let known = "ab:1|ms|#cd:e|c:f";
        remember(&mut spellings, known, 3);
        let collision = spellings.hash(&parse(known.as_bytes()).unwrap());
        assert_eq!(find(&mut spellings, "ab:2:3|ms|@0.5|#cd:e|c:f|T5"), Some(3));
        for other in [
            "ab:1|h|#cd:e|c:f",
            "ab:1|ms|#xd:e|c:f",
            "abc:1|ms|#d:e|c:f",
            "ab:1|ms|#cd|c:f",
            "ab:1|ms|#cd:e",
        ] {
            assert_eq!(find(&mut spellings, other), None, "{other}");
            let line = parse(other.as_bytes()).unwrap();
            assert!(spellings.find(collision, &line).is_none(), "{other} by a collision");
        }
    }

    #[test]
    fn what_was_not_used_in_an_interval_or_leads_nowhere_is_forgotten() {
        let mut spellings = Spellings::new(1, 7);
        for (slot, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            remember(&mut spellings, &format!("{name}:1|ms"), slot);
        }
        assert_eq!(find(&mut spellings, "e:1|ms"), None, "there was no room");
        spellings.renew(|slot| (slot != 1).then_some(slot + 10));
        assert_eq!(find(&mut spellings, "b:1|ms"), None);
        assert_eq!(find(&mut spellings, "a:1|ms"), Some(10));
        spellings.renew(Some);
        assert_eq!(find(&mut spellings, "c:1|ms"), None);
        assert_eq!(find(&mut spellings, "a:1|ms"), Some(10));
    }

    #[test]
    fn a_long_spelling_is_not_remembered() {
        let mut spellings = Spellings::new(9, 7);
        let long = format!("a:1|ms|#k:{}", "v".repeat(SPELLING_BYTES_MAX));
        remember(&mut spellings, &long, 1);
        assert_eq!(find(&mut spellings, &long), None);
    }
}
