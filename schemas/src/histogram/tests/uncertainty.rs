//! The uncertainty of wide buckets, compared with the samples that were in them.

use proptest::prelude::*;

use crate::histogram::layout::{self, MAX_NS};
use crate::histogram::uncertainty::Within;
use crate::histogram::{Histogram, Over, ProducerBucket, Quantile};

const MS: u64 = 1_000_000;

/// One sample as it was, and the least and the most that it may be as its producer states.
type Sample = (u64, u64, u64);

/// Samples with the bounds that one producer reports: `edges` are its buckets' edges, ascending.
fn summary(edges: &[u64], values: &[u64]) -> Vec<Sample> {
    let ends = |value: u64| {
        let at = edges.partition_point(|edge| *edge < value);
        let least = at.checked_sub(1).map_or(0, |before| edges[before] + 1);
        let most = edges.get(at).copied().unwrap_or(u64::MAX).min(MAX_NS);
        (value.min(MAX_NS), least.min(MAX_NS), most)
    };
    values.iter().map(|value| ends(*value)).collect()
}

fn within(edges: &[u64], values: &[u64], limits: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.watch(limits);
    let mut lower = 0;
    for upper in edges.iter().copied().chain([u64::MAX]) {
        let is_within = |value: &&u64| (**value > lower || lower == 0) && **value <= upper;
        let n = values.iter().filter(is_within).count() as u64;
        histogram.record_within(lower, upper, n);
        lower = upper;
    }
    histogram
}

fn one_by_one(values: &[u64], limits: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.watch(limits);
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

/// The least and the most of the sample of `rank`, worked out from each sample's own.
fn oracle(samples: &[Sample], rank: u64) -> (u64, u64) {
    let at = usize::try_from(rank).unwrap() - 1;
    let mut least: Vec<_> = samples.iter().map(|(_, least, _)| *least).collect();
    let mut most: Vec<_> = samples.iter().map(|(_, _, most)| *most).collect();
    least.sort_unstable();
    most.sort_unstable();
    (least[at], most[at])
}

fn truly(samples: &[Sample], rank: u64) -> u64 {
    let mut values: Vec<_> = samples.iter().map(|(value, ..)| *value).collect();
    values.sort_unstable();
    values[usize::try_from(rank).unwrap() - 1]
}

#[test]
fn a_quantile_is_known_within_its_producers_bucket_and_no_wider() {
    let edges = [5, 10, 25, 50].map(|ms| ms * MS);
    let values: Vec<u64> = (1..=100).map(|n| n * MS / 2).collect();
    let histogram = within(&edges, &values, &[]);
    for (quantile, over_ms, upto_ms) in [(0.1, 0, 5), (0.5, 10, 25), (0.51, 25, 50), (1.0, 25, 50)]
    {
        let Quantile { lower_ns, value_ns, upper_ns } = histogram.quantile(quantile).unwrap();
        assert!(lower_ns <= value_ns && value_ns <= upper_ns);
        let bounds = [lower_ns, upper_ns].map(layout::index_of);
        assert_eq!(bounds, [over_ms * MS + 1, upto_ms * MS].map(layout::index_of), "{quantile}");
    }
    assert_eq!((histogram.count(), histogram.is_approximate()), (100, true));
}

#[test]
fn a_bucket_without_an_end_reaches_to_an_hour() {
    let mut histogram = Histogram::default();
    histogram.record_within(10_000 * MS, u64::MAX, 7);
    histogram.record_within(2 * MAX_NS, u64::MAX, 1);
    let ends = |rank| histogram.at_rank(rank).map(|found| (found.lower_ns / MS, found.upper_ns));
    assert_eq!(histogram.count(), 8);
    assert_eq!(ends(7), Some((9_999, MAX_NS)));
    assert_eq!(ends(8), Some((layout::lowest(layout::LEN - 1) / MS, MAX_NS)));
}

#[test]
fn a_bucket_of_one_value_or_of_none_leaves_nothing_open() {
    let mut histogram = Histogram::default();
    histogram.record_within(5, 6, 3);
    histogram.record_within(9, 8, 1);
    histogram.record_within(0, 100, 0);
    assert_eq!(histogram, one_by_one(&[6, 6, 6, 8], &[]));
}

#[test]
fn the_share_over_an_edge_is_exact_and_over_other_limits_uncertain() {
    let edges = [10 * MS, 25 * MS];
    let limits = [10 * MS, 18 * MS, 25 * MS, 25 * MS + 1];
    let histogram = within(&edges, &[MS, 11 * MS, 24 * MS, 60 * MS], &limits);
    let over = |limit| {
        let Over { over, uncertain } = histogram.over(limit);
        (over, uncertain)
    };
    assert_eq!(limits.map(over), [(3, 0), (1, 2), (1, 0), (0, 1)]);
}

#[test]
fn a_producers_sum_is_used_within_its_buckets_bounds() {
    let sums = |stated: u64| {
        let mut histogram = within(&[10 * MS, 20 * MS], &[11 * MS, 19 * MS], &[]);
        histogram.state_sum(stated.into());
        u64::try_from(histogram.sum_ns()).unwrap()
    };
    assert_eq!(sums(30_000_001), 30_000_001);
    assert!((20 * MS - 20_000..=20 * MS).contains(&sums(5)));
    assert!((40 * MS..40 * MS + 40_000).contains(&sums(u64::MAX)));
    let mut exact = one_by_one(&[3], &[]);
    exact.state_sum(4);
    assert_eq!(exact.sum_ns(), 3);
}

#[test]
fn samples_are_counted_evenly_and_at_few_places() {
    for (least, most, n, places) in [
        (10 * MS, 25 * MS, 1_000_000_000_001, 16),
        (10 * MS, 25 * MS, 3, 3),
        (10 * MS, 11 * MS, 1_000, 2),
        (1, MAX_NS, u64::MAX, 16),
    ] {
        let found: Vec<_> = Within::new(least, most, n).places().collect();
        assert_eq!(found.len(), places);
        assert!(found.is_sorted_by_key(|place| place.value_ns));
        assert!(found.iter().all(|place| (least..=most).contains(&place.value_ns)));
        let even = |share: u64| share.abs_diff(n / places as u64) <= 1;
        assert!(found.iter().all(|place| even(place.n)), "{found:?}");
        assert_eq!(found.iter().map(|place| place.n).sum::<u64>(), n);
    }
}

/// Each place by a division of its own: (bucket, value, samples).
fn divided(least: u64, most: u64, n: u64) -> Vec<(usize, u64, u64)> {
    let [first, last] = [least, most].map(layout::index_of);
    let span = (last + 1 - first) as u128;
    let places = span.div_ceil(64).min(16).min(n.into());
    let upto = |place: u128| u64::try_from(u128::from(n) * place / places).unwrap();
    let place = |place: u128| {
        let index = first + usize::try_from(span * (2 * place + 1) / (2 * places)).unwrap();
        let middle = layout::lowest(index).midpoint(layout::highest(index));
        (index, middle.clamp(least, most), upto(place + 1) - upto(place))
    };
    (0..places).map(place).collect()
}

proptest! {
    #[test]
    fn places_found_step_by_step_are_those_of_a_division_each(
        one in prop_oneof![0..=MAX_NS, MS..40 * MS],
        two in prop_oneof![0..=MAX_NS, MS..40 * MS],
        n in prop_oneof![1..40_u64, 1..=u64::MAX],
    ) {
        let (least, most) = (one.min(two), one.max(two));
        let found = Within::new(least, most, n).places();
        let found: Vec<_> = found.map(|place| (place.index, place.value_ns, place.n)).collect();
        prop_assert!(found.iter().all(|(index, value, _)| layout::index_of(*value) == *index));
        prop_assert_eq!(found, divided(least, most, n));
    }

    #[test]
    fn several_buckets_recorded_at_once_are_those_recorded_one_by_one(
        edges in edges(),
        counts in prop::collection::vec(0..9_u64, 12),
        before in latencies(),
        limits in prop::collection::vec(1..=MAX_NS, 0..3),
    ) {
        let buckets = edges.windows(2).zip(&counts).map(|(ends, n)| ProducerBucket {
            over_ns: ends[0],
            upto_ns: ends[1],
            samples: *n,
        });
        let mut one_by_one = one_by_one(&before, &limits);
        let mut at_once = one_by_one.clone();
        for ProducerBucket { over_ns, upto_ns, samples } in buckets.clone() {
            one_by_one.record_within(over_ns, upto_ns, samples);
        }
        at_once.record_all_within(buckets, 3);
        prop_assert_eq!(at_once, one_by_one);
    }
}

prop_compose! {
    fn latencies()(values in prop::collection::vec(
        prop_oneof![0..3_000_u64, MS..40 * MS, 0..=2 * MAX_NS], 0..40,
    )) -> Vec<u64> { values }
}

prop_compose! {
    fn edges()(mut edges in prop::collection::vec(
        prop_oneof![1..3_000_u64, MS..40 * MS, 1..=MAX_NS], 0..12,
    )) -> Vec<u64> {
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

/// Histograms of several producers, `None` being one that reports each sample.
fn producers() -> impl Strategy<Value = Vec<(Option<Vec<u64>>, Vec<u64>)>> {
    prop::collection::vec((prop::option::weighted(0.7, edges()), latencies()), 1..6)
}

proptest! {
    #[test]
    fn the_true_sample_of_each_rank_lies_within_bounds_after_any_merge(
        producers in producers(), limits in prop::collection::vec(1..=MAX_NS, 0..3),
    ) {
        let (mut merged, mut all) = (Histogram::default(), Vec::new());
        for (edges, values) in &producers {
            match edges {
                Some(edges) => {
                    merged.merge(&within(edges, values, &limits));
                    all.extend(summary(edges, values));
                }
                None => {
                    values.iter().for_each(|value| merged.record(*value));
                    let values = values.iter().map(|ns| (*ns).min(MAX_NS));
                    all.extend(values.map(|ns| (ns, ns, ns)));
                }
            }
        }
        prop_assert_eq!(merged.count(), all.len() as u64);
        for rank in (1..=merged.count()).step_by(1 + all.len() / 20) {
            let Quantile { lower_ns, value_ns, upper_ns } = merged.at_rank(rank).unwrap();
            let truly = truly(&all, rank);
            prop_assert!(lower_ns <= truly && truly <= upper_ns, "{lower_ns} {truly} {upper_ns}");
            prop_assert!(lower_ns <= value_ns && value_ns <= upper_ns);
            // Nothing that the producers state allows a closer one, but for our own buckets.
            let (least, most) = oracle(&all, rank);
            prop_assert_eq!(layout::index_of(lower_ns), layout::index_of(least));
            prop_assert_eq!(layout::index_of(upper_ns), layout::index_of(most));
        }
    }

    #[test]
    fn the_true_share_over_a_limit_lies_within_bounds(
        producers in producers(),
        limits in prop::collection::vec(prop_oneof![MS..40 * MS, 1..=MAX_NS], 1..5),
        watched in 0..5_usize,
    ) {
        let (mut merged, mut all) = (Histogram::default(), Vec::new());
        for (edges, values) in &producers {
            let watched = &limits[..watched.min(limits.len())];
            merged.merge(&match edges {
                Some(edges) => within(edges, values, watched),
                None => one_by_one(values, watched),
            });
            all.extend(values.iter().map(|value| (*value).min(MAX_NS)));
        }
        for limit in limits {
            let Over { over, uncertain } = merged.over(limit);
            let truly = all.iter().filter(|value| **value > limit).count() as u64;
            prop_assert!((over..=over + uncertain).contains(&truly), "{over} {truly} {uncertain}");
        }
    }

    #[test]
    fn merging_in_any_order_is_equal(producers in producers()) {
        let parts: Vec<Histogram> = producers.iter().map(|(edges, values)| match edges {
            Some(edges) => within(edges, values, &[18 * MS]),
            None => one_by_one(values, &[18 * MS]),
        }).collect();
        let merged = |parts: &mut dyn Iterator<Item = &Histogram>| {
            let mut sum = Histogram::default();
            parts.for_each(|part| sum.merge(part));
            sum
        };
        let (one, two) = parts.split_at(parts.len() / 2);
        let mut nested = merged(&mut two.iter());
        nested.merge(&merged(&mut one.iter()));
        prop_assert_eq!(merged(&mut parts.iter()), merged(&mut parts.iter().rev()));
        prop_assert_eq!(merged(&mut parts.iter()), nested);
    }

    #[test]
    fn a_stated_sum_that_is_true_is_kept(edges in edges(), values in latencies()) {
        let mut histogram = within(&edges, &values, &[]);
        let sum = values.iter().map(|value| u128::from((*value).min(MAX_NS))).sum();
        histogram.state_sum(sum);
        if histogram.is_approximate() {
            prop_assert_eq!(histogram.sum_ns(), sum);
        }
    }
}
