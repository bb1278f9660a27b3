//! The numbers of a V2 payload: ZigZag varints, one by one or up to eight short ones at once.
//!
//! Most numbers take one byte, and whether a bucket is followed by a run of empty ones is
//! practically random. So the bytes of a word are decoded together, and no branch tests the kind of
//! a single number.

use super::error::CodecError;
use super::layout;

/// One in each byte, and the highest bit of each.
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;
pub(super) const HIGH: u64 = 0x80 * ONES;

/// The most samples in a number of one byte.
pub(super) const SHORT_MAX: u8 = 63;

/// At most eight numbers of one byte each.
#[derive(Clone, Copy)]
pub(super) struct Eight {
    /// A byte each: samples; 0 for a run.
    pub(super) ns: u64,
    /// A byte each: buckets, 1 for a count; 0 where no number is.
    steps: u64,
}

impl Eight {
    #[inline]
    pub(super) fn of(word: u64, used: u64) -> Self {
        let halves = (word >> 1) & !HIGH;
        let negative = (word & ONES) * 0xff;
        Self { ns: halves & !negative, steps: (ONES & used) + (halves & negative) }
    }

    /// Buckets in all.
    pub(super) fn span(self) -> usize {
        usize::try_from(sum(self.steps)).unwrap_or(layout::LEN)
    }

    /// For each number how many buckets lie before it, of at most 256 in all, and its samples.
    #[inline]
    pub(super) fn numbers(self) -> impl Iterator<Item = (u8, u8)> {
        // The product has in each byte the sum of all bytes up to it: eight sums for one
        // multiplication.
        let before = self.steps.wrapping_mul(ONES) << 8;
        before.to_le_bytes().into_iter().zip(self.ns.to_le_bytes())
    }

    /// Visits its numbers, the first of which is about bucket `index`.
    #[inline]
    pub(super) fn each(self, mut index: usize, mut visit: impl FnMut(usize, u8)) {
        for (step, n) in self.steps.to_le_bytes().into_iter().zip(self.ns.to_le_bytes()) {
            visit(index, n);
            index = index.wrapping_add(step.into());
        }
    }
}

/// The sum of eight bytes of at most 64.
pub(super) const fn sum(bytes: u64) -> u64 {
    across(in_lanes(bytes))
}

/// The sums of two bytes each in four lanes.
pub(super) const fn in_lanes(bytes: u64) -> u64 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    (bytes & EVEN) + ((bytes >> 8) & EVEN)
}

/// The sum of four lanes.
pub(super) const fn across(lanes: u64) -> u64 {
    lanes.wrapping_mul(0x0001_0001_0001_0001) >> 48
}

/// Eight numbers of one byte each, if `bytes` begins with them, and what follows.
#[inline]
pub(super) fn split_eight(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (eight, rest) = bytes.split_first_chunk()?;
    let word = u64::from_le_bytes(*eight);
    (word & HIGH == 0).then_some((word, rest))
}

/// The numbers of one byte with which `bytes` begins, fewer than eight, and how many they are.
#[inline]
pub(super) fn split_short(bytes: &[u8]) -> (u64, usize) {
    // What is missing looks like a number that goes on, which ends the short ones.
    let mut word = [0x80; 8];
    match bytes.first_chunk() {
        Some(eight) => word = *eight,
        None => word[..bytes.len()].copy_from_slice(bytes),
    }
    let word = u64::from_le_bytes(word);
    let len = ((word & HIGH).trailing_zeros() / 8) as usize;
    (word & !(u64::MAX << (8 * len)), len)
}

/// All bits of the lowest `len` bytes, of which there is at least one.
#[inline]
pub(super) const fn used(len: usize) -> u64 {
    u64::MAX >> (64 - 8 * len)
}

/// Reads one ZigZag LEB128-64b9B number: seven bits a byte, the ninth byte whole.
#[inline]
pub(super) fn read_number(bytes: &mut &[u8]) -> Result<i64, CodecError> {
    let value = match **bytes {
        [low @ ..0x80, ref rest @ ..] => {
            *bytes = rest;
            u64::from(low)
        }
        [low, high @ ..0x80, ref rest @ ..] => {
            *bytes = rest;
            u64::from(low & 0x7f) | (u64::from(high) << 7)
        }
        _ => read_long(bytes)?,
    };
    Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

fn read_long(bytes: &mut &[u8]) -> Result<u64, CodecError> {
    let mut value = 0_u64;
    for position in 0..9 {
        let (first, rest) = bytes.split_first().ok_or(CodecError::Truncated)?;
        *bytes = rest;

        // Eight bytes of seven bits leave eight of the 64, which the ninth byte has whole.
        if position == 8 {
            value |= u64::from(*first) << 56;
            break;
        }

        value |= u64::from(first & 0x7f) << (7 * position);
        if first & 0x80 == 0 {
            break;
        }
    }

    Ok(value)
}

/// The empty buckets before the first count of a checked payload, and what follows them.
pub(super) fn split_first_run(payload: &[u8]) -> (usize, &[u8]) {
    let mut rest = payload;
    match read_number(&mut rest) {
        Ok(number @ ..=0) => (empty(number), rest),
        _ => (0, payload),
    }
}

/// Number of empty buckets that a number which is no count represents.
pub(super) fn empty(number: i64) -> usize {
    usize::try_from(number.unsigned_abs()).map_or(layout::LEN, |run| run.max(1))
}
