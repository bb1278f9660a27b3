//! The one bucket layout of the mesh: HDR, unit 1 ns, 1 us to 1 h, 3 significant digits.
//!
//! Buckets double in width: the first 2 048 are 512 ns wide, then each further 1 024 cover the next
//! doubling. The same arithmetic as in every HdrHistogram library configured with (1 000, 3 600 000
//! 000 000, 3), which a test checks against the `hdrhistogram` crate.
//!
//! DESIGN S1.

/// Lowest value distinguished from zero, in nanoseconds (1 us).
pub const LOW_NS: u64 = 1_000;
/// Highest value, in nanoseconds (1 h).
pub const MAX_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits.
pub const DIGITS: u8 = 3;
/// Number of buckets that can hold a value up to [`MAX_NS`].
pub const LEN: usize = index_of(MAX_NS) + 1;

/// log2 of the narrowest bucket: the largest power of two not above [`LOW_NS`].
const UNIT_BITS: u32 = LOW_NS.ilog2();
/// log2 of half the buckets of one doubling group: 2 * 10^3 rounded up to 2^11, halved.
const HALF_BITS: u32 = 10;
const HALF: u64 = 1 << HALF_BITS;

/// The bucket that holds `value_ns`, which must not exceed [`MAX_NS`].
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "below 2^15 for values up to MAX_NS")]
pub const fn index_of(value_ns: u64) -> usize {
    // The low bits are set so that all values of the first 2 048 buckets are of group 0.
    let top_bit = (value_ns | ((1 << (UNIT_BITS + HALF_BITS + 1)) - 1)).ilog2();
    let group = top_bit - UNIT_BITS - HALF_BITS;
    ((group as u64) * HALF + (value_ns >> (group + UNIT_BITS))) as usize
}

/// The smallest value of a bucket, in nanoseconds.
#[must_use]
pub const fn lowest(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * HALF {
        return index << UNIT_BITS;
    }
    let group = index / HALF - 1;
    (index - group * HALF) << (group + UNIT_BITS as u64)
}

/// The largest value of a bucket, in nanoseconds.
#[must_use]
pub const fn highest(index: usize) -> u64 {
    lowest(index + 1) - 1
}

/// An empty histogram of the reference library in this layout.
#[cfg(test)]
pub(super) fn reference() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(LOW_NS, MAX_NS, DIGITS)
        .expect("the layout's bounds are valid")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_tile_the_whole_range() {
        for index in 0..LEN {
            assert_eq!(index_of(lowest(index)), index);
            assert_eq!(index_of(highest(index)), index);
        }
        assert_eq!(LEN, index_of(MAX_NS) + 1);
        assert!(lowest(LEN - 1) <= MAX_NS && MAX_NS <= highest(LEN - 1));
    }

    proptest! {
        #[test]
        fn bucket_edges_equal_those_of_the_reference_library(value in 0..=MAX_NS) {
            let reference = reference();
            prop_assert_eq!(lowest(index_of(value)), reference.lowest_equivalent(value));
            prop_assert_eq!(highest(index_of(value)), reference.highest_equivalent(value));
        }
    }
}
