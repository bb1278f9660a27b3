//! Messages that are almost snapshots, each with the reason for which it must be refused.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_schemas::hardware::{LOAD1, Reading};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Operation, Seq, Series};
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{Body, Bus, Hardware, Header, Latency, Snapshot, Totals, encode};
use plimsoll_tests::rng::SeededRng;

/// A name that no real node has.
pub(crate) const GHOST: &str = "ghost";

/// One message and why it is refused.
pub(crate) struct Forgery {
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) reason: &'static str,
}

fn forgery(kind: &str, payload: Vec<u8>, reason: &'static str) -> Forgery {
    Forgery { subject: format!("plimsoll.v1.local.normal.{GHOST}.{kind}"), payload, reason }
}

/// A message that any reader accepts.
pub(crate) fn message(header: Header, body: Body) -> Vec<u8> {
    encode(&Snapshot { header, body })
}

pub(crate) fn header(node: &str, incarnation: u64, seq: u64, recorded: u64) -> Header {
    Header {
        node: NodeName::new(node).unwrap(),
        incarnation: Incarnation(incarnation),
        seq: Seq(seq),
        start: Wall(1_700_000_000_000_000_000),
        length_ns: 1_000_000_000,
        totals: Totals { recorded, lost: BTreeMap::new() },
        last: false,
        successor: None,
        labels: Labels::default(),
    }
}

/// The header of a node's first message, which it sends now.
pub(crate) fn header_of_now(node: &str) -> Header {
    let start = Clock::start().now().wall.minus(Duration::from_secs(1));
    Header { start, ..header(node, 1, 1, 0) }
}

fn plain(operation: &str) -> Series {
    Series::plain(Operation::new(operation).unwrap())
}

/// Three samples of one operation, and one counter.
fn latency() -> Vec<u8> {
    let mut histogram = Histogram::default();
    [1_000_000, 2_000_000, 3_000_000].into_iter().for_each(|ns| histogram.record(ns));
    let body = Latency {
        histograms: vec![(plain("haunting"), histogram)],
        counters: vec![(plain("visits"), 1.5)],
        gauges: Vec::new(),
    };
    message(header(GHOST, 1, 1, 3), Body::Latency(body))
}

fn hardware() -> Vec<u8> {
    let readings = vec![Reading::ok(&LOAD1, Labels::default(), 1.0)];
    message(header(GHOST, 1, 1, 0), Body::Hardware(Hardware::all(readings)))
}

fn twice() -> Vec<u8> {
    let counters = vec![(plain("visits"), 1.0), (plain("visits"), 2.0)];
    message(header(GHOST, 1, 1, 0), Body::Latency(Latency { counters, ..Latency::default() }))
}

/// `bytes` with what follows the only `mark` replaced by as many others.
fn patched(mut bytes: Vec<u8>, mark: &[u8], with: &[u8]) -> Vec<u8> {
    let at = bytes.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

/// Messages of the right shape with one thing wrong.
fn near_misses() -> Vec<Forgery> {
    let long = [&latency()[..], b"x"].concat();
    let bus = |header| message(header, Body::Bus(Bus::default()));
    // A double (0xcb) that is no number.
    let nan = [&[0xcb][..], &f64::NAN.to_be_bytes()].concat();
    let cookie = [0x1c, 0x84, 0x93];
    vec![
        forgery("latency", long, "trailing"),
        forgery("bus", bus(header("other", 1, 1, 0)), "node"),
        forgery("bus", bus(header(GHOST, 0, 1, 0)), "bounds"),
        forgery("bus", bus(header(GHOST, 1, COUNT_MAX + 1, 0)), "bounds"),
        forgery("bus", bus(header(GHOST, 1, 1, COUNT_MAX + 1)), "bounds"),
        forgery("bus", bus(header(GHOST, u64::MAX, 1, 0)), "incarnation"),
        forgery("bus", hardware(), "kind"),
        forgery("bus", latency(), "kind"),
        forgery("latency", bus(header(GHOST, 1, 1, 0)), "kind"),
        forgery("latency", patched(latency(), b"schema", &[2]), "schema"),
        forgery("latency", patched(latency(), b"seq", &[0]), "bounds"),
        forgery("latency", patched(latency(), b"recorded", &[2]), "bounds"),
        forgery("latency", patched(latency(), b"unit", b"\xa2us"), "bounds"),
        forgery("latency", patched(latency(), b"count", &[4]), "contradiction"),
        forgery("latency", patched(latency(), &cookie, &[0x14]), "histogram"),
        forgery("latency", patched(latency(), b"haun", b" "), "name"),
        forgery("latency", patched(latency(), b"value", &nan), "not_finite"),
        forgery("latency", twice(), "duplicate_series"),
    ]
}

/// Messages of no shape at all.
fn garbage() -> Vec<Forgery> {
    let mut rng = SeededRng::new(7);
    let whole = latency();
    let cut = (0..whole.len()).step_by(3).map(|len| whole[..len].to_vec());
    let random = (1..60).map(|len| rng.bytes(len * 7)).collect::<Vec<_>>();
    let mut all: Vec<Forgery> =
        cut.chain(random).map(|bytes| forgery("latency", bytes, "shape")).collect();
    // A map, an array, a text and a binary of 4 GiB each, according to their first bytes.
    for first in [0xdf, 0xdd, 0xdb, 0xc6] {
        let bomb = vec![first, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        all.push(forgery("bus", bomb, "shape"));
    }
    all.push(forgery("hardware", rng.bytes(400 * 1024), "shape"));
    all.push(forgery("hardware", rng.bytes(600 * 1024), "too_large"));
    all
}

/// Right bytes in wrong places; all of them are within the subjects that the streams store.
fn strange_subjects() -> Vec<Forgery> {
    let long = format!("normal.{}.latency", "x".repeat(2_000));
    [
        "normal.ghost",
        "normal.ghost.cpu",
        "normal.ghost.LATENCY",
        "normal.ghost.latency.more",
        "normal.gh$st.latency",
        "normal.gh\u{f6}st.latency",
        "emergency.ghost.latency\u{7f}",
        &long,
    ]
    .map(|rest| Forgery {
        subject: format!("plimsoll.v1.local.{rest}"),
        payload: latency(),
        reason: "subject",
    })
    .into()
}

pub(crate) fn all() -> Vec<Forgery> {
    [near_misses(), garbage(), strange_subjects()].into_iter().flatten().collect()
}
