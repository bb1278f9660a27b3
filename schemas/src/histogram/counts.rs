//! Bucket counts in one row of cells, from the first bucket in use to the last; or, of samples
//! that lie far apart in few buckets, in a list of these.
//!
//! The whole layout would take 190 KiB for each series; the latencies of one operation lie close
//! together. Those of a producer's wide buckets do not, and are added by [`Counts::add_apart`]: a
//! row from a microsecond to ten seconds would take 30 KiB. A cell has 16 bits, and all have 64
//! once one needs more. Small numbers are added without a check for room; all cells are checked
//! again before one could overflow.

use super::cells::{
    BLOCK, Cell, HALF, PAGE, add_all, add_each, added_all, block, each_used, moved,
};
use super::exact::BucketSpan;
use super::layout;
use super::numbers::SHORT_MAX;
use super::payload::{PayloadReader, SamplesBeside};
use super::row::Row;

/// In more buckets samples are not few: the list is as large as a row of eight doublings.
const APART_MAX: usize = 1_024;

/// How many samples fell into each bucket of the [`layout`].
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The bucket of the first cell.
    first: usize,
    cells: Cells,
    /// No narrow cell is above [`HALF`] by more.
    unchecked: u16,
}

#[derive(Clone, Debug)]
enum Cells {
    Narrow(Vec<u16>),
    Wide(Vec<u64>),
    Apart(Row),
}

impl Default for Cells {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Counts {
    /// Adds `n` samples to one bucket; an index outside the layout is a bug of the caller.
    #[inline]
    pub fn add(&mut self, index: usize, n: u64) {
        // Below the first cell this wraps round to a place that no row has.
        let at = index.wrapping_sub(self.first);
        let added = match &mut self.cells {
            Cells::Narrow(cells) => cells.get_mut(at).is_some_and(|cell| cell.try_add(n)),
            Cells::Wide(cells) => cells.get_mut(at).is_some_and(|cell| cell.try_add(n)),
            Cells::Apart(_) => false,
        };
        if !added && n > 0 {
            self.add_with_room(index, n);
        }
    }

    /// Adds after making the room for it.
    #[cold]
    #[inline(never)]
    fn add_with_room(&mut self, index: usize, n: u64) {
        // A row grows to what it is asked for: an index from anywhere would claim any memory.
        assert!(index < layout::LEN, "bucket {index} is outside the layout");
        self.cover(index, index);
        let at = index - self.first;
        if let Cells::Narrow(cells) = &mut self.cells {
            if cells[at].try_add(n) {
                return;
            }
            self.widen();
        }
        if let Cells::Wide(cells) = &mut self.cells {
            cells[at].try_add(n);
        }
    }

    /// Makes room for the samples of this many buckets that may lie far from each other, if it
    /// holds none yet.
    pub(super) fn reserve_apart(&mut self, buckets: usize) {
        if self.is_unused() {
            self.cells = Cells::Apart(Row::with_room(buckets.min(APART_MAX)));
        }
    }

    /// As [`Counts::add`], for samples that may lie far from all others.
    #[inline]
    pub(super) fn add_apart(&mut self, index: usize, n: u64) {
        if self.is_unused() {
            self.cells = Cells::Apart(Row::default());
        }
        match &mut self.cells {
            Cells::Apart(row) if row.len() < APART_MAX && n > 0 => row.add(index, n),
            _ => self.add(index, n),
        }
    }

    /// Adds all counts of a checked payload, whose buckets are in the span `edges`.
    pub(super) fn merge_payload(&mut self, payload: &[u8], edges: Option<BucketSpan>) {
        let Some(BucketSpan { first, last }) = edges else { return };
        self.cover(first, last);
        // One check of all cells for the whole payload instead of one for each number.
        self.make_room();
        let mut reader = PayloadReader::of(payload);

        if let Cells::Narrow(cells) = &mut self.cells {
            add_all(cells, self.first, &mut reader);
            if reader.rest.is_empty() {
                return;
            }
            // The reader stands at the number that found no room, and goes on from there in wide
            // cells.
            self.widen();
        }

        if let Cells::Wide(cells) = &mut self.cells {
            add_all(cells, self.first, &mut reader);
        }
    }

    fn covers(&self, first: usize, last: usize) -> bool {
        self.first <= first && last < self.first + self.len()
    }

    /// Has cells from bucket `first` to bucket `last`.
    pub(super) fn cover(&mut self, first: usize, last: usize) {
        // Cells and a list are never kept together: each bucket would have two counts.
        if let Cells::Apart(row) = &mut self.cells {
            let row = std::mem::take(row);
            self.cells = Cells::default();
            let own = row.edges().unwrap_or(BucketSpan { first, last });
            self.cover(first.min(own.first), last.max(own.last));
            row.iter().for_each(|(index, n)| self.add(index, n));
        }

        if self.covers(first, last) {
            return;
        }
        let end = self.first + self.len();
        let (first, last) =
            if end == 0 { (first, last) } else { (first.min(self.first), last.max(end - 1)) };
        let first = first / PAGE * PAGE;
        let len = (last + 1 - first).next_multiple_of(PAGE);
        let before = self.first.saturating_sub(first);
        self.first = first;

        match &mut self.cells {
            Cells::Narrow(cells) => *cells = moved(cells, before, len),
            Cells::Wide(cells) => *cells = moved(cells, before, len),
            Cells::Apart(_) => {}
        }
    }

    /// Makes room in each cell for one more unchecked amount of at most [`SHORT_MAX`].
    fn make_room(&mut self) {
        let Cells::Narrow(cells) = &self.cells else { return };
        self.unchecked += u16::from(SHORT_MAX);
        if self.unchecked < HALF {
            return;
        }
        // The union of all bits is below the half only if every cell is.
        if cells.iter().fold(0, |any, cell| any | cell) < HALF {
            self.unchecked = u16::from(SHORT_MAX);
        } else {
            self.widen();
        }
    }

    #[cold]
    fn widen(&mut self) {
        if let Cells::Narrow(cells) = &self.cells {
            self.cells = Cells::Wide(cells.iter().map(|cell| u64::from(*cell)).collect());
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        if let Cells::Apart(theirs) = &other.cells {
            return self.merge_apart(theirs);
        }
        if other.len() == 0 {
            return;
        }
        self.cover(other.first, other.first + other.len() - 1);
        let at = other.first - self.first;

        if let Cells::Narrow(ours) = &mut self.cells {
            if let Cells::Narrow(theirs) = &other.cells
                && added_all(&mut ours[at..], theirs)
            {
                return;
            }
            self.widen();
        }

        if let Cells::Wide(ours) = &mut self.cells {
            match &other.cells {
                Cells::Narrow(theirs) => add_each(&mut ours[at..], theirs),
                Cells::Wide(theirs) => add_each(&mut ours[at..], theirs),
                Cells::Apart(_) => {}
            }
        }
    }

    fn merge_apart(&mut self, theirs: &Row) {
        if self.is_unused() {
            self.cells = Cells::Apart(Row::default());
        }
        match &mut self.cells {
            Cells::Apart(ours) if ours.len() < APART_MAX => ours.merge(theirs),
            _ => {
                let Some(BucketSpan { first, last }) = theirs.edges() else { return };
                self.cover(first, last);
                theirs.iter().for_each(|(index, n)| self.add(index, n));
            }
        }
    }

    /// Whether nothing was added.
    fn is_unused(&self) -> bool {
        matches!(&self.cells, Cells::Narrow(cells) if cells.is_empty())
    }

    /// The list, if there is one.
    fn apart(&self) -> &[(usize, u64)] {
        if let Cells::Apart(row) = &self.cells { row.as_slice() } else { &[] }
    }

    fn len(&self) -> usize {
        match &self.cells {
            Cells::Narrow(cells) => cells.len(),
            Cells::Wide(cells) => cells.len(),
            Cells::Apart(_) => 0,
        }
    }

    /// Blocks that hold samples, in ascending order: (index of the first, counts).
    fn blocks(&self) -> impl DoubleEndedIterator<Item = (usize, [u64; BLOCK])> + Clone {
        (0..self.len()).step_by(BLOCK).filter_map(|at| {
            let block = match &self.cells {
                Cells::Narrow(cells) => block(cells, at),
                Cells::Wide(cells) => block(cells, at),
                Cells::Apart(_) => None,
            };
            Some((self.first + at, block?))
        })
    }

    /// Buckets with samples, in ascending order: (index, samples).
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + Clone {
        let used = self.blocks().flat_map(|(index, block)| {
            let cells = block.into_iter().enumerate().filter(|(_, n)| *n > 0);
            cells.map(move |(at, n)| (index + at, n))
        });
        self.apart().iter().copied().chain(used)
    }

    /// Visits the buckets with samples in ascending order.
    pub(super) fn each(&self, mut visit: impl FnMut(usize, u64)) {
        match &self.cells {
            Cells::Narrow(cells) => each_used(cells, |at, n| visit(self.first + at, n)),
            Cells::Wide(cells) => each_used(cells, |at, n| visit(self.first + at, n)),
            Cells::Apart(row) => row.iter().for_each(|(index, n)| visit(index, n)),
        }
    }

    /// The bucket in which the sample of `rank` (1 = smallest) fell.
    #[must_use]
    pub fn index_at_rank(&self, rank: u64) -> Option<usize> {
        let mut seen = 0_u64;
        for (index, n) in self.apart() {
            seen = seen.saturating_add(*n);
            if seen >= rank {
                return Some(*index);
            }
        }

        for (first, block) in self.blocks() {
            // Most blocks lie below, and are passed as a whole.
            let with_block = block.iter().fold(seen, |sum, n| sum.saturating_add(*n));

            if with_block < rank {
                seen = with_block;
                continue;
            }

            for (at, n) in block.into_iter().enumerate() {
                seen = seen.saturating_add(n);
                if n > 0 && seen >= rank {
                    return Some(first + at);
                }
            }
        }

        None
    }

    /// Samples in one bucket, and in all above it.
    pub(super) fn beside(&self, index: usize) -> SamplesBeside {
        let (mut within, mut above) = (0_u64, 0_u64);
        // From above: few samples are over a limit, and those below it are not read at all.
        for (at, n) in self.iter().rev().take_while(|(at, _)| *at >= index) {
            let sum = if at == index { &mut within } else { &mut above };
            *sum = sum.saturating_add(n);
        }
        SamplesBeside { within, above }
    }

    /// Heap bytes in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.cells {
            Cells::Narrow(cells) => cells.capacity() * size_of::<u16>(),
            Cells::Wide(cells) => cells.capacity() * size_of::<u64>(),
            Cells::Apart(row) => row.heap_bytes(),
        }
    }
}

/// Equal when every bucket is, in whatever order and width they came to be.
impl PartialEq for Counts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Counts {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_behave_like_a_sorted_map(
            adds in prop::collection::vec(
                (0..layout::LEN, prop_oneof![0..5_u64, 65_000..66_000_u64]), 0..1_200,
            ),
            rank in 1..1_000_u64,
            apart in prop_oneof![Just(0), Just(2_000), 0..2_000_usize],
        ) {
            let mut counts = Counts::default();
            let mut model = BTreeMap::new();
            for (turn, (index, n)) in adds.into_iter().filter(|(_, n)| *n > 0).enumerate() {
                if turn < apart { counts.add_apart(index, n) } else { counts.add(index, n) }
                *model.entry(index).or_insert(0) += n;
            }
            let mut seen = 0;
            let expected = model.iter().find(|(_, n)| { seen += **n; seen >= rank });
            prop_assert_eq!(counts.index_at_rank(rank), expected.map(|(index, _)| *index));
            prop_assert_eq!(counts.iter().collect::<BTreeMap<_, _>>(), model);
        }

        #[test]
        fn counts_of_any_width_merge_to_the_sums(
            one in prop::collection::vec((0..300_usize, 1..40_000_u64), 0..60),
            two in prop::collection::vec((0..300_usize, 1..40_000_u64), 0..60),
            are_apart in any::<[bool; 3]>(),
        ) {
            let counts = |is_apart: bool, adds: &[(usize, u64)]| {
                let mut counts = Counts::default();
                let add = if is_apart { Counts::add_apart } else { Counts::add };
                adds.iter().for_each(|(index, n)| add(&mut counts, *index, *n));
                counts
            };
            let mut merged = counts(are_apart[0], &one);
            merged.merge(&counts(are_apart[1], &two));
            prop_assert_eq!(merged, counts(are_apart[2], &[two, one].concat()));
        }
    }

    #[test]
    fn a_bucket_holds_any_count_and_never_wraps() {
        let mut counts = Counts::default();
        for n in [65_535, 1, u64::MAX - 70_000, 70_000] {
            counts.add(7, n);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(7, u64::MAX)]);
    }

    #[test]
    fn few_samples_take_little_memory_however_wide_they_are_spread() {
        let bytes = |values: &mut dyn Iterator<Item = u64>| {
            let mut counts = Counts::default();
            values.for_each(|value| counts.add(layout::index_of(value), 1));
            counts.heap_bytes()
        };
        let narrow = bytes(&mut (1_000_000..2_000_000).step_by(500));
        let wide = bytes(&mut (0..1_000_u64).map(|n| (n * n * n * 3_600).max(1_000)));
        assert!(narrow < 8 * 1024 && wide < 56 * 1024, "{narrow} and {wide} bytes");
        let mut counts = Counts::default();
        (0..layout::LEN).step_by(100).for_each(|index| counts.add_apart(index, 9));
        assert!(counts.heap_bytes() < 8 * 1024, "{} bytes", counts.heap_bytes());
    }
}
