//! The newest entries of a sequence, by their number: intervals and bins.

use crate::limits::RING_ENTRIES;

/// Entries by number, modulo their count. A number that is further back than the ring is long
/// shares its place with a newer one; the users of a ring never ask for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<T>([T; RING_ENTRIES]);

impl<T: Copy> Ring<T> {
    /// All entries alike.
    pub(crate) fn filled(with: T) -> Self {
        Self([with; RING_ENTRIES])
    }

    pub(crate) fn at(&self, number: u64) -> &T {
        &self.0[place(number)]
    }

    pub(crate) fn at_mut(&mut self, number: u64) -> &mut T {
        &mut self.0[place(number)]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below the ring's length")]
fn place(number: u64) -> usize {
    (number % RING_ENTRIES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_are_found_by_number() {
        let mut ring = Ring::filled(None);
        (0..100).for_each(|number| *ring.at_mut(number) = Some(number));
        let newest = 100 - RING_ENTRIES as u64..100;
        assert!(newest.into_iter().all(|number| *ring.at(number) == Some(number)));
    }
}
