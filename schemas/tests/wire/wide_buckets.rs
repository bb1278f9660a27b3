//! A node collects any mix of samples in an interval, one by one or by the wide buckets of
//! producers, and receives limits in between: a reader accepts the message, and its results for any
//! rank and any limit are true of the original samples.

use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::histogram::{Histogram, Over, Packed};
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{
    Body, Header, Latency, Snapshot, Totals, decode, decode_packed, encode,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    One(u64),
    /// A producer's buckets, and the hundredth of each at which its samples really are.
    Point {
        edges: Vec<u64>,
        counts: Vec<u64>,
        at: u64,
        has_sum: bool,
    },
    /// A limit that the node receives.
    Limit(u64),
}

fn ns() -> impl Strategy<Value = u64> {
    prop_oneof![0..5_000_u64, 1_000_000..60_000_000_u64, 0..2 * MAX_NS]
}

fn step() -> impl Strategy<Value = Step> {
    let point = (
        prop::collection::btree_set(ns(), 1..8),
        prop::collection::vec(0..40_u64, 9),
        0..=100_u64,
        any::<bool>(),
    );
    let point = point.prop_map(|(edges, counts, at, has_sum)| Step::Point {
        edges: edges.into_iter().collect(),
        counts,
        at,
        has_sum,
    });
    prop_oneof![ns().prop_map(Step::One), point, ns().prop_map(Step::Limit)]
}

/// Records a step as a node does, and adds the samples that it represents to `truly`.
fn take(step: &Step, into: &mut Histogram, truly: &mut Vec<u64>) {
    match step {
        Step::One(ns) => {
            into.record(*ns);
            truly.push((*ns).min(MAX_NS));
        }
        Step::Limit(limit) => into.watch(&[*limit]),
        Step::Point { edges, counts, at, has_sum } => {
            let limits: Vec<u64> = into.overs().limits().collect();
            let (mut point, mut lower, mut sum) = (Histogram::default(), 0, 0_u128);
            point.watch(&limits);
            for (upper, n) in edges.iter().copied().chain([u64::MAX]).zip(counts) {
                point.record_within(lower, upper, *n);
                let (least, most) = (lower.saturating_add(1).min(MAX_NS), upper.min(MAX_NS));
                let value = (least + most.saturating_sub(least) / 100 * at).min(most);
                sum += u128::from(value) * u128::from(*n);
                truly.extend((0..*n).map(|_| value));
                lower = upper;
            }
            if *has_sum {
                point.state_sum(sum);
            }
            into.merge(&point);
        }
    }
}

fn sent(histogram: &Histogram) -> (Histogram, Packed) {
    let series = Series { operation: Operation::new("a").unwrap(), labels: Labels::default() };
    let histograms = vec![(series, histogram.clone())];
    let node = NodeName::new("n1").unwrap();
    let header = Header {
        node: node.clone(),
        incarnation: Incarnation(7),
        seq: Seq(3),
        start: Wall(1_700_000_000_000_000_000),
        length_ns: 1_000_000_000,
        totals: Totals { recorded: 1_000_000, ..Totals::default() },
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    let body = Body::Latency(Latency { histograms, ..Latency::default() });
    let bytes = encode(&Snapshot { header, body });
    let mesh = MeshName::new("m").unwrap();
    let subject = SnapshotSubject { mesh, lane: Lane::Normal, node, kind: SnapshotKind::Latency };
    let Body::Latency(mut read) = decode(&subject, &bytes).unwrap().body else { panic!("another") };
    decode_packed(&subject, &bytes).unwrap();
    let read = read.histograms.remove(0).1;
    let packed = Packed::from(&read);
    (read, packed)
}

proptest! {
    #[test]
    fn what_a_reader_gets_of_mixed_samples_is_true(
        nodes in prop::collection::vec(prop::collection::vec(step(), 1..10), 1..4),
        limits in prop::collection::vec(ns(), 4),
    ) {
        let (mut fleet, mut parts, mut truly) = (Histogram::default(), Vec::new(), Vec::new());
        for steps in &nodes {
            let mut histogram = Histogram::default();
            steps.iter().for_each(|step| take(step, &mut histogram, &mut truly));
            if histogram.is_empty() {
                continue;
            }
            let (read, packed) = sent(&histogram);
            prop_assert_eq!(&read, &histogram);
            fleet.merge(&read);
            parts.push(packed);
        }
        truly.sort_unstable();
        prop_assert_eq!(fleet.count(), truly.len() as u64);
        for (rank, ns) in (1..).zip(&truly).step_by(1 + truly.len() / 25) {
            let found = fleet.at_rank(rank).unwrap();
            prop_assert!((found.lower_ns..=found.upper_ns).contains(ns), "{rank} {ns} {found:?}");
        }
        let packed = Packed::united(&parts);
        let got = nodes.iter().flatten().filter_map(|step| match step {
            Step::Limit(limit) => Some(*limit),
            Step::One(_) | Step::Point { .. } => None,
        });
        for limit in limits.into_iter().chain(got) {
            let are_over = truly.iter().filter(|ns| **ns > limit).count() as u64;
            for Over { over, uncertain } in [fleet.over(limit), packed.over(limit)] {
                let got = over..=over + uncertain;
                prop_assert!(got.contains(&are_over), "{limit}: {are_over} {got:?}");
            }
        }
    }
}
