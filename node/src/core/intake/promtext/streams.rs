//! What a series of a page is known by from one page to the next, in whatever order its labels
//! stand.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use super::line::Pair;

/// The label by which rows of one histogram are told apart.
pub(super) const LE: &str = "le";

/// Numbers series.
#[derive(Clone)]
pub(super) struct Streams(FixedState);

impl Streams {
    /// `seed` keeps whoever writes a page from choosing names that collide.
    pub(super) fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// The number of a family with these labels. One without a value is as if it were not there.
    pub(super) fn of(&self, family: &str, pairs: &[Pair<'_>]) -> u64 {
        self.number(family, pairs.iter())
    }

    /// The same without [`LE`].
    pub(super) fn of_histogram(&self, family: &str, pairs: &[Pair<'_>]) -> u64 {
        self.number(family, pairs.iter().filter(|(key, _)| *key != LE))
    }

    fn number<'p>(&self, family: &str, pairs: impl Iterator<Item = &'p Pair<'p>>) -> u64 {
        let of = |one: &str, other: &str| {
            let mut hasher = self.0.build_hasher();
            hasher.write(one.as_bytes());
            // No text of UTF-8 holds it, so that no two pairs run into each other.
            hasher.write_u8(0xff);
            hasher.write(other.as_bytes());
            hasher.finish()
        };
        let told = pairs.filter(|(_, value)| !value.is_empty());
        told.fold(of(family, ""), |sum, (key, value)| sum.wrapping_add(of(key, value)))
    }
}
