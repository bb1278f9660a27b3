//! Checks a V2 payload from outside and brings it into the one canonical form that every
//! HdrHistogram library writes: no run beside a run, none at the end, no number longer than need
//! be.

use std::borrow::Cow;

use super::error::CodecError;
use super::exact::BucketSpan;
use super::layout;
use super::numbers::{
    Eight, HIGH, ONES, across, empty, in_lanes, read_number, split_eight, split_first_run,
    split_short, sum, used,
};
use super::payload::Buckets;
use super::writer::Writer;

/// A payload that is in range and canonical: equal distributions have equal bytes, and one
/// without samples has none.
#[derive(Debug)]
pub(super) struct CheckedPayload<'a> {
    pub(super) payload: Cow<'a, [u8]>,
    /// All samples.
    pub(super) total: u64,
    /// The bucket after the last.
    end: usize,
}

impl CheckedPayload<'_> {
    /// The first and the last bucket with samples.
    pub(super) fn edges(&self) -> Option<BucketSpan> {
        let first = split_first_run(&self.payload).0;
        self.end.checked_sub(1).map(|last| BucketSpan { first, last })
    }
}

/// Numbers that are checked together if all are short.
const WIDE: usize = 32;

/// Totals of the numbers read so far.
#[derive(Default)]
struct Scan {
    total: u64,
    /// The bucket of the next count.
    index: usize,
    /// The highest bit of the lowest byte when the last number was a run.
    run: u64,
    /// Other than zero once something was not canonical.
    odd: u64,
}

impl Scan {
    /// Takes `len` numbers of one byte each.
    #[inline]
    fn short(&mut self, word: u64, len: usize) {
        let used = used(len);
        let eight = Eight::of(word, used);
        self.total += sum(eight.ns);
        self.index += eight.span();
        // The highest bit of a byte shows in each mask what holds for its number: 0 and all below
        // it are runs. Without a branch, see `numbers`.
        let zero_halves = !(((word >> 1) & !HIGH) + !HIGH) & HIGH & used;
        let negative = (word << 7) & HIGH;
        let runs = negative | zero_halves;
        // A run beside a run should be one; and -1 should be 0, which is the form of one empty
        // bucket.
        self.odd |= (runs & ((runs << 8) | self.run)) | (negative & zero_halves);
        self.run = (runs >> (8 * (len - 1))) & HIGH;
    }

    /// Takes `WIDE` numbers if each has one byte. The last byte of `bytes` is the first byte of the
    /// next number, of any length; it shows whether that number is a run.
    #[inline]
    fn wide(&mut self, bytes: &[u8; WIDE + 1]) -> bool {
        let (words, nexts) = (bytes[..WIDE].as_chunks().0, bytes[1..].as_chunks().0);
        // A highest bit means that a number goes on in the next byte.
        if words.iter().fold(0, |any, word| any | u64::from_le_bytes(*word)) & HIGH != 0 {
            return false;
        }
        let runs = |word: u64| (word << 7) & HIGH | !(((word >> 1) & !HIGH) + !HIGH) & HIGH;
        let (mut all, mut empty, mut odd) = (0, 0, 0);

        for (word, next) in words.iter().zip(nexts) {
            let (word, next) = (u64::from_le_bytes(*word), u64::from_le_bytes(*next));
            let (halves, ones) = ((word >> 1) & !HIGH, word & ONES);
            all += in_lanes(halves);
            empty += in_lanes(halves & (ones << 8).wrapping_sub(ones));
            odd |= runs(word) & (runs(next) | ((word << 7) & !((halves + !HIGH) & HIGH)));
        }

        let (all, empty) = (across(all), across(empty));
        self.total += all - empty;
        self.index += WIDE + usize::try_from(empty).unwrap_or(layout::LEN);
        self.odd |= odd | (self.run & runs(u64::from(bytes[0])));
        self.run = runs(u64::from(bytes[WIDE - 1])) & 0x80;
        true
    }

    /// Takes one number that took `len` bytes, the last of them `last`.
    fn number(&mut self, number: i64, len: usize, last: u8) -> Result<(), CodecError> {
        // A last byte without bits makes the number longer than it need be.
        self.odd |= u64::from(len > 1 && last == 0);
        if let Ok(n @ 1..) = u64::try_from(number) {
            self.total = self.total.checked_add(n).ok_or(CodecError::TooMany)?;
            self.index = self.index.saturating_add(1);
            self.run = 0;
            return Ok(());
        }
        self.odd |= self.run | u64::from(number == -1);
        self.run = HIGH & 0xff;
        self.index = self.index.saturating_add(empty(number));
        Ok(())
    }
}

/// Reads a payload from outside, of at most `samples_max` samples.
///
/// # Errors
/// When a number is cut off, or anything lies out of range.
pub(super) fn check(payload: &[u8], samples_max: u64) -> Result<CheckedPayload<'_>, CodecError> {
    let mut scan = Scan::default();
    let mut rest = payload;

    while !rest.is_empty() {
        while rest.first_chunk().is_some_and(|bytes| scan.wide(bytes)) {
            rest = &rest[WIDE..];
        }

        while let Some((word, after)) = split_eight(rest) {
            scan.short(word, 8);
            rest = after;
        }

        let (word, len) = split_short(rest);

        if len > 0 {
            scan.short(word, len);
            rest = &rest[len..];
        }

        if !rest.is_empty() {
            let before = rest;
            let number = read_number(&mut rest)?;
            let len = before.len() - rest.len();
            scan.number(number, len, before[len - 1])?;
        }

        if scan.index > layout::LEN {
            return Err(CodecError::OutOfRange);
        }
        if scan.total > samples_max {
            return Err(CodecError::TooMany);
        }
    }

    let (total, end) = (scan.total, scan.index);

    // Nearly every payload is canonical and is kept as it came; others are written anew, since
    // equal distributions must have equal bytes.
    if scan.odd == 0 && scan.run == 0 {
        return Ok(CheckedPayload { payload: Cow::Borrowed(payload), total, end });
    }
    let mut writer = Writer::default();
    Buckets::of(payload).for_each(|(index, n)| writer.push(index, n));
    let end = writer.next;
    Ok(CheckedPayload { payload: Cow::Owned(writer.into_bytes()), total, end })
}
