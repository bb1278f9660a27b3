//! A writer and a flush against each other: every sample once, every reading whole.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;

use super::*;

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

proptest! {
    #[test]
    fn what_is_taken_in_parts_is_what_a_histogram_would_hold(
        parts in prop::collection::vec(
            prop::collection::vec(prop_oneof![0..3_000_u64, any::<u64>()], 0..40), 0..6,
        ),
    ) {
        let half = Half::new();
        for values in parts {
            values.iter().for_each(|value| half.record(*value));
            let clamped = values.iter().filter(|value| **value > layout::MAX_NS).count() as u64;
            prop_assert_eq!(half.untaken(), values.len() as u64);
            let expected = Samples { histogram: histogram(&values), clamped };
            prop_assert_eq!(half.take(), Some(expected));
            prop_assert_eq!(half.untaken(), 0);
        }
    }
}

#[test]
fn a_half_in_the_middle_of_a_record_is_left_alone() {
    let half = Half::new();
    half.record(5);
    add(&half.seq, 1);
    assert_eq!(half.take(), None);
    add(&half.seq, 1);
    assert!(half.take().is_some());
}

#[test]
fn a_sum_beyond_64_bits_is_exact() {
    let half = Half::new();
    half.sum_ns.store(u64::MAX - 10, Relaxed);
    half.taken_sum[0].store(u64::MAX - 10, Relaxed);
    half.record(1_000);
    half.record(2_000);
    assert_eq!(half.take().unwrap().histogram, histogram(&[1_000, 2_000]));
}

#[test]
fn a_late_record_without_extremes_is_stated_by_its_bucket() {
    let half = Half::new();
    half.record(7_000_000);
    half.min_ns.store(8_000_000, Relaxed);
    half.max_ns.store(8_000_000, Relaxed);
    let taken = half.take().unwrap().histogram;
    let bucket = layout::index_of(7_000_000);
    assert_eq!((taken.count(), taken.sum_ns()), (1, 7_000_000));
    assert_eq!((taken.min_ns(), taken.max_ns()), (layout::lowest(bucket), layout::highest(bucket)));
}

/// Reads of a half that is written to without a pause mostly fail; those that succeed return a
/// whole number of records, and in the end every record was read once.
#[test]
fn every_look_beside_a_busy_writer_sees_whole_records() {
    const RECORDS: u64 = 400_000;
    let half = Arc::new(Half::new());
    let done = Arc::new(AtomicBool::new(false));
    let writer = thread::spawn({
        let (half, done) = (half.clone(), done.clone());
        move || {
            // All alike within a reading, so that a torn one shows in sum, minimum and maximum.
            (0..RECORDS).for_each(|n| half.record(1_000_000 + n % 2 * 10_000));
            done.store(true, Release);
        }
    });
    let mut all = Histogram::default();
    loop {
        let ended = done.load(Acquire);
        if let Some(taken) = half.take() {
            let n = u128::from(taken.histogram.count());
            let odd = (taken.histogram.sum_ns() - 1_000_000 * n) / 10_000;
            let high = taken.histogram.counts().iter().nth(1).map_or(0, |(_, high)| high);
            assert!(n < 2 || u128::from(high) == odd, "{high} in the bucket, {odd} in the sum");
            all.merge(&taken.histogram);
            if ended {
                break;
            }
        }
    }
    writer.join().unwrap();
    assert_eq!(all.count(), RECORDS);
    assert_eq!(all.sum_ns(), u128::from(RECORDS) * 1_005_000);
}
