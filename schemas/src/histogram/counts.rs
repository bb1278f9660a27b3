//! Bucket counts in pages that exist only where samples fell.
//!
//! A dense array of the layout takes 190 KiB for each series; the latencies of one operation
//! touch a few of its pages. Adding, merging and walking cost in proportion to those.

use super::layout;

const PAGE_BITS: usize = 6;
const PAGE: usize = 1 << PAGE_BITS;

type Page = [u64; PAGE];

/// How many samples fell into each bucket of the [`layout`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Page `n` holds buckets `n * 64 ..`; never ends in an absent page.
    pages: Vec<Option<Box<Page>>>,
}

impl Counts {
    /// Adds `n` samples to one bucket; an index outside the layout is a bug of the caller.
    #[inline]
    pub fn add(&mut self, index: usize, n: u64) {
        debug_assert!(index < layout::LEN, "bucket {index} is outside the layout");
        if n == 0 {
            return;
        }
        let page = match self.pages.get_mut(index >> PAGE_BITS) {
            Some(Some(page)) => page,
            _ => self.page(index >> PAGE_BITS),
        };
        let cell = &mut page[index % PAGE];
        *cell = cell.saturating_add(n);
    }

    fn page(&mut self, number: usize) -> &mut Page {
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, || None);
        }
        self.pages[number].get_or_insert_with(|| Box::new([0; PAGE]))
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (number, theirs) in other.pages.iter().enumerate() {
            let Some(theirs) = theirs else { continue };
            let ours = self.page(number);
            for (our, their) in ours.iter_mut().zip(theirs.iter()) {
                *our = our.saturating_add(*their);
            }
        }
    }

    /// Buckets with samples, in ascending order: (index, samples).
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            page.iter().flat_map(move |page| {
                page.iter()
                    .enumerate()
                    .filter(|(_, n)| **n > 0)
                    .map(move |(cell, n)| ((number << PAGE_BITS) + cell, *n))
            })
        })
    }

    /// The bucket in which the sample of `rank` (1 = smallest) fell.
    #[must_use]
    pub fn index_at_rank(&self, rank: u64) -> Option<usize> {
        let mut seen = 0_u64;
        self.iter()
            .find(|(_, n)| {
                seen = seen.saturating_add(*n);
                seen >= rank
            })
            .map(|(index, _)| index)
    }

    /// Heap bytes in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count();
        pages * size_of::<Page>() + self.pages.capacity() * size_of::<Option<Box<Page>>>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_behave_like_a_sorted_map(
            adds in prop::collection::vec((0..layout::LEN, 0..5_u64), 0..200),
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
    }

    #[test]
    fn one_narrow_distribution_takes_little_memory() {
        let mut counts = Counts::default();
        for value in (1_000_000..2_000_000).step_by(500) {
            counts.add(layout::index_of(value), 1);
        }
        assert!(counts.heap_bytes() < 20 * 1024, "{} bytes", counts.heap_bytes());
    }
}
