//! Bucket counts in pages that exist only where samples fell.
//!
//! A dense array of the layout takes 190 KiB for each series; the latencies of one operation
//! touch a few of its pages. Adding, merging and walking cost in proportion to those. Pages lie
//! in one vector, in the order in which they came to be: 16 bits a bucket, and 64 in all of them
//! once one bucket holds more.

use super::layout;
use super::payload::{self, Reader};

const PAGE: usize = 256;
/// Stands for a page that is not there; more than there can be pages.
const ABSENT: u16 = u16::MAX;

/// How many samples fell into each bucket of the [`layout`].
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Where in `cells` page `n`, of buckets `n * 256 ..`, is.
    slots: Vec<u16>,
    cells: Cells,
}

#[derive(Clone, Debug)]
enum Cells {
    Narrow(Vec<[u16; PAGE]>),
    Wide(Vec<[u64; PAGE]>),
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
        debug_assert!(index < layout::LEN, "bucket {index} is outside the layout");
        if n > 0 && !self.added(index, n) {
            self.add_with_room(index, n);
        }
    }

    /// Adds all counts of a checked payload.
    pub(super) fn merge_payload(&mut self, payload: &[u8]) {
        // What needs a new page or wider cells waits, so that the loop calls nothing.
        let mut waiting = Vec::new();
        let Self { slots, cells } = self;
        match cells {
            Cells::Narrow(pages) => add_narrow(slots, pages, payload, &mut waiting),
            Cells::Wide(pages) => payload::each(payload, |index, n| {
                if !added_wide(slots, pages, index, n) && n > 0 {
                    waiting.push((index, n));
                }
            }),
        }
        waiting.into_iter().for_each(|(index, n)| self.add(index, n));
    }

    /// Adds if there is a page for it with cells that are wide enough.
    #[inline]
    fn added(&mut self, index: usize, n: u64) -> bool {
        match &mut self.cells {
            Cells::Narrow(pages) => added_narrow(&self.slots, pages, index, n),
            Cells::Wide(pages) => added_wide(&self.slots, pages, index, n),
        }
    }

    /// Adds after making the room for it.
    #[cold]
    #[inline(never)]
    fn add_with_room(&mut self, index: usize, n: u64) {
        self.slot(index / PAGE);
        if !self.added(index, n) {
            self.widen();
            self.added(index, n);
        }
    }

    /// Where page `number` is; it is made if need be.
    fn slot(&mut self, number: usize) -> usize {
        if number >= self.slots.len() {
            self.slots.resize(number + 1, ABSENT);
        }
        if self.slots[number] == ABSENT {
            let slot = match &mut self.cells {
                Cells::Narrow(pages) => push(pages, [0; PAGE]),
                Cells::Wide(pages) => push(pages, [0; PAGE]),
            };
            self.slots[number] = u16::try_from(slot).unwrap_or(ABSENT);
        }
        usize::from(self.slots[number])
    }

    fn widen(&mut self) {
        if let Cells::Narrow(pages) = &self.cells {
            self.cells = Cells::Wide(pages.iter().map(|page| page.map(u64::from)).collect());
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (number, theirs) in other.pages() {
            let slot = self.slot(number);
            if let Cells::Narrow(pages) = &mut self.cells {
                let sums = sums(&pages[slot].map(u64::from), &theirs);
                if sums.iter().all(|sum| *sum <= u64::from(u16::MAX)) {
                    #[expect(clippy::cast_possible_truncation, reason = "none is above the most")]
                    let sums = sums.map(|sum| sum as u16);
                    pages[slot] = sums;
                    continue;
                }
                self.widen();
            }
            if let Cells::Wide(pages) = &mut self.cells {
                pages[slot] = sums(&pages[slot], &theirs);
            }
        }
    }

    /// Pages in ascending order: (number, counts).
    fn pages(&self) -> impl DoubleEndedIterator<Item = (usize, [u64; PAGE])> {
        let present = self.slots.iter().enumerate().filter(|(_, slot)| **slot != ABSENT);
        present.map(|(number, slot)| {
            let page = match &self.cells {
                Cells::Narrow(pages) => pages[usize::from(*slot)].map(u64::from),
                Cells::Wide(pages) => pages[usize::from(*slot)],
            };
            (number, page)
        })
    }

    /// Buckets with samples, in ascending order: (index, samples).
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        self.pages().flat_map(|(number, page)| {
            let cells = page.into_iter().enumerate().filter(|(_, n)| *n > 0);
            cells.map(move |(cell, n)| (number * PAGE + cell, n))
        })
    }

    /// The bucket in which the sample of `rank` (1 = smallest) fell.
    #[must_use]
    pub fn index_at_rank(&self, rank: u64) -> Option<usize> {
        let mut seen = 0_u64;
        for (number, page) in self.pages() {
            // Most pages lie below, and are passed as a whole.
            let with_page = page.iter().fold(seen, |sum, n| sum.saturating_add(*n));
            if with_page < rank {
                seen = with_page;
                continue;
            }
            for (cell, n) in page.iter().enumerate().filter(|(_, n)| **n > 0) {
                seen = seen.saturating_add(*n);
                if seen >= rank {
                    return Some(number * PAGE + cell);
                }
            }
        }
        None
    }

    /// Heap bytes in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let cells = match &self.cells {
            Cells::Narrow(pages) => pages.capacity() * size_of::<[u16; PAGE]>(),
            Cells::Wide(pages) => pages.capacity() * size_of::<[u64; PAGE]>(),
        };
        cells + self.slots.capacity() * size_of::<u16>()
    }
}

/// Equal when every bucket is, in whatever order and width they came to be.
impl PartialEq for Counts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Counts {}

/// Appends a page and says where; an eighth more room than is in use is enough, as there are
/// many of these vectors and each grows seldom.
fn push<P>(pages: &mut Vec<P>, page: P) -> usize {
    if pages.len() == pages.capacity() {
        pages.reserve_exact(pages.len() / 8 + 1);
    }
    pages.push(page);
    pages.len() - 1
}

#[inline]
fn slot_of(slots: &[u16], index: usize) -> usize {
    usize::from(slots.get(index / PAGE).copied().unwrap_or(ABSENT))
}

#[inline]
fn added_narrow(slots: &[u16], pages: &mut [[u16; PAGE]], index: usize, n: u64) -> bool {
    let Some(page) = pages.get_mut(slot_of(slots, index)) else { return false };
    let cell = &mut page[index % PAGE];
    let Ok(sum) = u16::try_from(n.saturating_add(u64::from(*cell))) else { return false };
    *cell = sum;
    true
}

#[inline]
fn added_wide(slots: &[u16], pages: &mut [[u64; PAGE]], index: usize, n: u64) -> bool {
    let Some(page) = pages.get_mut(slot_of(slots, index)) else { return false };
    let cell = &mut page[index % PAGE];
    *cell = cell.saturating_add(n);
    true
}

/// Adds what finds a page with cells wide enough; the rest waits.
fn add_narrow(
    slots: &[u16],
    pages: &mut [[u16; PAGE]],
    payload: &[u8],
    waiting: &mut Vec<(usize, u64)>,
) {
    let mut reader = Reader::of(payload);
    loop {
        while let Some((index, eight)) = reader.eight() {
            let page = pages.get_mut(slot_of(slots, index));
            let (Some(page), true) = (page, index % PAGE + eight.span() <= PAGE) else {
                eight.each(index, |index, n| {
                    if !added_narrow(slots, pages, index, n) && n > 0 {
                        waiting.push((index, n));
                    }
                });
                continue;
            };
            #[expect(clippy::cast_possible_truncation, reason = "that is its place in the page")]
            let at = index as u8;
            for (at, n) in eight.numbers(at) {
                let cell = &mut page[usize::from(at)];
                match cell.checked_add(u16::from(n)) {
                    Some(sum) => *cell = sum,
                    None => waiting.push((index / PAGE * PAGE + usize::from(at), n.into())),
                }
            }
        }
        if let Some((index, few)) = reader.few() {
            few.each(index, |index, n| {
                if !added_narrow(slots, pages, index, n) && n > 0 {
                    waiting.push((index, n));
                }
            });
        }
        let Some((index, n)) = reader.any() else { return };
        if !added_narrow(slots, pages, index, n) && n > 0 {
            waiting.push((index, n));
        }
    }
}

fn sums(ours: &[u64; PAGE], theirs: &[u64; PAGE]) -> [u64; PAGE] {
    std::array::from_fn(|cell| ours[cell].saturating_add(theirs[cell]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_behave_like_a_sorted_map(
            adds in prop::collection::vec(
                (0..layout::LEN, prop_oneof![0..5_u64, 65_000..66_000_u64]), 0..200,
            ),
            rank in 1..1_000_u64,
        ) {
            let mut counts = Counts::default();
            let mut model = BTreeMap::new();
            for (index, n) in adds.into_iter().filter(|(_, n)| *n > 0) {
                counts.add(index, n);
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
        ) {
            let counts = |adds: &[(usize, u64)]| {
                let mut counts = Counts::default();
                adds.iter().for_each(|(index, n)| counts.add(*index, *n));
                counts
            };
            let mut merged = counts(&one);
            merged.merge(&counts(&two));
            prop_assert_eq!(merged, counts(&[two, one].concat()));
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
    }
}
