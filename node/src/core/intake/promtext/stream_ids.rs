//! Identifies a series from one page to the next, independent of the order of its labels.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use plimsoll_schemas::time::Wall;

use super::line::Pair;

/// The label of the upper bound of a bucket.
pub(super) const LE: &str = "le";

#[derive(Clone)]
pub(super) struct StreamIds(FixedState);

impl StreamIds {
    /// `seed` keeps the author of a page from choosing names that collide.
    pub(super) fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// The id of a series with these labels. A label without a value is ignored.
    pub(super) fn of(&self, family: &str, pairs: &[Pair<'_>]) -> u64 {
        self.id(family, pairs.iter())
    }

    /// The same without [`LE`].
    pub(super) fn of_histogram(&self, family: &str, pairs: &[Pair<'_>]) -> u64 {
        self.id(family, pairs.iter().filter(|(key, _)| *key != LE))
    }

    fn id<'p>(&self, family: &str, pairs: impl Iterator<Item = &'p Pair<'p>>) -> u64 {
        let of = |one: &str, other: &str| {
            let mut hasher = self.0.build_hasher();
            hasher.write(one.as_bytes());
            // Does not occur in UTF-8, so that no two pairs are ambiguous.
            hasher.write_u8(0xff);
            hasher.write(other.as_bytes());
            hasher.finish()
        };
        let present = pairs.filter(|(_, value)| !value.is_empty());
        present.fold(of(family, ""), |sum, (key, value)| sum.wrapping_add(of(key, value)))
    }
}

/// Since when a stream counts.
#[derive(Clone, Copy)]
pub(super) struct StreamStart {
    pub(super) stream: u64,
    /// As the page states it for this stream; zero if it does not.
    pub(super) start: Wall,
    /// Whether it started from zero after the previous page.
    pub(super) is_new: bool,
}
