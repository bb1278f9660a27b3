//! The sum of two packed payloads as a third, without counts in between.
//!
//! Which of the two has the next bucket is as good as random, so both are read into lists first,
//! and one loop without a branch on their order walks them side by side.

use super::numbers::split_first_run;
use super::payload::each;
use super::writer::Writer;

/// A bucket: index and samples.
type Bucket = (u32, u32);

/// Samples in a payload that a list has room for.
pub(super) const SAMPLES_MAX: u64 = u32::MAX as u64;

/// Stands behind the last bucket.
const END: Bucket = (u32::MAX, 0);

/// The payload of all samples of `ours` and `theirs`; both are checked and of at most
/// [`SAMPLES_MAX`] samples, and `ours` ends before bucket `end`.
pub(super) fn join(ours: &[u8], end: usize, theirs: &[u8]) -> Writer {
    let room = ours.len() + theirs.len();
    let (first, rest) = split_first_run(theirs);
    if first >= end {
        let mut writer = Writer::with_room(room);
        writer.append(ours, end);
        writer.append_run(first);
        writer.append(rest, first);
        return writer;
    }
    let mut writer = Writer::with_room(room);
    let sums = sums(&list(ours), &list(theirs));
    sums.into_iter().for_each(|(index, n)| writer.push(index as usize, n));
    writer
}

/// Every bucket of either list, with the samples of both.
fn sums(ours: &[Bucket], theirs: &[Bucket]) -> Vec<(u32, u64)> {
    let mut sums = vec![(0, 0); ours.len() + theirs.len()];
    let (mut our, mut their, mut len) = (0, 0, 0);
    while let (Some(one), Some(two), Some(sum)) =
        (ours.get(our), theirs.get(their), sums.get_mut(len))
    {
        let (from_one, from_two) = (u32::from(one.0 <= two.0), u32::from(two.0 <= one.0));
        *sum = (one.0.min(two.0), u64::from(one.1 * from_one) + u64::from(two.1 * from_two));
        our += from_one as usize;
        their += from_two as usize;
        len += 1;
    }
    // The last is that of the ends.
    sums.truncate(len.saturating_sub(1));
    sums
}

/// The buckets of a checked payload, and [`END`].
fn list(payload: &[u8]) -> Vec<Bucket> {
    let mut buckets = vec![(0, 0); payload.len() + 1];
    let mut len = 0;
    each(payload, |index, n| {
        #[expect(clippy::cast_possible_truncation, reason = "both were checked")]
        let bucket = (index as u32, n as u32);
        buckets[len] = bucket;
        len += usize::from(n > 0);
    });
    buckets.truncate(len);
    buckets.push(END);
    buckets
}
