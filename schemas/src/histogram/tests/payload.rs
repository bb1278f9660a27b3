//! Payloads of any form, compared with the `hdrhistogram` crate.

use std::collections::BTreeMap;

use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use proptest::prelude::*;

use crate::histogram::codec::{self, CodecError, STORED_MAX};
use crate::histogram::layout;
use crate::histogram::payload::Buckets;
use crate::histogram::{
    Counts, Distribution, DistributionError, ExactFigures, Histogram, Overs, Packed,
};
use crate::limits::wire::SAMPLES_MAX;

type Reference = hdrhistogram::Histogram<u64>;

fn read(exact: ExactFigures, bytes: &[u8]) -> Result<Packed, DistributionError> {
    Packed::try_from_v2(exact, bytes, Overs::default(), None)
}

/// One number of a payload, in a form that need not be the shortest.
#[derive(Clone, Copy, Debug)]
struct Number {
    value: i64,
    /// Bytes of zeros to draw it out with, as far as the longest form allows.
    padding: usize,
}

fn write(bytes: &mut Vec<u8>, number: Number) {
    let mut value = (number.value.cast_unsigned() << 1) ^ (number.value >> 63).cast_unsigned();
    let mut groups = vec![];
    while groups.len() < 8 && value >= 0x80 {
        groups.push(value.to_le_bytes()[0] & 0x7f);
        value >>= 7;
    }
    groups.push(value.to_le_bytes()[0]);
    groups.resize((groups.len() + number.padding).min(9).max(groups.len()), 0);
    let last = groups.len() - 1;
    groups[..last].iter_mut().for_each(|group| *group |= 0x80);
    bytes.extend(groups);
}

fn message(payload: &[u8]) -> Vec<u8> {
    let mut bytes = codec::encode(&Counts::default()).unwrap()[..40].to_vec();
    bytes[4..8].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn payload(numbers: &[Number]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().for_each(|number| write(&mut bytes, *number));
    bytes
}

/// What the crate reads: none where it refuses.
fn reference(bytes: &[u8]) -> Option<Vec<(usize, u64)>> {
    let read: Reference = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
    let bucket = |index| (index, read.count_at(layout::lowest(index)));
    Some((0..read.distinct_values()).map(bucket).filter(|(_, n)| *n > 0).collect())
}

/// The exact figures of samples that all lie at the lower ends of their buckets, but for one.
fn exact(buckets: &[(usize, u64)]) -> ExactFigures {
    let mut histogram = Histogram::default();
    buckets.iter().for_each(|(index, n)| histogram.record_n(layout::lowest(*index), *n));
    histogram.exact()
}

fn number() -> impl Strategy<Value = Number> {
    let value = prop_oneof![
        8 => 1..64_i64,
        3 => 64..100_000_i64,
        1 => 1_i64 << 30..=1_i64 << 41,
        8 => -64..=0_i64,
        3 => -3_000..-64_i64,
    ];
    let padding = prop_oneof![12 => Just(0_usize), 1 => 1..9_usize];
    (value, padding).prop_map(|(value, padding)| Number { value, padding })
}

/// Runs and counts in turn, never two of a kind side by side but for counts: what a library
/// writes.
fn canonical() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let step = prop_oneof![5 => Just(1_usize), 4 => 2..66_usize, 1 => 66..3_000_usize];
    let n = prop_oneof![8 => 1..63_u64, 1 => 63..70_000_u64];
    let mixed = prop::collection::vec((step, n), 0..150);
    let short = prop::collection::vec((1..20_usize, 1..63_u64), 0..150);
    prop_oneof![mixed, short].prop_map(|steps| {
        let buckets = steps.into_iter().scan(0, |next, (step, n)| {
            *next += step;
            Some((*next - 1, n))
        });
        buckets.filter(|(index, _)| *index < layout::LEN).collect()
    })
}

proptest! {
    #[test]
    fn what_the_reference_library_accepts_reads_the_same(
        numbers in prop::collection::vec(number(), 0..200), cut in 0..8_usize,
    ) {
        let mut payload = payload(&numbers);
        payload.truncate(payload.len() - cut.saturating_sub(5).min(payload.len()));
        let bytes = message(&payload);
        let ours = codec::decode(&bytes);
        let Some(theirs) = reference(&bytes) else {
            prop_assert!(ours.is_err());
            return Ok(());
        };
        let buckets = |n: &Number| if n.value > 0 { 1 } else { n.value.unsigned_abs().max(1) };
        let end: u64 = numbers.iter().map(buckets).sum();
        match ours {
            Ok((counts, total)) => {
                prop_assert_eq!(counts.iter().collect::<Vec<_>>(), &theirs[..]);
                prop_assert_eq!(theirs.iter().map(|(_, n)| n).sum::<u64>(), total);
            }
            // The crate's array extends past one hour, and it has no bound of samples.
            Err(CodecError::OutOfRange) => prop_assert!(end > layout::LEN as u64),
            Err(error) => {
                prop_assert_eq!(error, CodecError::TooMany);
                prop_assert!(theirs.iter().map(|(_, n)| n).sum::<u64>() > SAMPLES_MAX);
            }
        }
    }

    #[test]
    fn equal_distributions_have_equal_bytes_in_whatever_form_they_came(
        numbers in prop::collection::vec(number(), 0..100),
    ) {
        let bytes = message(&payload(&numbers));
        let decoded = codec::decode(&bytes);
        prop_assume!(decoded.is_ok());
        let (counts, _) = decoded.unwrap();
        let buckets: Vec<_> = counts.iter().collect();
        let exact = exact(&buckets);
        let packed = read(exact, &bytes).unwrap();
        let histogram = Histogram::try_from_v2(exact, &bytes, Overs::default(), None).unwrap();
        prop_assert_eq!(&packed, &Packed::from(&histogram));
        prop_assert_eq!(packed.buckets().collect::<Vec<_>>(), buckets);
        prop_assert!(packed.payload().len() <= bytes.len());
    }

    #[test]
    fn one_blemish_is_put_right_wherever_it_is(
        buckets in canonical(), at in any::<prop::sample::Index>(), kind in 0..3_u8,
    ) {
        let number = |value: i64, padding| Number { value, padding };
        let mut numbers = Vec::new();
        let mut next = 0;
        for (index, n) in &buckets {
            match index - next {
                0 => {}
                1 => numbers.push(number(0, 0)),
                run => numbers.push(number(-(run as i64), 0)),
            }
            numbers.push(number((*n).cast_signed(), 0));
            next = index + 1;
        }
        prop_assume!(!numbers.is_empty());
        let at = at.index(numbers.len());
        match (kind, numbers[at].value) {
            (0, ..-1) => {
                numbers[at].value += 1;
                numbers.insert(at, number(0, 0));
            }
            (1, 0) => numbers[at].value = -1,
            _ => numbers[at].padding = 1,
        }
        let packed = read(exact(&buckets), &message(&payload(&numbers))).unwrap();
        let mut histogram = Histogram::default();
        buckets.iter().for_each(|(index, n)| histogram.record_n(layout::lowest(*index), *n));
        prop_assert_eq!(packed, Packed::from(&histogram));
    }

    #[test]
    fn what_the_reference_library_writes_is_kept_as_it_is(buckets in canonical()) {
        let mut reference = layout::reference();
        for (index, n) in &buckets {
            reference.record_n(layout::lowest(*index), *n).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&reference, &mut bytes).unwrap();
        let packed = read(exact(&buckets), &bytes).unwrap();
        let kept: &[u8] = if buckets.is_empty() { &[] } else { &bytes[40..] };
        prop_assert_eq!(packed.payload(), kept);
    }

    #[test]
    fn bytes_merge_as_the_reference_library_adds(all in prop::collection::vec(canonical(), 0..6)) {
        let (mut ours, mut packed, mut sum) =
            (Histogram::default(), Packed::default(), layout::reference());
        for buckets in &all {
            let mut one = layout::reference();
            for (index, n) in buckets {
                one.record_n(layout::lowest(*index), *n).unwrap();
            }
            sum.add(&one).unwrap();
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&one, &mut bytes).unwrap();
            let one = read(exact(buckets), &bytes).unwrap();
            ours.merge_packed(&one);
            packed.merge(&one);
        }
        let bucket = |index| (index, sum.count_at(layout::lowest(index)));
        let expected: Vec<_> = (0..layout::LEN).map(bucket).filter(|(_, n)| *n > 0).collect();
        prop_assert_eq!(ours.counts().iter().collect::<Vec<_>>(), expected);
        prop_assert_eq!(&packed, &Packed::from(&ours));
        let mut merged = ours.clone();
        merged.merge_packed(&packed);
        ours.merge(&ours.clone());
        prop_assert_eq!(merged, ours);
    }

    #[test]
    fn a_row_of_cells_takes_all_that_a_check_lets_through(
        payload in prop_oneof![
            prop::collection::vec(number(), 0..60).prop_map(|numbers| payload(&numbers)),
            prop::collection::vec(any::<u8>(), 0..60),
            canonical().prop_map(|buckets| {
                let mut counts = Counts::default();
                buckets.iter().for_each(|(index, n)| counts.add(*index, *n));
                codec::encode(&counts).unwrap()[40..].to_vec()
            }),
        ],
        row in prop_oneof![Just((0, layout::LEN - 1)), (0..600_usize, 600..layout::LEN)],
        n in prop_oneof![Just(1_u64), 32_700..32_800_u64, Just(70_000), Just(STORED_MAX)],
    ) {
        let mut histogram = Histogram::default();
        histogram.record(layout::lowest(row.0));
        histogram.record_n(layout::lowest(row.1), n);
        let before = histogram.clone();
        let bytes = message(&payload);
        let buckets: Vec<_> = Buckets::of(&payload)
            .take_while(|(index, n)| *index < layout::LEN && *n <= SAMPLES_MAX)
            .collect();
        let figures = exact(&buckets);
        let packed = read(figures, &bytes);
        prop_assume!(packed.is_ok());
        let packed = packed.unwrap();
        histogram.merge_packed(&packed);
        let mut expected: BTreeMap<_, _> = before.counts().iter().collect();
        packed.buckets().for_each(|(at, n)| *expected.entry(at).or_insert(0) += n);
        prop_assert_eq!(histogram.counts().iter().collect::<BTreeMap<_, _>>(), expected);
    }

    #[test]
    fn a_bad_snapshot_is_refused(
        bad in canonical(),
        at in any::<prop::sample::Index>(), bit in 0..8_u32, figure in 0..5_usize,
    ) {
        let mut counts = Counts::default();
        bad.iter().for_each(|(index, n)| counts.add(*index, *n));
        let mut bytes = codec::encode(&counts).unwrap();
        let mut figures = exact(&bad);
        match figure {
            0 => figures.count += 1,
            1 => figures.min_ns += figures.min_ns / 512 + layout::LOW_NS,
            2 => figures.max_ns += figures.max_ns / 512 + layout::LOW_NS,
            3 => figures.sum_ns = figures.sum_ns * 3 + u128::from(layout::MAX_NS) * 100_000_000,
            _ => bytes[at.index(40)] ^= 1 << bit,
        }
        prop_assert!(read(figures, &bytes).is_err());
    }
}

#[test]
fn many_small_amounts_widen_a_row_in_time() {
    let mut one = Histogram::default();
    one.record_n(5_000_000, 63);
    let packed = Packed::from(&one);
    let mut sum = Histogram::default();
    (0..2_000).for_each(|_| sum.merge_packed(&packed));
    let bucket = (layout::index_of(5_000_000), 126_000);
    assert_eq!(sum.counts().iter().collect::<Vec<_>>(), [bucket]);
}

#[test]
fn runs_past_the_last_bucket_are_refused() {
    let mut row = Histogram::default();
    [0, layout::MAX_NS].iter().for_each(|value| row.record(*value));
    let run = |value| Number { value, padding: 0 };
    let past = layout::LEN.cast_signed() as i64;
    for runs in [&[run(i64::MIN), run(i64::MIN)][..], &[run(-past)], &[run(1 - past), run(70)]] {
        let mut bytes = payload(runs);
        (0..20).for_each(|_| write(&mut bytes, run(70)));
        let figures = ExactFigures { count: 1_400, ..row.exact() };
        let refused = read(figures, &message(&bytes));
        assert_eq!(refused, Err(DistributionError::Bytes(CodecError::OutOfRange)));
    }
}

#[test]
fn every_figure_that_contradicts_the_buckets_is_named() {
    let mut histogram = Histogram::default();
    [5_000_000, 9_000_000].iter().for_each(|value| histogram.record(*value));
    let bytes = codec::encode(histogram.counts()).unwrap();
    let good = histogram.exact();
    for (figure, exact) in [
        ("count", ExactFigures { count: 3, ..good }),
        ("min", ExactFigures { min_ns: 4_000_000, ..good }),
        ("max", ExactFigures { max_ns: 10_000_000, ..good }),
        ("sum", ExactFigures { sum_ns: 9_999_999, ..good }),
        ("sum", ExactFigures { sum_ns: 18_000_001, ..good }),
    ] {
        let refused = Err(DistributionError::Contradiction(figure));
        assert_eq!(read(exact, &bytes), refused);
    }
}

#[test]
fn a_payload_bloated_with_runs_is_not_kept() {
    let mut numbers = vec![Number { value: 0, padding: 0 }; 20_000];
    numbers[7].value = 3;
    let bytes = message(&payload(&numbers));
    let packed = read(exact(&[(7, 3)]), &bytes).unwrap();
    assert_eq!(packed.payload(), [13, 6]);
    let empty = read(ExactFigures::default(), &message(&[0; 20_000])).unwrap();
    assert_eq!(empty, Packed::default());
}

#[test]
fn forged_sums_are_stored_as_nothing_and_true_ones_read_back() {
    let mut histogram = Histogram::default();
    histogram.record_n(7, STORED_MAX);
    let there_and_back = |packed: &Packed| {
        rmp_serde::from_slice::<Packed>(&rmp_serde::to_vec_named(packed).unwrap()).unwrap()
    };
    let mut packed = Packed::from(&histogram);
    assert_eq!(there_and_back(&packed), packed);
    packed.merge(&packed.clone());
    assert_eq!(there_and_back(&packed), Packed::default());
}
