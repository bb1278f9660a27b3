//! A comparison must find exactly one sample more, one less, or one moved.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::own_operations::PUBLISH;
use plimsoll_schemas::summary::{Freshness, OperationRow};
use proptest::prelude::*;

use super::*;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn quantiles(samples: &[u64]) -> Quantiles {
    let mut histogram = Histogram::default();
    samples.iter().for_each(|ns| histogram.record(*ns));
    let mean = histogram.sum_ns().checked_div(u128::from(histogram.count())).unwrap_or(0);
    Quantiles {
        count: histogram.count(),
        mean_ns: u64::try_from(mean).unwrap(),
        min_ns: histogram.min_ns(),
        max_ns: histogram.max_ns(),
        p50_ns: histogram.quantile(0.5).map(|q| q.value_ns),
        p99_ns: histogram.quantile(0.99).map(|q| q.value_ns),
        approximate: None,
    }
}

fn row(scope: Scope, operation: &str, samples: &[u64]) -> OperationRow {
    OperationRow {
        scope,
        operation: operation.to_owned(),
        unit: None,
        own: operation == PUBLISH,
        freshness: Freshness::default(),
        total: quantiles(samples),
        windows: BTreeMap::new(),
    }
}

/// The summary of an aggregator whose nodes merged these samples of `op` and one `publish` each.
fn summary(merged: &[(&str, &[u64])]) -> Summary {
    let mut operations = Vec::new();
    let mut fleet = Vec::new();
    for (name, samples) in merged {
        fleet.extend_from_slice(samples);
        operations.push(row(Scope::Node(node(name)), "op", samples));
        operations.push(row(Scope::Node(node(name)), PUBLISH, &[7]));
    }
    operations.push(row(Scope::Fleet, "op", &fleet));
    Summary { operations, ..Summary::default() }
}

fn raw(sent: &[(&str, &[u64])]) -> Raw {
    let samples = |samples: &[u64]| samples.iter().map(|ns| ("op".to_owned(), *ns)).collect();
    sent.iter().map(|(name, sent)| (node(name), samples(sent))).collect()
}

#[test]
fn equal_samples_agree_in_every_scope() {
    let both: &[(&str, &[u64])] = &[("a", &[5_000_000, 9_000_001]), ("b", &[1_234_567])];
    let compared = compare(&raw(both), &summary(both));
    let scopes: Vec<&Scope> = compared.iter().map(|row| &row.scope).collect();
    assert_eq!(scopes, [&Scope::Fleet, &Scope::Node(node("a")), &Scope::Node(node("b"))]);
    assert_eq!(exact(&compared), Look::new(true, "3 samples of the jobs, 3 rows"));
    assert!(within_resolution(&compared).met);
}

#[test]
fn a_lost_a_doubled_and_a_changed_sample_are_each_noticed() {
    let sent: &[(&str, &[u64])] = &[("a", &[5_000_000, 9_000_001]), ("b", &[1_000_000])];
    for merged in [
        &[("a", &[5_000_000][..]), ("b", &[1_000_000])][..],
        &[("a", &[5_000_000, 9_000_001, 9_000_001]), ("b", &[1_000_000])],
        &[("a", &[5_000_000, 9_000_002]), ("b", &[1_000_000])],
        &[("a", &[5_000_000, 9_000_001])],
        &[("a", &[5_000_000]), ("b", &[1_000_000, 9_000_001])],
    ] {
        let look = exact(&compare(&raw(sent), &summary(merged)));
        assert!(!look.met && look.seen.contains("op (node "), "{merged:?}: {}", look.seen);
    }
}

#[test]
fn merged_samples_that_no_job_sent_are_noticed() {
    let look = exact(&compare(&raw(&[("a", &[])]), &summary(&[("a", &[1_000_000])])));
    assert!(!look.met, "{}", look.seen);
    assert!(!exact(&[]).met, "no samples prove nothing");
}

#[test]
fn a_quantile_in_the_next_bucket_is_out_of_resolution() {
    let both: &[(&str, &[u64])] = &[("a", &[5_000_000, 9_000_001])];
    let mut compared = compare(&raw(both), &summary(both));
    compared[1].merged.p99_ns = Some(9_020_000);
    let look = within_resolution(&compared);
    assert!(!look.met && look.seen.contains("9020000"), "{}", look.seen);
    compared[1].merged.p99_ns = None;
    assert!(!within_resolution(&compared).met);
}

proptest! {
    #[test]
    fn whatever_is_sent_is_within_resolution_once_merged(
        samples in prop::collection::vec(0..=MAX_NS, 1..300),
    ) {
        let both: &[(&str, &[u64])] = &[("a", &samples)];
        let compared = compare(&raw(both), &summary(both));
        prop_assert!(exact(&compared).met && within_resolution(&compared).met);
    }

    #[test]
    fn one_sample_less_is_always_noticed(
        samples in prop::collection::vec(0..=MAX_NS, 1..100), at in any::<prop::sample::Index>(),
    ) {
        let mut fewer = samples.clone();
        fewer.remove(at.index(samples.len()));
        let compared = compare(&raw(&[("a", &samples)]), &summary(&[("a", &fewer)]));
        prop_assert!(!exact(&compared).met);
    }
}
