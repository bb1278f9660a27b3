//! Points written in every way that a producer may, and what is read of them.

use proptest::prelude::*;

use super::*;
use crate::core::intake::otlp::writer::Writer;

const UNIT: ValueUnit = ValueUnit::Count;

fn latencies(value: Value<'_>) -> Latencies<'_> {
    let Value::Latencies(latencies) = value else { panic!("{value:?} are no latencies") };
    latencies
}

/// Puts fields in another order, with an unknown one between them.
fn mixed(mut parts: Vec<Writer>, seed: usize) -> Vec<u8> {
    let len = parts.len();
    parts.rotate_left(seed % len);
    let unknown = Writer::default().bytes(99, &[7; 20]).varint(98, 1);
    parts.insert(seed / len % len, unknown);
    parts.into_iter().flat_map(|part| part.0).collect()
}

#[derive(Clone, Debug)]
struct Source {
    times: (u64, u64),
    count: u64,
    sum: Option<f64>,
    ends: Option<(f64, f64)>,
    counts: Vec<u64>,
    bounds: Vec<f64>,
    zero: (u64, f64),
    scale: i32,
    offset: i32,
    negative: Vec<u64>,
    packed: bool,
    seed: usize,
}

prop_compose! {
    fn source()(
        times in any::<(u64, u64)>(),
        count in any::<u64>(),
        sum in prop::option::of(-1e9..1e9),
        ends in prop::option::of((0.0..1.0, 1.0..9.0)),
        counts in prop::collection::vec(prop_oneof![0..9_u64, any::<u64>()], 0..40),
        bounds in prop::collection::vec(-1e9..1e9, 0..40),
        zero in (any::<u64>(), 0.0..1.0),
        (scale, offset) in (any::<i32>(), any::<i32>()),
        negative in prop::collection::vec(0..9_u64, 0..4),
        (packed, seed) in any::<(bool, usize)>(),
    ) -> Source {
        Source {
            times, count, sum, ends, counts, bounds, zero, scale, offset, negative, packed, seed,
        }
    }
}

impl Source {
    fn common(&self, min: u64) -> Vec<Writer> {
        let mut parts = vec![
            Writer::default().fixed(2, self.times.0),
            Writer::default().fixed(3, self.times.1),
            Writer::default().fixed(4, self.count),
            Writer::default().varint(10, 2),
        ];
        parts.extend(self.sum.map(|sum| Writer::default().double(5, sum)));
        let ends = self
            .ends
            .map(|(least, most)| Writer::default().double(min, least).double(min + 1, most));
        parts.extend(ends);
        parts
    }

    fn histogram(&self) -> Vec<u8> {
        let mut parts = self.common(11);
        let bounds = self.bounds.iter().map(|bound| bound.to_bits());
        if self.packed {
            parts.push(Writer::default().packed(6, self.counts.iter().copied()));
            parts.push(Writer::default().packed(7, bounds));
        } else {
            let each = |number: u64, all: Vec<u64>| {
                all.into_iter().fold(Writer::default(), |list, n| list.fixed(number, n))
            };
            parts.push(each(6, self.counts.clone()));
            parts.push(each(7, bounds.collect()));
        }
        mixed(parts, self.seed)
    }

    fn exponential(&self) -> Vec<u8> {
        let buckets = |offset, counts: &[u64]| {
            let list = Writer::default().signed(1, offset);
            match self.packed {
                true => list.packed_varints(2, counts),
                false => counts.iter().fold(list, |list, count| list.varint(2, *count)),
            }
        };
        let mut parts = self.common(12);
        parts.push(Writer::default().signed(6, self.scale));
        parts.push(Writer::default().fixed(7, self.zero.0).double(14, self.zero.1));
        parts.push(Writer::default().message(8, &buckets(self.offset, &self.counts)));
        parts.push(Writer::default().message(9, &buckets(3, &self.negative)));
        mixed(parts, self.seed)
    }
}

proptest! {
    #[test]
    fn a_histogram_is_read_as_it_was_written(source in source()) {
        let bytes = source.histogram();
        let head = head(MetricKind::Histogram, &bytes);
        prop_assert_eq!((head.start.0, head.time.0), source.times);
        prop_assert!(head.has_value);
        let mut lists = ListBuffers::default();
        let read = latencies(lists.histogram(&bytes, UNIT).unwrap());
        prop_assert_eq!((read.count, read.sum), (source.count, source.sum));
        prop_assert_eq!(read.min.zip(read.max), source.ends);
        let Buckets::Explicit { bounds, counts } = read.buckets else { panic!("{read:?}") };
        prop_assert_eq!((bounds, counts), (&source.bounds[..], &source.counts[..]));
    }

    #[test]
    fn an_exponential_histogram_is_read_as_it_was_written(source in source()) {
        let bytes = source.exponential();
        let mut lists = ListBuffers::default();
        let read = latencies(lists.exponential(&bytes, UNIT).unwrap());
        prop_assert_eq!((read.count, read.sum), (source.count, source.sum));
        prop_assert_eq!(read.min.zip(read.max), source.ends);
        let Buckets::Exponential { scale, zero, zero_threshold, offset, positive, negative } =
            read.buckets
        else {
            panic!("{read:?}")
        };
        prop_assert_eq!((scale, offset), (source.scale, source.offset));
        prop_assert_eq!((zero, zero_threshold), source.zero);
        prop_assert_eq!(positive, &source.counts[..]);
        prop_assert_eq!(negative, source.negative.iter().sum::<u64>());
    }
}

#[test]
fn lists_are_read_up_to_their_bound_and_used_again() {
    let mut lists = ListBuffers::default();
    let most = vec![0_u64; POINT_BUCKETS_MAX];
    let fits = Writer::default().packed(6, most.clone()).0;
    assert!(lists.histogram(&fits, UNIT).is_ok());
    for wire in [Writer::default().fixed(6, 0), Writer::default().packed(6, [0])] {
        let more = [&fits[..], &wire.0].concat();
        assert_eq!(lists.histogram(&more, UNIT).unwrap_err(), Reject::Bounds);
    }
    let buckets = Writer::default().packed_varints(2, &[most, vec![0]].concat());
    let more = Writer::default().message(8, &buckets).0;
    assert_eq!(lists.exponential(&more, UNIT).unwrap_err(), Reject::Bounds);
    let read = latencies(lists.histogram(&Writer::default().packed(6, [3]).0, UNIT).unwrap());
    let Buckets::Explicit { bounds, counts } = read.buckets else { panic!("{read:?}") };
    assert_eq!((bounds, counts), (&[][..], &[3][..]));
    assert_eq!(lists.counts.capacity(), POINT_BUCKETS_MAX);
}

#[test]
fn a_number_is_a_float_or_an_integer_and_must_be_there() {
    let integer = Writer::default().fixed(6, (-7_i64).cast_unsigned()).0;
    assert_eq!(number(&integer), Ok(-7.0));
    assert_eq!(number(&Writer::default().double(4, 0.25).0), Ok(0.25));
    assert_eq!(number(&[]), Err(Reject::Number));
    assert!(!head(MetricKind::Sum, &Writer::default().varint(8, 1).0).has_value);
}
