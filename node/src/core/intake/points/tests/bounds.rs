//! Whatever the buckets, every sample lies within the bounds that come out.

use proptest::prelude::*;

use super::*;

const PER_MS: f64 = 1e6;

/// How a producer sorts its samples.
#[derive(Clone, Debug)]
enum Sorting {
    Explicit(Vec<f64>),
    Exponential(i32),
}

fn sorting() -> impl Strategy<Value = Sorting> {
    let bounds = prop::collection::btree_set(1..4_000_u32, 0..20)
        .prop_map(|bounds| bounds.into_iter().map(|bound| f64::from(bound) / 10.0).collect());
    prop_oneof![bounds.prop_map(Sorting::Explicit), (-3..=5_i32).prop_map(Sorting::Exponential)]
}

/// Reports this many samples (in nanoseconds).
fn point(sorting: &Sorting, samples: &[u64], ends: bool, offer: &mut dyn FnMut(Latencies<'_>)) {
    let ms: Vec<f64> = samples.iter().map(|ns| *ns as f64 / PER_MS).collect();
    let (mut counts, mut first) = (vec![], 0);
    let buckets = match sorting {
        Sorting::Explicit(bounds) => {
            counts = vec![0; bounds.len() + 1];
            ms.iter().for_each(|ms| counts[bounds.partition_point(|bound| bound < ms)] += 1);
            Buckets::Explicit { bounds, counts: &counts }
        }
        Sorting::Exponential(scale) => {
            #[expect(clippy::cast_possible_truncation, reason = "far below 2^31")]
            let index = |ms: &f64| (ms.log2() * f64::from(*scale).exp2()).ceil() as i32 - 1;
            first = ms.iter().map(index).min().unwrap_or(first);
            for ms in &ms {
                let at = usize::try_from(index(ms) - first).unwrap();
                counts.resize(counts.len().max(at + 1), 0);
                counts[at] += 1;
            }
            let (scale, offset, positive) = (*scale, first, &counts[..]);
            let (zero, zero_threshold, negative) = (0, 0.0, 0);
            Buckets::Exponential { scale, zero, zero_threshold, offset, positive, negative }
        }
    };
    let end = |of: fn(f64, f64) -> f64| ms.iter().copied().reduce(of).filter(|_| ends);
    let (count, sum) = (samples.len() as u64, Some(ms.iter().sum()));
    let (min, max) = (end(f64::min), end(f64::max));
    offer(Latencies { count, sum, min, max, buckets, ..latencies(&[]) });
}

proptest! {
    #[test]
    fn every_sample_lies_within_the_bounds_of_its_rank(
        samples in prop::collection::vec(1_000..1_000_000_000_u64, 1..80),
        sorting in sorting(),
        cuts in prop::collection::vec(any::<bool>(), 80),
        is_delta in any::<bool>(),
        ends in any::<bool>(),
    ) {
        let (mut intake, mut began) = (intake(), 0);
        for (n, is_cut) in (1..=samples.len()).zip(cuts) {
            if !is_cut && n < samples.len() {
                continue;
            }
            let (first, start) = if is_delta { (began, began as u64) } else { (0, 0) };
            point(&sorting, &samples[first..n], ends, &mut |latencies| {
                let value = Value::Latencies(latencies);
                let offer_since = if is_delta { delta } else { since };
                assert!(recorded(&mut intake, &offer_since(start, n as u64, value)).is_ok());
            });
            began = n;
        }
        let histogram = closed(&mut intake).histograms.remove(0).1;
        let mut sorted = samples.clone();
        sorted.sort_unstable();
        prop_assert_eq!(histogram.count(), samples.len() as u64);
        for (rank, ns) in (1..).zip(sorted) {
            let found = histogram.at_rank(rank).unwrap();
            prop_assert!((found.lower_ns..=found.upper_ns).contains(&ns), "{rank} {ns} {found:?}");
            prop_assert!((found.lower_ns..=found.upper_ns).contains(&found.value_ns));
        }
        let sum: u64 = samples.iter().sum();
        prop_assert!(histogram.sum_ns().abs_diff(sum.into()) <= samples.len() as u128);
    }
}
