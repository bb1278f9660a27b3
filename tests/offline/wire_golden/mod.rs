//! Recorded bytes of wire version 1: they decode forever, and today's encoder still produces them.
//!
//! Each `data/wire/v1/<name>.bin` is one message; the `<name>.json` beside it states what went
//! in and what must come out. Nothing here changes a message that exists: a new shape gets a
//! new name. To add one, write its sidecar, list its name, and run once
//! `PLIMSOLL_WRITE_GOLDEN=1 cargo test -p plimsoll-tests --test offline wire_golden`.

mod files;
mod later;
mod sidecar;

use files::Golden;
use plimsoll_schemas::wire::{SCHEMA, WireError, decode, encode};
use sidecar::Sidecar;

/// Every message of the version; names are only ever added.
const NAMES: [&str; 24] = [
    "bus_coalesced",
    "bus_disconnected",
    "bus_kernel_dropped",
    "bus_rejected",
    "bus_version",
    "event_edges",
    "event_empty",
    "event_later",
    "event_typical",
    "hardware_changed",
    "hardware_set",
    "hardware_states",
    "interval_event",
    "interval_typical",
    "latency_edges",
    "latency_empty",
    "latency_labelled_node",
    "latency_last",
    "latency_later",
    "latency_over",
    "latency_sum_carry",
    "latency_typical",
    "latency_wide",
    "latency_within",
];

/// What an encoder makes of a sidecar's input.
fn encoded(sidecar: &Sidecar) -> Vec<u8> {
    let bytes = encode(&sidecar.snapshot());
    if sidecar.unknown_fields { later::with_unknown_fields(&bytes) } else { bytes }
}

fn golden(name: &str) -> Golden {
    files::open(name, encoded)
}

#[test]
fn the_messages_are_those_listed_here_each_with_its_sidecar() {
    NAMES.into_iter().for_each(|name| drop(golden(name)));
    assert_eq!(files::stems("bin"), NAMES);
    assert_eq!(files::stems("json"), NAMES);
}

#[test]
fn every_message_decodes_to_what_its_sidecar_states() {
    for name in NAMES {
        let Golden { sidecar, bytes } = golden(name);
        let subject = sidecar.subject();
        let read = decode(&subject, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((sidecar.schema, sidecar.kind.as_str()), (SCHEMA, subject.kind.as_str()));
        sidecar.assert_decoded(&read.body);
        assert_eq!(read, sidecar.snapshot(), "{name}: {}", sidecar.about);
    }
}

#[test]
fn todays_encoder_makes_the_same_bytes() {
    for name in NAMES {
        let Golden { sidecar, bytes } = golden(name);
        let today = encoded(&sidecar);
        let first = today.iter().zip(&bytes).position(|(ours, theirs)| ours != theirs);
        let lengths = (today.len(), bytes.len());
        assert!(today == bytes, "{name}: first other byte at {first:?}, lengths {lengths:?}");
    }
}

#[test]
fn every_message_is_refused_when_cut_short_or_prolonged() {
    for name in NAMES {
        let Golden { sidecar, mut bytes } = golden(name);
        for length in 0..bytes.len() {
            let cut = decode(&sidecar.subject(), &bytes[..length]);
            assert!(matches!(cut, Err(WireError::Shape(_))), "{name} cut to {length}: {cut:?}");
        }
        bytes.push(0);
        assert_eq!(decode(&sidecar.subject(), &bytes), Err(WireError::Trailing(1)), "{name}");
    }
}

#[test]
fn a_message_once_written_is_never_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.bin");
    files::write_new(&path, b"first").unwrap();
    let refused = files::write_new(&path, b"second").expect_err("it overwrote a golden file");
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"first");
}
