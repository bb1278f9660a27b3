//! Differences against those of maps from bucket to count.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Samples by bucket as a producer reports them, without empty ends.
fn given(scale: i32, counts: &BTreeMap<i64, u64>) -> (i64, Vec<u64>) {
    let Some((first, last)) = counts.keys().next().zip(counts.keys().next_back()) else {
        return (i64::from(scale), vec![]);
    };
    (*first, (*first..=*last).map(|index| counts.get(&index).copied().unwrap_or(0)).collect())
}

/// The same in buckets `by` doublings wider.
fn widened(counts: &BTreeMap<i64, u64>, by: i32) -> BTreeMap<i64, u64> {
    let mut wider = BTreeMap::new();
    for (index, n) in counts {
        *wider.entry(index.div_euclid(1 << by)).or_default() += n;
    }
    wider
}

fn buckets() -> impl Strategy<Value = BTreeMap<i64, u64>> {
    prop::collection::btree_map(-40..40_i64, 1..4_u64, 0..12)
}

proptest! {
    #[test]
    fn a_difference_is_that_of_each_bucket_in_the_wider_of_two_scales(
        before in buckets(),
        more in buckets(),
        less in prop::option::of(-40..40_i64),
        scales in (0..4_i32, 0..4_i32),
        zeros in (0..3_u64, 0..3_u64),
    ) {
        let scale = scales.0.min(scales.1);
        let mut now = before.clone();
        more.iter().for_each(|(index, n)| *now.entry(*index).or_default() += n);
        if let Some(n) = less.and_then(|index| now.get_mut(&index)) {
            *n -= 1;
        }
        now.retain(|_, n| *n > 0);
        // Both were made at scale 3.
        let (before, now) = (widened(&before, 3 - scales.0), widened(&now, 3 - scales.1));
        let ((first, counts), (offset, nows)) = (given(scales.0, &before), given(scales.1, &now));
        let zero = zeros.0;
        let counts = &counts;
        let given = BucketCounts { layout: 1, scale: scales.0, zero, offset: first, counts };
        let mut kept = PreviousBuckets::nothing(&given);
        kept.replace(&given, None);
        let given =
            BucketCounts { scale: scales.1, zero: zeros.1, offset, counts: &nows, ..given };

        let (before, now) = (widened(&before, scales.0 - scale), widened(&now, scales.1 - scale));
        let mut expected = now.clone();
        let holds = zeros.1 >= zeros.0 && before.iter().all(|(index, n)| {
            expected.get_mut(index).is_some_and(|now| {
                let rest = now.checked_sub(*n);
                *now = rest.unwrap_or(0);
                rest.is_some()
            })
        });
        let mut difference = BucketDifference::default();
        let outcome = holds.then_some(()).ok_or(BucketMismatch::Decreased);
        prop_assert_eq!(difference.subtract(&given, &kept), outcome);
        if holds {
            let counted = difference.counts();
            prop_assert_eq!((counted.scale, counted.zero), (scale, zeros.1 - zeros.0));
            let rest: BTreeMap<_, _> =
                (counted.offset..).zip(counted.counts.iter().copied()).collect();
            expected.retain(|_, n| *n > 0);
            let rest = rest.into_iter().filter(|(_, n)| *n > 0).collect::<BTreeMap<_, _>>();
            prop_assert_eq!(rest, expected);
        }
        let other = BucketCounts { layout: 2, ..given };
        prop_assert_eq!(difference.subtract(&other, &kept), Err(BucketMismatch::Layout));
    }
}

#[test]
fn twenty_buckets_take_as_many_bytes_as_their_counts() {
    let counts = [7; 21];
    let given = BucketCounts { layout: 1, scale: 0, zero: 0, offset: 0, counts: &counts };
    let mut kept = PreviousBuckets::nothing(&given);
    for _ in 0..3 {
        kept.replace(&given, None);
    }
    assert_eq!(kept.bytes(), 21 * 8);
}
