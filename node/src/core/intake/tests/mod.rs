//! The intake as a whole: any bytes in, every line counted once as taken or refused.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Series;
use proptest::prelude::*;

use super::*;
use crate::core::intake::series::OVERFLOW;
use crate::core::loss::SAMPLES_CAP;

mod frames;
mod model;
mod sequences;

const NOW: Now = Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) };

fn intake() -> Intake {
    Intake::new(NOW, 2_000, Rules::default(), 7)
}

fn plain(name: &str) -> Series {
    Series::plain(Operation::new(name).unwrap())
}

fn take(intake: &mut Intake, datagram: &[u8]) -> BTreeMap<&'static str, u64> {
    let before = intake.stats().rejected;
    intake.on_datagram(NOW.wall, datagram);
    let new = |(reason, n): (Reject, u64)| {
        let n = n - before.get(&reason).copied().unwrap_or(0);
        (n > 0).then(|| (reason.as_str(), n))
    };
    intake.stats().rejected.into_iter().filter_map(new).collect()
}

#[test]
fn every_malformed_line_has_its_reason_and_costs_itself_alone() {
    let long = format!("{}:1|ms", "a".repeat(8_192));
    for (line, reason) in [
        (&b"a"[..], "shape"),
        (b"a|ms", "shape"),
        (b"a:|ms", "shape"),
        (b"\r", "shape"),
        (b":1|ms", "name"),
        (b"a b:1|ms", "name"),
        (b"\xff:1|ms", "encoding"),
        (b"a:1|\xff", "encoding"),
        (b"a:\xff|ms", "encoding"),
        (b"a:1|ms|#k:\xff", "encoding"),
        (b"a:1|ms|@0|\xff", "encoding"),
        (b"a:1|ms|#\xff|#k:v", "encoding"),
        (b"a:1|x", "type"),
        (b"a:1|s", "unsupported"),
        (b"a:NaN|ms", "number"),
        (b"a:inf|g", "number"),
        (b"a:1:2:|ms", "number"),
        (b"a:-1|ms", "negative"),
        (b"a:1|ms|@1e-12", "rate"),
        (b"a:1|c|Tx", "timestamp"),
        (b"a:-1|bytes", "negative"),
        (b"_e{1,1}:a|bc", "event"),
        (b"_sc|a|9", "event"),
        (long.as_bytes(), "too_long"),
    ] {
        let mut intake = intake();
        let expected = BTreeMap::from([(reason, 1)]);
        let datagram = [b"good:1|ms\r\n", line, b"\ngood:2|ms\n\n"].concat();
        let shown = String::from_utf8_lossy(line).into_owned();
        assert_eq!(take(&mut intake, &datagram), expected, "{shown}");
        assert_eq!(take(&mut intake, line), expected, "{shown} alone");
        assert_eq!((intake.stats().samples, intake.series()), (2, 1), "{shown}");
    }
}

#[test]
fn figures_count_what_was_taken() {
    let mut intake = intake();
    let lines = b"a:1:2|ms|@0.5|T7\nb:4|c|T5\nc:1|g|T6\nc:2|g\nd:3600001|ms|#:x,e:1,e:2\n\
        _e{1,1}:a|b\n_sc|a|0\n_sc|b|1";
    assert_eq!(take(&mut intake, lines), BTreeMap::new());
    let figures = intake.stats();
    assert_eq!((figures.datagrams, figures.values, figures.timestamped), (1, 6, 4));
    assert_eq!((figures.samples, figures.clamped, intake.open_samples()), (5, 1, 5));
    let dropped: Vec<_> = figures.labels.dropped().into_iter().filter(|(_, n)| *n > 0).collect();
    assert_eq!(dropped, [("repeated", 1), ("no_key", 1)]);
    let events: Vec<u64> = figures.events.into_values().collect();
    assert_eq!(events, [1, 2]);
    let closed = intake.close(NOW);
    assert_eq!((closed.latency.samples(), closed.events.events.len()), (5, 3));
    assert_eq!((intake.open_samples(), intake.close(NOW).events.events.len()), (0, 0));
}

#[test]
fn events_beyond_the_cap_are_refused_and_counted() {
    let mut intake = intake();
    let lines = "_sc|a|0\n".repeat(300);
    assert_eq!(take(&mut intake, lines.as_bytes()), BTreeMap::from([("events_cap", 44)]));
    assert_eq!(intake.close(NOW).events.events.len(), 256);
    assert_eq!(take(&mut intake, b"_sc|a|0"), BTreeMap::new());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_and_every_line_is_taken_or_refused(
        datagram in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut intake = intake();
        let refused: u64 = take(&mut intake, &datagram).values().sum();
        let lines = datagram.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let figures = intake.stats();
        prop_assert!(refused <= lines as u64);
        prop_assert!(refused + figures.values >= lines as u64);
    }
}
