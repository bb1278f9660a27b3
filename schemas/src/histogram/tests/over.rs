//! Counts over a limit, compared with the samples themselves.

use proptest::prelude::*;
use serde::Serialize;

use crate::histogram::layout::{self, MAX_NS};
use crate::histogram::{Distribution, DistributionError, Histogram, Over, Overs, Packed, codec};
use crate::limits::wire::LIMITS_MAX;

const LIMIT_NS: u64 = 18_000_000;

fn watching(limits: &[u64], values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.watch(limits);
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

fn truly(values: &[u64], limit_ns: u64) -> u64 {
    values.iter().filter(|value| **value > limit_ns).count() as u64
}

#[test]
fn samples_in_the_limits_bucket_are_split_once_it_is_known() {
    let own = layout::index_of(LIMIT_NS);
    let beside = [LIMIT_NS - 1, LIMIT_NS, LIMIT_NS + 1, LIMIT_NS + 2];
    assert!(beside.iter().all(|ns| layout::index_of(*ns) == own));
    let mut histogram = Histogram::default();
    histogram.record(LIMIT_NS + 1);
    histogram.record(1);
    histogram.watch(&[LIMIT_NS]);
    assert_eq!(histogram.over(LIMIT_NS), Over { over: 0, uncertain: 1 });
    beside.iter().for_each(|ns| histogram.record_n(*ns, 3));
    assert_eq!(histogram.over(LIMIT_NS), Over { over: 6, uncertain: 1 });
    assert_eq!(histogram.take().over(LIMIT_NS), Over { over: 6, uncertain: 1 });
    beside.iter().for_each(|ns| histogram.record(*ns));
    assert_eq!(histogram.over(LIMIT_NS), Over { over: 2, uncertain: 0 });
}

#[test]
fn limits_that_there_cannot_be_and_too_many_are_not_watched() {
    let limits = [9, 0, MAX_NS + 1, 7, 9, u64::MAX, 3, MAX_NS, 5];
    assert_eq!(watching(&limits, &[]).overs().limits().collect::<Vec<_>>(), [3, 5, 7, 9]);
    let last = watching(&[MAX_NS], &[u64::MAX]);
    assert_eq!(last.over(MAX_NS), Over::default());
}

#[test]
fn a_limit_that_is_no_longer_watched_is_counted_from_buckets() {
    let mut histogram = watching(&[LIMIT_NS], &[LIMIT_NS, LIMIT_NS + 1]);
    histogram.watch(&[5]);
    assert_eq!(histogram.over(LIMIT_NS), Over { over: 0, uncertain: 2 });
    assert_eq!(histogram.over(5), Over { over: 2, uncertain: 0 });
}

#[test]
fn what_the_buckets_contradict_is_refused() {
    let histogram = watching(&[], &[1, LIMIT_NS, LIMIT_NS + 1, 2 * LIMIT_NS]);
    let bytes = codec::encode(histogram.counts()).unwrap();
    let stated = |limit, over, uncertain| Overs(vec![(limit, Over { over, uncertain })]);
    let forged = [
        stated(LIMIT_NS, 0, 3),
        stated(LIMIT_NS, 4, 0),
        stated(LIMIT_NS, 1, 3),
        stated(LIMIT_NS, u64::MAX, 2),
        stated(2 * LIMIT_NS, 1, 0),
        stated(2 * LIMIT_NS, 0, 1),
        stated(0, 4, 0),
        stated(MAX_NS + 1, 0, 0),
        Overs([5, 5].map(|limit| (limit, Over { over: 3, uncertain: 0 })).to_vec()),
        Overs((1..6).map(|limit| (limit, Over { over: 3, uncertain: 0 })).collect()),
    ];
    for overs in forged {
        let refused = Some(DistributionError::Contradiction("over"));
        let packed = Packed::try_from_v2(histogram.exact(), &bytes, overs.clone(), None);
        assert_eq!(packed.err(), refused, "{overs:?}");
        let read = Histogram::try_from_v2(histogram.exact(), &bytes, overs.clone(), None);
        assert_eq!(read.err(), refused, "{overs:?}");
    }
    for (over, uncertain) in [(1, 2), (1, 0), (3, 0), (2, 1)] {
        let overs = stated(LIMIT_NS, over, uncertain);
        let packed = Packed::try_from_v2(histogram.exact(), &bytes, overs, None).unwrap();
        assert_eq!(packed.over(LIMIT_NS), Over { over, uncertain });
        assert_eq!(packed.without_overs().over(LIMIT_NS), Over { over: 1, uncertain: 2 });
    }
}

#[test]
fn what_the_smallest_and_the_largest_sample_contradict_is_refused() {
    let histogram = watching(&[], &[LIMIT_NS, LIMIT_NS + 1]);
    let bytes = codec::encode(histogram.counts()).unwrap();
    for (over, uncertain, is_possible) in
        [(0, 0, false), (2, 0, false), (0, 1, true), (0, 2, true), (1, 0, true), (1, 1, true)]
    {
        let overs = Overs(vec![(LIMIT_NS, Over { over, uncertain })]);
        let read = Packed::try_from_v2(histogram.exact(), &bytes, overs, None);
        assert_eq!(read.is_ok(), is_possible, "{over} {uncertain}");
    }
}

#[test]
fn a_long_list_costs_no_more_than_a_short_one() {
    let long = rmp_serde::to_vec(&vec![(1_u64, 2_u64, 3_u64); 10_000]).unwrap();
    let read: Overs = rmp_serde::from_slice(&long).unwrap();
    assert_eq!((read.0.len(), read.is_sound()), (LIMITS_MAX + 1, false));
}

#[test]
fn packed_samples_take_64_bytes_beside_their_buckets() {
    assert_eq!(size_of::<Packed>(), 64);
}

/// Operations on samples.
#[derive(Clone, Debug)]
enum Step {
    Watch(Vec<u64>),
    Record(u64, u64),
    /// Samples of another histogram that watched these limits.
    Merge(Vec<u64>, Vec<u64>),
    MergePacked(Vec<u64>, Vec<u64>),
    /// Written into a message and read back.
    Send,
    /// Written into a checkpoint and read back, as a histogram and packed.
    Store,
    Pack,
}

fn near() -> impl Strategy<Value = u64> {
    prop_oneof![
        LIMIT_NS - 9_000..LIMIT_NS + 9_000,
        Just(LIMIT_NS),
        0..2_000_u64,
        Just(u64::MAX),
        0..40_000_000_u64,
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limits = || prop::collection::vec(prop_oneof![Just(LIMIT_NS), near()], 0..4);
    let values = || prop::collection::vec(near(), 0..9);
    let step = prop_oneof![
        1 => limits().prop_map(Step::Watch),
        6 => (near(), 0..5_u64).prop_map(|(value, n)| Step::Record(value, n)),
        2 => (limits(), values()).prop_map(|(limits, values)| Step::Merge(limits, values)),
        1 => (limits(), values()).prop_map(|(limits, values)| Step::MergePacked(limits, values)),
        1 => Just(Step::Send),
        1 => Just(Step::Store),
        1 => Just(Step::Pack),
    ];
    prop::collection::vec(step, 0..24)
}

fn sent(histogram: &Histogram) -> Histogram {
    let bytes = codec::encode(histogram.counts()).unwrap();
    let stated = rmp_serde::to_vec(histogram.overs()).unwrap();
    let overs: Overs = rmp_serde::from_slice(&stated).unwrap();
    Histogram::try_from_v2(histogram.exact(), &bytes, overs, None).unwrap()
}

fn stored<T: Serialize + serde::de::DeserializeOwned>(one: &T) -> T {
    rmp_serde::from_slice(&rmp_serde::to_vec_named(one).unwrap()).unwrap()
}

impl Step {
    fn take(self, histogram: &mut Histogram, all: &mut Vec<u64>) {
        match self {
            Self::Watch(limits) => histogram.watch(&limits),
            Self::Record(value, n) => {
                histogram.record_n(value, n);
                (0..n).for_each(|_| all.push(value.min(MAX_NS)));
            }
            Self::Merge(limits, values) => {
                histogram.merge(&watching(&limits, &values));
                all.extend(values.iter().map(|value| (*value).min(MAX_NS)));
            }
            Self::MergePacked(limits, values) => {
                histogram.merge_packed(&Packed::from(&watching(&limits, &values)));
                all.extend(values.iter().map(|value| (*value).min(MAX_NS)));
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
    fn the_truth_always_lies_between(steps in steps(), others in prop::collection::vec(near(), 2)) {
        let (mut histogram, mut all) = (Histogram::default(), Vec::new());
        for step in steps {
            step.take(&mut histogram, &mut all);
            let packed = Packed::from(&histogram);
            for limit in histogram.overs().limits().chain([LIMIT_NS]).chain(others.clone()) {
                let Over { over, uncertain } = histogram.over(limit);
                let truly = truly(&all, limit);
                let bounds = over..=over + uncertain;
                prop_assert!(bounds.contains(&truly), "{bounds:?} {truly}");
                prop_assert_eq!(packed.over(limit), Over { over, uncertain });
            }
        }
    }

    #[test]
    fn nothing_is_uncertain_where_the_limit_was_known_first(
        parts in prop::collection::vec(prop::collection::vec(near(), 0..30), 1..5),
        limits in prop::collection::vec(1..MAX_NS, 0..3),
    ) {
        let limits = [limits, vec![LIMIT_NS]].concat();
        let all: Vec<u64> = parts.concat().into_iter().map(|ns| ns.min(MAX_NS)).collect();
        let parts: Vec<Histogram> = parts.iter().map(|part| watching(&limits, part)).collect();
        let mut merged = watching(&limits, &[]);
        parts.iter().for_each(|part| merged.merge(&sent(part)));
        let packed: Vec<Packed> = parts.iter().map(Packed::from).collect();
        let united = Packed::united(&packed);
        for limit in limits {
            let exactly = Over { over: truly(&all, limit), uncertain: 0 };
            prop_assert_eq!(merged.over(limit), exactly);
            prop_assert_eq!(united.over(limit), exactly);
        }
    }

    #[test]
    fn merging_in_any_order_is_equal(
        parts in prop::collection::vec(
            (prop::collection::vec(near(), 0..5), prop::collection::vec(near(), 0..5)), 3,
        ),
        limits in prop::collection::vec(near(), 0..5),
    ) {
        let part = |(before, after): &(Vec<u64>, Vec<u64>)| {
            let mut part = watching(&[], before);
            part.watch(&limits);
            after.iter().for_each(|ns| part.record(*ns));
            part
        };
        let parts: Vec<Histogram> = parts.iter().map(part).collect();
        let merged = |order: [usize; 3]| {
            let mut merged = parts[order[0]].clone();
            order[1..].iter().for_each(|part| merged.merge(&parts[*part]));
            merged
        };
        let mut two = parts[1].clone();
        two.merge(&parts[2]);
        let mut nested = parts[0].clone();
        nested.merge(&two);
        prop_assert_eq!(merged([0, 1, 2]), merged([2, 0, 1]));
        prop_assert_eq!(merged([0, 1, 2]), nested);
        let packed: Vec<Packed> = parts.iter().map(Packed::from).collect();
        prop_assert_eq!(Packed::united(&packed), Packed::from(&merged([1, 0, 2])));
    }
}
