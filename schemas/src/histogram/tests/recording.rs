//! Results of a histogram, compared with its samples and the `hdrhistogram` crate.

use proptest::prelude::*;

use crate::histogram::layout::{MAX_NS, reference};
use crate::histogram::{Histogram, rank};

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

#[test]
fn an_empty_histogram_has_no_quantile() {
    assert_eq!(Histogram::default().quantile(0.5), None);
    assert_eq!(Histogram::default().at_rank(1), None);
}

#[test]
fn exact_figures_are_exact() {
    let one = histogram(&[9_000_000, 1, 20_000_123]);
    assert_eq!(
        (one.count(), one.sum_ns(), one.min_ns(), one.max_ns()),
        (3, 29_000_124, 1, 20_000_123)
    );
    assert_eq!(one.quantile(1.0).unwrap().value_ns, 20_000_123);
}

#[test]
fn a_value_above_an_hour_counts_as_an_hour() {
    let one = histogram(&[u64::MAX]);
    assert_eq!((one.max_ns(), one.sum_ns()), (MAX_NS, u128::from(MAX_NS)));
}

#[test]
fn ranks_follow_integer_arithmetic() {
    for count in 1..2_000_u64 {
        for permille in 1..=1000_u64 {
            #[expect(clippy::cast_precision_loss, reason = "small integers")]
            let quantile = permille as f64 / 1000.0;
            assert_eq!(rank(quantile, count), (count * permille).div_ceil(1000));
        }
    }
}

prop_compose! {
    fn latencies()(values in prop::collection::vec(
        prop_oneof![0..2_000_u64, 1_000_000..40_000_000_u64, 0..=MAX_NS], 0..300,
    )) -> Vec<u64> { values }
}

proptest! {
    #[test]
    fn merging_in_any_order_equals_recording_all(one in latencies(), two in latencies()) {
        let both = histogram(&[one.clone(), two.clone()].concat());
        let (one, two) = (histogram(&one), histogram(&two));
        let mut forward = one.clone();
        forward.merge(&two);
        let mut backward = two;
        backward.merge(&one);
        prop_assert_eq!(&forward, &both);
        prop_assert_eq!(&backward, &both);
    }

    #[test]
    fn a_quantile_lies_within_one_bucket_of_the_sorted_samples(
        mut values in latencies(), permille in 1..=1000_u32,
    ) {
        let histogram = histogram(&values);
        values.sort_unstable();
        let quantile = f64::from(permille) / 1000.0;
        let Some(found) = histogram.quantile(quantile) else {
            prop_assert!(values.is_empty());
            return Ok(());
        };
        let position = rank(quantile, values.len() as u64) - 1;
        let exact = values[usize::try_from(position).unwrap()];
        prop_assert!(found.lower_ns <= exact && exact <= found.value_ns);
        prop_assert!(found.value_ns - found.lower_ns <= 512.max(exact / 1000));
    }

    #[test]
    fn the_reference_library_has_equal_quantiles(
        values in latencies(), permille in 1..=1000_u32,
    ) {
        let mut reference = reference();
        values.iter().for_each(|value| reference.record(*value).unwrap());
        let histogram = histogram(&values);
        let quantile = f64::from(permille) / 1000.0;
        if let Some(found) = histogram.quantile(quantile) {
            let expected = reference.value_at_quantile(quantile - 1e-12);
            prop_assert_eq!(found.value_ns, expected.min(histogram.max_ns()));
        }
    }
}
