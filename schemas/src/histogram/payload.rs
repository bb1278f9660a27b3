//! A V2 payload as a whole: counts of buckets in ascending order, and runs of empty ones.
//!
//! A positive number is a count; `-k` stands for `k` empty buckets, and so does a single 0 for
//! one. What comes from outside passes [`check`] first; all else here reads only what that let
//! through, or what a [`Writer`] wrote. The one form kept is canonical, the one that every
//! HdrHistogram library writes: no run beside a run, none at the end, no number longer than need
//! be.

use std::borrow::Cow;

use super::blur::{Blur, ToldBlur};
use super::codec::{self, CodecError};
use super::numbers::{
    Eight, HIGH, ONES, across, empty, in_lanes, read_number, split_eight, split_first_run,
    split_short, sum, used,
};
use super::writer::Writer;
use super::{ExactFigures, Over, Overs, Refused, layout};

/// A payload that is in range and canonical: equal distributions have equal bytes, and one
/// without samples has none.
#[derive(Debug)]
pub(super) struct Checked<'a> {
    pub(super) payload: Cow<'a, [u8]>,
    /// All samples.
    pub(super) total: u64,
    /// The bucket after the last.
    end: usize,
    samples_max: u64,
}

impl Checked<'_> {
    /// The first and the last bucket with samples.
    pub(super) fn edges(&self) -> Option<(usize, usize)> {
        let first = split_first_run(&self.payload).0;
        self.end.checked_sub(1).map(|last| (first, last))
    }

    /// Believes what is said beside the buckets, exact figures among it that agree with them.
    ///
    /// # Errors
    /// On what the buckets contradict.
    pub(super) fn believe(
        &self,
        exact: ExactFigures,
        overs: Overs,
        blur: Option<ToldBlur<'_>>,
    ) -> Result<(ExactFigures, Overs, Option<Blur>), Refused> {
        if let Some(told) = blur {
            let (blur, sum_ns, overs) = told.check(exact.count, &self.payload, self.samples_max)?;
            return Ok((ExactFigures { sum_ns, ..exact }, overs, Some(blur)));
        }
        overs.check(Some(&exact), |limit_ns| over(&exact, &self.payload, limit_ns))?;
        Ok((exact, overs, None))
    }
}

/// Numbers that are looked at together where none is long.
const WIDE: usize = 32;

/// What the numbers read so far come to.
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
        let zero_halves = !(((word >> 1) & !HIGH) + !HIGH) & HIGH & used;
        let negative = (word << 7) & HIGH;
        let runs = negative | zero_halves;
        self.odd |= (runs & ((runs << 8) | self.run)) | (negative & zero_halves);
        self.run = (runs >> (8 * (len - 1))) & HIGH;
    }

    /// Takes many numbers of one byte each, if they are such. Behind them stands the first byte
    /// of the next number, of any length, which tells whether that one is a run.
    #[inline]
    fn wide(&mut self, bytes: &[u8; WIDE + 1]) -> bool {
        let (words, nexts) = (bytes[..WIDE].as_chunks().0, bytes[1..].as_chunks().0);
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

/// Reads V2 bytes of at most `samples_max` samples, which are said to come to these figures.
///
/// # Errors
/// When the bytes are no histogram of the mesh's layout, or contradict the figures.
pub(super) fn check_v2<'a>(
    exact: &ExactFigures,
    bytes: &'a [u8],
    samples_max: u64,
) -> Result<Checked<'a>, Refused> {
    let checked = check(codec::check_header(bytes)?, samples_max)?;
    exact.check(checked.total, checked.edges()).map_err(Refused::Contradiction)?;
    Ok(checked)
}

/// Reads a payload from outside, of at most `samples_max` samples.
///
/// # Errors
/// When a number is cut off, or anything lies out of range.
pub(super) fn check(payload: &[u8], samples_max: u64) -> Result<Checked<'_>, CodecError> {
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
    if scan.odd == 0 && scan.run == 0 {
        return Ok(Checked { payload: Cow::Borrowed(payload), total, end, samples_max });
    }
    let mut writer = Writer::default();
    Buckets::of(payload).for_each(|(index, n)| writer.push(index, n));
    let end = writer.next;
    Ok(Checked { payload: Cow::Owned(writer.into_bytes()), total, end, samples_max })
}

/// Reads any payload, short numbers eight at a time.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
    /// The bucket of the next count.
    pub(super) index: usize,
    /// Samples so far.
    pub(super) total: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Self { rest: payload, index: 0, total: 0 }
    }

    /// The next eight numbers if all are short, and the bucket that the first is about.
    #[inline]
    pub(super) fn eight(&mut self) -> Option<(usize, Eight)> {
        let (word, rest) = split_eight(self.rest)?;
        self.rest = rest;
        Some(self.pass(Eight::of(word, u64::MAX)))
    }

    /// The next numbers as long as they are short, fewer than eight.
    #[inline]
    pub(super) fn few(&mut self) -> Option<(usize, Eight)> {
        let (word, len) = split_short(self.rest);
        self.rest = self.rest.get(len..).filter(|_| len > 0)?;
        Some(self.pass(Eight::of(word, used(len))))
    }

    #[inline]
    fn pass(&mut self, eight: Eight) -> (usize, Eight) {
        let index = self.index;
        self.index += eight.span();
        self.total = self.total.saturating_add(sum(eight.ns));
        (index, eight)
    }

    /// The next number, of any length: its bucket and its samples, 0 for a run.
    #[inline]
    pub(super) fn any(&mut self) -> Option<(usize, u64)> {
        let (mut rest, index) = (self.rest, self.index);
        let number = read_number(&mut rest).ok()?;
        let n = u64::try_from(number).unwrap_or(0);
        self.rest = rest;
        self.index += if n > 0 { 1 } else { empty(number) };
        self.total = self.total.saturating_add(n);
        Some((index, n))
    }
}

/// Visits the buckets of a checked payload in ascending order, and some empty ones with 0
/// samples: to leave these out would take a branch, which nobody could predict.
#[inline]
pub(super) fn each(payload: &[u8], mut visit: impl FnMut(usize, u64)) {
    let mut reader = Reader::of(payload);
    loop {
        while let Some((index, eight)) = reader.eight() {
            eight.each(index, |index, n| visit(index, n.into()));
        }
        if let Some((index, few)) = reader.few() {
            few.each(index, |index, n| visit(index, n.into()));
        }
        let Some((index, n)) = reader.any() else { return };
        visit(index, n);
    }
}

/// Samples over a limit, as far as a checked payload and its figures tell.
pub(super) fn over(exact: &ExactFigures, payload: &[u8], limit_ns: u64) -> Over {
    Over::from_buckets(exact, limit_ns, |own| beside(payload, own))
}

/// Samples in one bucket of a checked payload, and in all above it.
pub(super) fn beside(payload: &[u8], own: usize) -> (u64, u64) {
    let (mut within, mut above) = (0_u64, 0_u64);
    each(payload, |index, n| {
        within = within.saturating_add(if index == own { n } else { 0 });
        above = above.saturating_add(if index > own { n } else { 0 });
    });
    (within, above)
}

/// Buckets with samples of any payload without errors, in ascending order: (index, samples).
#[derive(Clone)]
pub(super) struct Buckets<'a> {
    payload: &'a [u8],
    index: usize,
}

impl<'a> Buckets<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Self { payload, index: 0 }
    }
}

impl Iterator for Buckets<'_> {
    type Item = (usize, u64);

    #[inline]
    fn next(&mut self) -> Option<(usize, u64)> {
        loop {
            let number = read_number(&mut self.payload).ok()?;
            if number > 0 {
                self.index += 1;
                return Some((self.index - 1, number.cast_unsigned()));
            }
            self.index += empty(number);
        }
    }
}
