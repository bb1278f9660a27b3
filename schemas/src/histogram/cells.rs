//! Rows of counting cells of 16 or 64 bits. An amount that does not fit is never truncated; the
//! functions that do not check for room require that the caller has made it.

use super::layout;
use super::numbers::Eight;
use super::payload::PayloadReader;

/// A narrow cell up to this value takes many small amounts without a check for room.
pub(super) const HALF: u16 = 1 << 15;
/// Cells that are skipped at once when all are empty.
pub(super) const BLOCK: usize = 16;
/// A row begins and ends at multiples of this many buckets, so that it seldom has to grow.
pub(super) const PAGE: usize = 256;

pub(super) trait Cell: Copy + Default + PartialEq + Into<u64> {
    /// Adds an amount of at most [`SHORT_MAX`](super::numbers::SHORT_MAX), for which there is room.
    fn add(&mut self, n: u8);

    /// Adds if there is room.
    fn try_add(&mut self, n: u64) -> bool;
}

impl Cell for u16 {
    #[inline]
    fn add(&mut self, n: u8) {
        *self = self.wrapping_add(n.into());
    }

    #[inline]
    fn try_add(&mut self, n: u64) -> bool {
        let sum = n.saturating_add(u64::from(*self));
        // The other half is for amounts that are added without a check.
        let fits = sum <= u64::from(HALF);
        if fits {
            #[expect(clippy::cast_possible_truncation, reason = "it is not above the half")]
            let sum = sum as Self;
            *self = sum;
        }
        fits
    }
}

impl Cell for u64 {
    #[inline]
    fn add(&mut self, n: u8) {
        *self = self.saturating_add(n.into());
    }

    #[inline]
    fn try_add(&mut self, n: u64) -> bool {
        *self = self.saturating_add(n);
        true
    }
}

/// A longer row with `cells` in it, `before` new ones before them.
pub(super) fn moved<C: Cell>(cells: &[C], before: usize, len: usize) -> Vec<C> {
    let mut row = vec![C::default(); len];
    row[before..before + cells.len()].copy_from_slice(cells);
    row
}

/// Some counts, if there is a sample among them.
#[inline]
pub(super) fn block<C: Cell>(cells: &[C], at: usize) -> Option<[u64; BLOCK]> {
    let block = cells.get(at..)?.first_chunk::<BLOCK>()?.map(Into::into);
    block.iter().any(|n| *n > 0).then_some(block)
}

/// Visits cells with samples in ascending order. Which cells hold samples is practically random, so
/// the test has no branch.
#[inline(always)]
pub(super) fn each_used<C: Cell>(cells: &[C], mut visit: impl FnMut(usize, u64)) {
    for (number, page) in cells.as_chunks::<PAGE>().0.iter().enumerate() {
        let (mut used, mut len) = ([0; PAGE], 0);
        for (number, block) in page.as_chunks::<BLOCK>().0.iter().enumerate() {
            if *block == [C::default(); BLOCK] {
                continue;
            }
            for (at, n) in block.iter().enumerate() {
                used[len % PAGE] = number * BLOCK + at;
                len += usize::from(*n != C::default());
            }
        }
        used[..len].iter().for_each(|at| visit(number * PAGE + at, page[at % PAGE].into()));
    }
}

/// Adds what is left of a payload to cells of which the first is of bucket `first`, up to an
/// amount for which its cell has no room, or to what is out of range or no number. Amounts
/// elsewhere are left out.
#[inline(always)]
pub(super) fn add_all<C: Cell>(cells: &mut [C], first: usize, reader: &mut PayloadReader<'_>) {
    loop {
        while let Some((index, eight)) = reader.eight() {
            add_eight(cells, index.wrapping_sub(first), eight);
        }
        if let Some((index, few)) = reader.few() {
            add_eight(cells, index.wrapping_sub(first), few);
        }
        let before = *reader;
        let Some((index, n)) = reader.any() else { return };
        let cell = cells.get_mut(index.wrapping_sub(first));

        if reader.index > layout::LEN || n > 0 && cell.is_some_and(|cell| !cell.try_add(n)) {
            // The caller continues with this number once its cells are wide.
            *reader = before;
            return;
        }
    }
}

/// Adds amounts for which there is room, the first of them to cell `at`.
#[inline(always)]
fn add_eight<C: Cell>(cells: &mut [C], at: usize, eight: Eight) {
    let window = cells.get_mut(at..).and_then(<[C]>::first_chunk_mut::<256>);
    if let Some(window) = window.filter(|window| eight.span() <= window.len()) {
        eight.numbers().for_each(|(at, n)| window[usize::from(at)].add(n));
    } else {
        add_spread(cells, at, eight);
    }
}

/// As [`add_eight`], where the row ends soon or buckets lie far apart.
#[inline(never)]
fn add_spread<C: Cell>(cells: &mut [C], at: usize, eight: Eight) {
    eight.each(at, |at, n| {
        if let Some(cell) = cells.get_mut(at) {
            cell.add(n);
        }
    });
}

/// Adds narrow cells to narrow cells if no sum is above the [`HALF`].
pub(super) fn added_all(ours: &mut [u16], theirs: &[u16]) -> bool {
    // Two cells below the half cannot wrap, so the highest bit of any of the three shows a sum that
    // does not fit.
    let any = |any, (one, two): (&u16, &u16)| any | one | two | one.wrapping_add(*two);
    let fits = ours.iter().zip(theirs).fold(0, any) < HALF;
    if fits {
        ours.iter_mut().zip(theirs).for_each(|(one, two)| *one += two);
    }
    fits
}

pub(super) fn add_each<C: Cell>(ours: &mut [u64], theirs: &[C]) {
    for (one, two) in ours.iter_mut().zip(theirs) {
        *one = one.saturating_add((*two).into());
    }
}
