//! Logs of our own, of other tools and of an attacker.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use plimsoll_compare::{BucketLayout, Measured, Side, Slot};
use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{NodeName, Operation};
use proptest::prelude::*;

use super::{Log, Unit, read, write};

/// The Base64 text of a histogram with these values.
fn text(low: u64, high: u64, digits: u8, values: &[u64]) -> String {
    let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(low, high, digits).unwrap();
    values.iter().for_each(|value| histogram.record(*value).unwrap());
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
    BASE64_STANDARD.encode(bytes)
}

fn parsed(log: &str, unit: Option<Unit>) -> Log {
    read(log.as_bytes(), unit).unwrap()
}

fn slots<'a>(log: &'a Log, operation: &str) -> &'a [Slot] {
    &log.side.operations[operation].slots
}

/// The bucket counts of a slot, which are what a log keeps of it.
fn buckets(slot: &Slot) -> (Option<NodeName>, u64, u64, Vec<(usize, u64)>) {
    (slot.node.clone(), slot.start_ns, slot.length_ns, slot.samples.buckets().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_reads_back(
        written in prop::collection::vec(
            (0_u64..2_000_000_000, any::<bool>(), prop::collection::vec(0..=MAX_NS, 0..20)), 1..8,
        ),
    ) {
        let mut measured = Measured::new(BucketLayout::MESH);
        for (start_ms, has_node, values) in &written {
            let mut samples = Histogram::default();
            values.iter().for_each(|value| samples.record(*value));
            measured.slots.push(Slot {
                node: has_node.then(|| NodeName::new("n1").unwrap()),
                start_ns: start_ms * 1_000_000,
                length_ns: 1_000_000_000,
                samples: Packed::from(&samples),
            });
        }
        measured.slots.sort_by_key(|slot| slot.start_ns);
        let fetch = Operation::new("fetch").unwrap();
        let side = Side { operations: BTreeMap::from([(fetch, measured)]), ..Side::default() };
        let mut bytes = Vec::new();
        write(&side, &mut bytes).unwrap();
        let log = read(bytes.as_slice(), None).unwrap();
        prop_assert_eq!(log.clamped, 0);
        prop_assert_eq!(log.side.operations["fetch"].layout, BucketLayout::MESH);
        let expected: Vec<_> = side.operations["fetch"].slots.iter().map(buckets).collect();
        let found: Vec<_> = slots(&log, "fetch").iter().map(buckets).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _refused = read(bytes.as_slice(), None);
        let line = format!("1.0,1.0,1.0,{}\n", BASE64_STANDARD.encode(&bytes));
        let _refused = read(line.as_bytes(), None);
    }

    #[test]
    fn any_counts_behind_a_valid_header_never_panic(
        counts in prop::collection::vec(prop_oneof![4 => Just(0xff), 1 => any::<u8>()], 0..60),
    ) {
        let mut bytes = BASE64_STANDARD.decode(text(1_000, MAX_NS, 3, &[5])).unwrap();
        bytes.truncate(40);
        bytes[4..8].copy_from_slice(&u32::try_from(counts.len()).unwrap().to_be_bytes());
        bytes.extend(counts);
        let line = format!("1.0,1.0,1.0,{}\n", BASE64_STANDARD.encode(&bytes));
        let _refused = read(line.as_bytes(), None);
    }

    #[test]
    fn damaged_histograms_never_panic(at in 0_usize..60, byte in any::<u8>()) {
        let good = text(1_000, MAX_NS, 3, &[5, 70_000, 1 << 40]);
        let mut bytes = BASE64_STANDARD.decode(good).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        let line = format!("1.0,1.0,1.0,{}\n", BASE64_STANDARD.encode(&bytes));
        let _refused = read(line.as_bytes(), None);
    }
}

#[test]
fn a_log_of_another_tool_is_read_with_its_header() {
    let histogram = text(1, 3_600_000_000, 2, &[1_000, 250_000]);
    let log = format!(
        "#[Logged with jHiccup version 2.0.7]\n\
         #[Histogram log format version 1.2]\n\
         #[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:24:39 PDT 2015]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n\
         0.127,1.007,2.769,{histogram}\r\n\
         \n\
         Tag=gc,1.134,0.999,0.442,{histogram}"
    );
    let log = parsed(&log, None);
    let untagged = &slots(&log, "untagged")[0];
    assert_eq!((untagged.start_ns, untagged.length_ns), (1_441_812_279_601_000_000, 1_007_000_000));
    assert_eq!(slots(&log, "gc")[0].start_ns, 1_441_812_280_608_000_000);
    assert_eq!(untagged.samples.exact().count, 2);
    let layout = BucketLayout { unit_ns: 1, low: 1, digits: 2 };
    assert_eq!(log.side.operations["gc"].layout, layout);
}

#[test]
fn times_that_are_absolute_stay_and_a_base_is_added() {
    let histogram = text(1, 1_000, 3, &[5]);
    for (header, stamp, start_ms) in [
        (
            "#[StartTime: 1441812279.474 (seconds since epoch)]\n",
            "1441812280.000",
            1_441_812_280_000,
        ),
        ("#[BaseTime: 1441812279.474 (seconds since epoch)]\n", "1.500", 1_441_812_280_974),
        ("", "1.500", 1_500_u64),
    ] {
        let log = parsed(&format!("{header}{stamp},1.000,0.005,{histogram}\n"), None);
        assert_eq!(slots(&log, "untagged")[0].start_ns, start_ms * 1_000_000, "{header}");
    }
}

#[test]
fn the_unit_is_that_of_the_caller_then_that_of_the_log_then_nanoseconds() {
    let histogram = text(1, 10_000_000, 3, &[2_000_000]);
    let line = format!("0.000,1.000,2.000,{histogram}\n");
    let stated = format!("#[Unit: us]\n{line}");
    let p50 = |log: &Log| slots(log, "untagged")[0].samples.exact().max_ns;
    // 2 000 000 lies in a bucket of 1 024 values; its highest one counts.
    assert_eq!(p50(&parsed(&line, None)), 2_000_895);
    assert_eq!(p50(&parsed(&stated, None)), 2_000_895_000);
    assert_eq!(p50(&parsed(&stated, Some(Unit::Nanoseconds))), 2_000_895);
    let clamped = parsed(&stated, Some(Unit::Milliseconds));
    assert_eq!((p50(&clamped), clamped.clamped), (2_000_895_000_000, 0));
}

#[test]
fn samples_above_an_hour_are_counted() {
    let histogram = text(1, 1 << 40, 3, &[5, 1 << 39, 1 << 39]);
    let log = parsed(&format!("#[Unit: ms]\n0.000,1.000,2.000,{histogram}\n"), None);
    assert_eq!(log.clamped, 2);
    assert_eq!(slots(&log, "untagged")[0].samples.exact().max_ns, MAX_NS);
}

#[test]
fn a_bad_line_is_named_with_its_number_and_the_fix() {
    let good = text(1, 1_000_000, 3, &[5]);
    let other = text(1, 1_000_000, 2, &[5]);
    let fine = text(1, 1_000_000, 5, &[5]);
    let mut huge = BASE64_STANDARD.decode(&good).unwrap();
    huge[4] = 0x7f;
    let huge = BASE64_STANDARD.encode(huge);
    let old = BASE64_STANDARD.encode([0x1c, 0x84, 0x93, 0x01].repeat(12));
    for (line, words) in [
        ("1,1.0,1.0,x".to_owned(), "expected `Tag=OPERATION"),
        (format!("Tag=a b,1.0,1.0,1.0,{good}"), "operation contains a space"),
        (format!("Tag=a;node=b/c,1.0,1.0,1.0,{good}"), "node name contains '/'"),
        ("1.0,1.0,1.0,?".to_owned(), "not Base64"),
        (format!("1.0,1.0,1.0,{old}"), "not of version 2"),
        ("1.0,1.0,1.0,HISTFAAAAAR42g==".to_owned(), "cannot be decompressed"),
        (format!("1.0,1.0,1.0,{huge}"), "more than 1048576 bytes"),
        (format!("1.0,1.0,1.0,{fine}"), "5 digits, more than 3"),
        (format!("1.0,1.0,1.0,{other}"), "in earlier lines"),
        (format!("99999999999.0,1.0,1.0,{good}"), "584 years"),
        ("#[Unit: ns]".to_owned(), "before the first histogram"),
        ("x".repeat((2 << 20) + 1), "not an interval log"),
    ] {
        let log = format!("# first\n0.0,1.0,1.0,{good}\n{line}\n");
        let error = read(log.as_bytes(), None).unwrap_err().to_string();
        assert!(error.starts_with("line 3: ") && error.contains(words), "{error}");
    }
    let error = read("#[Unit: s]\n".as_bytes(), None).unwrap_err().to_string();
    assert_eq!(error, "line 1: the unit \"s\" is not ns, us or ms");
}
