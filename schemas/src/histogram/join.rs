//! The sum of two packed payloads as a third, without counts in between.
//!
//! Which of the two has the next bucket is as good as random, so both are read into lists first,
//! and one loop without a branch on their order walks them side by side.

use super::numbers::split_first_run;
use super::payload::each;
use super::writer::Writer;

/// A bucket: index and samples.
type Bucket = (u32, u64);

/// Stands behind the last bucket.
const END: Bucket = (u32::MAX, 0);

/// The payload of all samples of `ours` and `theirs`; both are checked, and `ours` ends before
/// bucket `end`.
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
    let (ours, theirs) = (list(ours), list(theirs));
    let (mut our, mut their) = (0, 0);
    loop {
        let (one, two) = (ours[our], theirs[their]);
        let index = one.0.min(two.0);
        if index == END.0 {
            return writer;
        }
        let (in_one, in_two) = (one.0 == index, two.0 == index);
        let n = (one.1 * u64::from(in_one)).saturating_add(two.1 * u64::from(in_two));
        our += usize::from(in_one);
        their += usize::from(in_two);
        writer.push(index as usize, n);
    }
}

/// The buckets of a checked payload, and [`END`].
fn list(payload: &[u8]) -> Vec<Bucket> {
    let mut buckets = vec![(0, 0); payload.len() + 1];
    let mut len = 0;
    each(payload, |index, n| {
        buckets[len] = (u32::try_from(index).unwrap_or(END.0), n);
        len += usize::from(n > 0);
    });
    buckets.truncate(len);
    buckets.push(END);
    buckets
}
