//! The layout of stored records is pinned. If it changed without a new version, the next program
//! version would misread the records, or treat them as damaged.

use std::fmt;

use plimsoll_schemas::alert::Acknowledgement;
use plimsoll_schemas::ids::RunName;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::wire::{AlertType, Event, Events};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::*;
use crate::core::durable::{NODE_VERSION, POOL_VERSION, REST_VERSION};
use crate::core::runs::{RunCommand, RunsQuery};
use crate::core::tests::events::{check, event};
use crate::core::tests::thresholds::world::World as Machine;

/// The versions of pools, nodes and the rest, and the checksums of their shapes. A change of one
/// requires a change of the other, unless the example itself has changed, or a field with a default
/// was added.
const LAYOUT: [(u16, u32); 3] = [(12, 3_952_158_216), (12, 2_699_913_854), (12, 1_948_537_491)];

/// Of a stored value the types, the names of fields and the lengths of lists, but no values.
struct Shape(String);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor).map(Self)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<String, E> {
        Ok("bool".to_owned())
    }

    fn visit_i64<E>(self, _: i64) -> Result<String, E> {
        Ok("int".to_owned())
    }

    fn visit_u64<E>(self, _: u64) -> Result<String, E> {
        Ok("int".to_owned())
    }

    fn visit_f64<E>(self, _: f64) -> Result<String, E> {
        Ok("float".to_owned())
    }

    fn visit_str<E>(self, _: &str) -> Result<String, E> {
        Ok("text".to_owned())
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<String, E> {
        Ok("bytes".to_owned())
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok("none".to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<String, A::Error> {
        let mut shapes: Vec<(String, usize)> = Vec::new();
        while let Some(Shape(shape)) = seq.next_element()? {
            match shapes.last_mut() {
                Some((last, n)) if *last == shape => *n += 1,
                _ => shapes.push((shape, 1)),
            }
        }
        let shapes: Vec<_> = shapes.iter().map(|(shape, n)| format!("{n} {shape}")).collect();
        Ok(format!("[{}]", shapes.join(", ")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let mut fields = Vec::new();
        while let Some((Key(key), Shape(value))) = map.next_entry()? {
            fields.push(format!("{key}: {value}"));
        }
        Ok(format!("{{{}}}", fields.join(", ")))
    }
}

/// A map's key: of a struct the name of its field.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = String;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, key: &str) -> Result<String, E> {
                Ok(key.to_owned())
            }

            fn visit_u64<E>(self, _: u64) -> Result<String, E> {
                Ok("int".to_owned())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<String, A::Error> {
                ShapeVisitor.visit_seq(seq)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<String, A::Error> {
                ShapeVisitor.visit_map(map)
            }
        }
        deserializer.deserialize_any(KeyVisitor).map(Self)
    }
}

/// A checkpoint in which every part of the state holds something.
fn example() -> StoredRecords {
    let mut machine = Machine::new(shipped());
    let receiver =
        |name: &str, kind| Receiver { name: name.into(), kind, severity_min: Severity::Info };
    let receivers = vec![
        receiver("pager", ReceiverKind::Webhook { resolved: true, acknowledged: true }),
        receiver("am", ReceiverKind::Alertmanager { resend_every: 60 * SECOND }),
    ];
    let core = std::mem::replace(&mut machine.core, core());
    let core = measuring(core).with_receivers(machine.now, receivers, 1);
    machine.core = selecting(core, ("of_r1", "epoch_hook"), &[], &[("rack", "r1")]);
    let node = Speaker::new("a").called(Labels::new([("rack", "r1")]).unwrap());
    machine.node = node;
    machine.twin = Some(Speaker::new("a").of(2));
    machine.count("jobs", 3.0);
    machine.lives(3);
    machine.takes_ms = Some(400);
    machine.lives(12);
    let mut other = Speaker::new("b").of(3);
    let labels = Labels::new([("run", "v42"), ("run_report", "ended"), ("rank", "3")]).unwrap();
    let reported = Event { labels, ..event("run v42 ended", 1) };
    let events = vec![event("e", 1), check("db", AlertType::Error), reported];
    machine.deliver(&other.message(machine.now, Body::Event(Events { events }), false));
    let ended_operations = Box::new([Operation::new("epoch_hook").unwrap()]);
    let bus = Bus { ended_operations, ..Bus::default() };
    machine.deliver(&other.message(machine.now, Body::Bus(bus), false));
    let lost = other.send(machine.now, MS, 1);
    machine.deliver(&other.send(machine.now, MS, 1));
    machine.deliver(&other.crash_report(machine.now, 4));
    machine.deliver(&(lost.0, vec![0xc1]));
    let firing = machine.core.alerts_page(machine.now.wall, &AlertsQuery::default()).alerts;
    let of = Acknowledgement {
        by: "bob".to_owned(),
        comment: String::new(),
        until: machine.now.wall.plus(3_600 * SECOND),
    };
    let key = firing.iter().find(|row| row.state == AlertState::Firing).unwrap().key.clone();
    machine.core.on_order(machine.now.wall, AlertCommand::Acknowledge(key, of)).unwrap();
    let name = RunName::new("v43").unwrap();
    let run = |by| RunCommand::Begin { name: name.clone(), labels: Labels::default(), by };
    machine.core.on_run_command(machine.now.wall, run(Some("ann".to_owned()))).unwrap();
    while let Some(post) = machine.core.next_post(machine.now) {
        machine.core.on_answer(machine.now, &post.receiver, Answer::of_status(200, None));
    }
    let mut stored = StoredRecords::default();
    machine.core.on_changes_lost();
    stored.write(machine.core.take_changes(machine.now.wall).unwrap());
    stored
}

#[test]
fn the_layout_of_stored_records_changes_with_their_version_alone() {
    let mut shapes = [const { String::new() }; 3];
    for (name, bytes) in &example().0 {
        let Shape(shape) = rmp_serde::from_slice(&bytes[6..]).unwrap();
        let kind = match Part::named(name).unwrap() {
            Part::Pool(_) | Part::PoolRing(..) => 0,
            Part::Node(_) => 1,
            Part::Rest => 2,
        };
        shapes[kind].push_str(&format!("{name}: {shape}\n"));
    }
    let checksums = shapes.each_ref().map(|shapes| crc32fast::hash(shapes.as_bytes()));
    let versions = [POOL_VERSION, NODE_VERSION, REST_VERSION];
    let layout: Vec<_> = versions.into_iter().zip(checksums).collect();
    assert_eq!(
        layout, LAYOUT,
        "raise a record's version with each change of its layout; the shapes are\n{shapes:#?}"
    );
}

/// A record as it was before a field with a default was added.
fn before_runs(mut record: Vec<u8>) -> Vec<u8> {
    const FRAME: usize = 6;
    // The field is the last one, and has a field of the same name.
    let mark = b"\xa4runs\x82\xa4runs";
    let at = record.windows(mark.len()).rposition(|found| found == mark).unwrap();
    record.truncate(at);
    // The map's first byte holds its length.
    record[FRAME] -= 1;
    let checksum = crc32fast::hash(&record[FRAME..]);
    record[2..FRAME].copy_from_slice(&checksum.to_be_bytes());
    record
}

#[test]
fn a_checkpoint_from_before_there_were_runs_is_read_with_all_else_in_it() {
    let restored = |stored: &StoredRecords| {
        let mesh = MeshName::new("m").unwrap();
        Core::restore(mesh, shipped(), start(), stored.read().unwrap())
    };
    let (new, mut stored) = (example(), example());
    let rest = stored.0.remove("rest").unwrap();
    stored.0.insert("rest".to_owned(), before_runs(rest));
    let (new, old) = (restored(&new), restored(&stored));
    let runs = |core: &Core| core.runs_page(start().wall, &RunsQuery::default()).runs.len();
    assert_eq!((runs(&new), runs(&old)), (2, 0));
    let alerts = |core: &Core| core.alerts_page(start().wall, &AlertsQuery::default()).alerts;
    assert_eq!(alerts(&old), alerts(&new));
    assert!(!alerts(&old).is_empty());
    assert_eq!(old.node_names(), new.node_names());
}
