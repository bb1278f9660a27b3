//! Uncertainty in messages and checkpoints: its bounds hold after any way, and impossible ones are
//! rejected.

use std::borrow::Cow;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::histogram::layout::{self, MAX_NS};
use crate::histogram::row::Row;
use crate::histogram::{
    Distribution, DistributionError, ExactFigures, Histogram, Over, Overs, Packed, Quantile,
    UncertaintySummary, codec,
};

const MS: u64 = 1_000_000;
const LIMIT_NS: u64 = 18 * MS;

/// Operations on samples.
#[derive(Clone, Debug)]
enum Step {
    Watch(Vec<u64>),
    Record(u64, u64),
    /// Values between two ends that a producer states.
    Within(u64, u64, Vec<u64>),
    /// The same of another histogram, which watched these limits.
    Merge(Vec<u64>, u64, u64, Vec<u64>),
    MergePacked(Vec<u64>, u64, u64, Vec<u64>),
    Send,
    Store,
    Pack,
}

fn near() -> impl Strategy<Value = u64> {
    prop_oneof![LIMIT_NS - 3..LIMIT_NS + 3, 1..40 * MS, 1..5_000_u64, 1..2 * MAX_NS,]
}

/// Two ends and values between.
fn bucket() -> impl Strategy<Value = (u64, u64, Vec<u64>)> {
    let ends = (near(), near()).prop_map(|(one, two)| (one.min(two) - 1, one.max(two)));
    ends.prop_flat_map(|(over, upto)| {
        (Just(over), Just(upto), prop::collection::vec(over + 1..=upto, 0..20))
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limits = || prop::collection::vec(prop_oneof![Just(LIMIT_NS), near()], 0..4);
    let step = prop_oneof![
        1 => limits().prop_map(Step::Watch),
        2 => (near(), 0..5_u64).prop_map(|(value, n)| Step::Record(value, n)),
        4 => bucket().prop_map(|(over, upto, values)| Step::Within(over, upto, values)),
        2 => (limits(), bucket())
            .prop_map(|(limits, (over, upto, values))| Step::Merge(limits, over, upto, values)),
        1 => (limits(), bucket()).prop_map(|(limits, (over, upto, values))| {
            Step::MergePacked(limits, over, upto, values)
        }),
        1 => Just(Step::Send),
        1 => Just(Step::Store),
        1 => Just(Step::Pack),
    ];
    prop::collection::vec(step, 0..16)
}

fn within(limits: &[u64], over: u64, upto: u64, values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.watch(limits);
    histogram.record_within(over, upto, values.len() as u64);
    histogram.state_sum(values.iter().map(|value| u128::from((*value).min(MAX_NS))).sum());
    histogram
}

fn stored<T: Serialize + DeserializeOwned>(one: &T) -> T {
    rmp_serde::from_slice(&rmp_serde::to_vec_named(one).unwrap()).unwrap()
}

fn sent<D: Distribution>(histogram: &Histogram) -> D {
    let bytes = codec::encode(histogram.counts()).unwrap();
    let uncertainty = rmp_serde::to_vec_named(&histogram.uncertainty_summary()).unwrap();
    let uncertainty = rmp_serde::from_slice(&uncertainty).unwrap();
    D::try_from_v2(histogram.exact_as_counted(), &bytes, histogram.overs_as_counted(), uncertainty)
        .unwrap()
}

impl Step {
    fn take(self, histogram: &mut Histogram, all: &mut Vec<u64>) {
        match self {
            Self::Watch(limits) => histogram.watch(&limits),
            Self::Record(value, n) => {
                histogram.record_n(value, n);
                (0..n).for_each(|_| all.push(value));
            }
            Self::Within(over, upto, values) => {
                histogram.record_within(over, upto, values.len() as u64);
                all.extend(values);
            }
            Self::Merge(limits, over, upto, values) => {
                histogram.merge(&within(&limits, over, upto, &values));
                all.extend(values);
            }
            Self::MergePacked(limits, over, upto, values) => {
                histogram.merge_packed(&Packed::from(&within(&limits, over, upto, &values)));
                all.extend(values);
            }
            Self::Send => *histogram = sent(histogram),
            Self::Store => *histogram = stored(histogram),
            Self::Pack => {
                let packed = stored(&Packed::from(&*histogram));
                *histogram = Histogram::default();
                histogram.merge_packed(&packed);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_truth_lies_within_the_bounds_for_all_samples(
        steps in steps(), others in prop::collection::vec(near(), 2),
    ) {
        let (mut histogram, mut all) = (Histogram::default(), Vec::new());
        for step in steps {
            step.take(&mut histogram, &mut all);
            let mut all: Vec<u64> = all.iter().map(|value| (*value).min(MAX_NS)).collect();
            all.sort_unstable();
            prop_assert_eq!(histogram.count(), all.len() as u64);
            for (rank, truly) in (1..).zip(&all).step_by(1 + all.len() / 8) {
                let Quantile { lower_ns, upper_ns, value_ns } = histogram.at_rank(rank).unwrap();
                let is_within = (lower_ns..=upper_ns).contains(truly);
                prop_assert!(is_within, "{lower_ns} {truly} {upper_ns}");
                prop_assert!((lower_ns..=upper_ns).contains(&value_ns));
            }
            let packed = Packed::from(&histogram);
            for limit in histogram.overs().limits().chain([LIMIT_NS]).chain(others.clone()) {
                let Over { over, uncertain } = histogram.over(limit);
                let truly = all.iter().filter(|value| **value > limit).count() as u64;
                let bounds = over..=over + uncertain;
                prop_assert!(bounds.contains(&truly), "{bounds:?} {truly}");
                prop_assert_eq!(packed.over(limit), Over { over, uncertain });
            }
        }
    }

    #[test]
    fn packed_and_sent_samples_are_the_same_samples(steps in steps(), more in steps()) {
        let (mut one, mut two, mut all) = (Histogram::default(), Histogram::default(), Vec::new());
        steps.into_iter().for_each(|step| step.take(&mut one, &mut all));
        more.into_iter().for_each(|step| step.take(&mut two, &mut all));
        // A histogram without samples may still watch limits, which are kept nowhere else.
        prop_assume!(!one.is_empty() && !two.is_empty());
        let packed = Packed::from(&one);
        prop_assert_eq!(&sent::<Histogram>(&one), &one);
        prop_assert_eq!(&sent::<Packed>(&one), &packed);
        prop_assert_eq!(&stored(&one), &one);
        prop_assert_eq!(&stored(&packed), &packed);
        let united = Packed::united(&[packed, Packed::from(&two)]);
        one.merge(&two);
        prop_assert_eq!(united, Packed::from(&one));
    }

    #[test]
    fn a_reader_without_uncertainty_takes_the_message(steps in steps()) {
        let (mut histogram, mut all) = (Histogram::default(), Vec::new());
        steps.into_iter().for_each(|step| step.take(&mut histogram, &mut all));
        let bytes = codec::encode(histogram.counts()).unwrap();
        let read = Histogram::try_from_v2(
            histogram.exact_as_counted(), &bytes, histogram.overs_as_counted(), None,
        );
        let read = read.unwrap();
        prop_assert_eq!((read.count(), read.counts()), (histogram.count(), histogram.counts()));
    }

    #[test]
    fn an_uncertainty_of_any_bytes_is_refused_or_harmless(
        steps in steps(),
        rows in prop::array::uniform3(prop_oneof![
            2 => Just(None),
            1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Some),
            1 => prop::collection::vec(0..8_u8, 0..40).prop_map(Some),
        ]),
        sum in prop::option::of(any::<(u64, u64)>()),
        more in steps(),
    ) {
        let (mut histogram, mut all) = (Histogram::default(), Vec::new());
        steps.into_iter().for_each(|step| step.take(&mut histogram, &mut all));
        let summary = histogram.uncertainty_summary();
        prop_assume!(summary.is_some());
        let mut summary = summary.unwrap();
        let is_honest = rows.iter().all(Option::is_none) && sum.is_none();
        let [placed, low, high] = rows;
        for (row, forged) in
            [(&mut summary.placed, placed), (&mut summary.low, low), (&mut summary.high, high)]
        {
            *row = forged.map_or(std::mem::take(row), Cow::Owned);
        }
        (summary.sum_carry, summary.sum_ns) = sum.unwrap_or((summary.sum_carry, summary.sum_ns));
        let bytes = codec::encode(histogram.counts()).unwrap();
        let exact = histogram.exact_as_counted();
        let read = Histogram::try_from_v2(exact, &bytes, Overs::NONE, Some(summary));
        prop_assert!(read.is_ok() || !is_honest, "what is not forged is read");
        let Ok(mut read) = read else { return Ok(()) };
        more.into_iter().for_each(|step| step.take(&mut read, &mut all));
        prop_assert_eq!(&stored(&read), &read);
        for rank in 1..=read.count() {
            let Quantile { lower_ns, value_ns, upper_ns } = read.at_rank(rank).unwrap();
            prop_assert!(lower_ns <= value_ns && value_ns <= upper_ns);
        }
    }
}

fn summary() -> (Histogram, UncertaintySummary<'static>) {
    let mut histogram = within(&[LIMIT_NS], 10 * MS, 25 * MS, &[11 * MS, 12 * MS, 24 * MS]);
    histogram.record(5 * MS);
    let summary = histogram.uncertainty_summary().unwrap();
    (histogram, summary)
}

fn row(buckets: &[(u64, u64)]) -> Cow<'static, [u8]> {
    let mut row = Row::default();
    buckets.iter().for_each(|(ns, n)| row.add(layout::index_of(*ns), *n));
    Cow::Owned(row.payload())
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let (histogram, good) = summary();
    let bytes = codec::encode(histogram.counts()).unwrap();
    let refused = |summary: UncertaintySummary<'static>| {
        let exact = histogram.exact_as_counted();
        let packed = Packed::try_from_v2(exact, &bytes, Overs::NONE, Some(summary.clone())).err();
        let read = Histogram::try_from_v2(exact, &bytes, Overs::NONE, Some(summary)).err();
        assert_eq!(packed, read);
        read
    };
    assert_eq!(refused(good.clone()), None);
    let contradicts = |figure| Some(DistributionError::Contradiction(figure));
    let good = || good.clone();
    for (figure, summary) in [
        ("uncertainty", UncertaintySummary { placed: row(&[(7 * MS, 3)]), ..good() }),
        ("uncertainty", UncertaintySummary { placed: row(&[]), ..good() }),
        ("uncertainty", UncertaintySummary { low: row(&[(10 * MS, 2)]), ..good() }),
        ("uncertainty", UncertaintySummary { low: row(&[(10 * MS, 4)]), ..good() }),
        ("uncertainty", UncertaintySummary { low: row(&[(10 * MS, 2), (25 * MS, 1)]), ..good() }),
        ("uncertainty", UncertaintySummary { low: row(&[]), high: row(&[]), ..good() }),
        ("uncertainty", UncertaintySummary { high: row(&[(25 * MS, 2), (10 * MS, 1)]), ..good() }),
        ("sum", UncertaintySummary { sum_ns: 4 * 5 * MS - 20_000, ..good() }),
        ("sum", UncertaintySummary { sum_ns: 4 * 25 * MS + 200_000, ..good() }),
        ("sum", UncertaintySummary { sum_carry: 1, ..good() }),
    ] {
        assert_eq!(refused(summary.clone()), contradicts(figure), "{summary:?}");
    }
    let over = |stated: &[(u64, u64, u64)]| {
        let bytes = rmp_serde::to_vec(stated).unwrap();
        refused(UncertaintySummary { over: rmp_serde::from_slice(&bytes).unwrap(), ..good() })
    };
    assert_eq!(over(&[(LIMIT_NS, 0, 3)]), None);
    assert_eq!(over(&[(LIMIT_NS, 2, 1)]), None);
    for stated in [(LIMIT_NS, 4, 0), (LIMIT_NS, 1, 3), (7 * MS, 2, 0), (LIMIT_NS, u64::MAX, 2)] {
        assert_eq!(over(&[stated]), contradicts("over"), "{stated:?}");
    }
    let cut = UncertaintySummary { low: Cow::Borrowed(&[0x80]), ..good() };
    assert_eq!(refused(cut), Some(DistributionError::Bytes(codec::CodecError::Truncated)));
}

#[test]
fn an_uncertainty_of_no_samples_is_refused() {
    let (_, summary) = summary();
    let bytes = codec::encode(Histogram::default().counts()).unwrap();
    let read = Packed::try_from_v2(ExactFigures::default(), &bytes, Overs::NONE, Some(summary));
    assert_eq!(read.err(), Some(DistributionError::Contradiction("uncertainty")));
}

#[test]
fn an_uncertainty_takes_few_bytes_and_exact_samples_none() {
    let mut histogram = Histogram::default();
    for (over, upto, n) in [(5, 10, 700), (10, 25, 20_000), (25, 50, 9_000), (50, 75, 3)] {
        histogram.record_within(over * MS, upto * MS, n);
    }
    let bytes = rmp_serde::to_vec_named(&histogram.uncertainty_summary()).unwrap();
    assert!(bytes.len() < 100, "{} bytes", bytes.len());
    let mut exact = Histogram::default();
    exact.record(5);
    assert_eq!(
        (exact.uncertainty_summary(), exact.heap_bytes()),
        (None, exact.counts().heap_bytes())
    );
}
