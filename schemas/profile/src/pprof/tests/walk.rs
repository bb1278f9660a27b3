//! A reader of pprof by hand, beside the one of the crate: the rules of the format as its
//! documentation states them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::small;
use crate::pprof::encode::message;
use crate::profile::Profile;
use crate::tests::profiles;
use prost::Message;

/// The values of each field by its number: numbers as they are, bytes as they are.
#[derive(Default)]
struct Walked {
    numbers: BTreeMap<u64, Vec<u64>>,
    bytes: BTreeMap<u64, Vec<Vec<u8>>>,
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte % 128) << shift;
        shift += 7;
        if byte < 128 {
            return number;
        }
    }
}

fn walk(mut bytes: &[u8]) -> Walked {
    let mut walked = Walked::default();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = varint(&mut bytes);
        match key % 8 {
            0 => walked.numbers.entry(key / 8).or_default().push(number),
            2 => {
                let (field, rest) = bytes.split_at(usize::try_from(number).unwrap());
                walked.bytes.entry(key / 8).or_default().push(field.to_vec());
                bytes = rest;
            }
            wire_type => panic!("wire type {wire_type}"),
        }
    }
    walked
}

impl Walked {
    fn number(&self, field: u64) -> u64 {
        self.numbers.get(&field).map_or(0, |all| all[0])
    }

    fn messages(&self, field: u64) -> Vec<Walked> {
        self.bytes.get(&field).into_iter().flatten().map(|bytes| walk(bytes)).collect()
    }

    /// Repeated numbers, packed as proto3 has them.
    fn packed(&self, field: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for mut bytes in self.bytes.get(&field).into_iter().flatten().map(Vec::as_slice) {
            while !bytes.is_empty() {
                numbers.push(varint(&mut bytes));
            }
        }
        numbers
    }

    fn texts(&self) -> Vec<String> {
        let texts = self.bytes[&6].iter();
        texts.map(|bytes| String::from_utf8(bytes.clone()).unwrap()).collect()
    }
}

/// `label=value;..: leaf < .. < root = value, value` of each sample.
fn lines(file: &Walked) -> Vec<String> {
    let texts = file.texts();
    let text = |index: u64| texts[usize::try_from(index).unwrap()].as_str();
    let functions: BTreeMap<u64, (u64, u64)> =
        file.messages(5).iter().map(|f| (f.number(1), (f.number(2), f.number(4)))).collect();
    let locations: BTreeMap<u64, String> = file
        .messages(4)
        .iter()
        .map(|location| {
            let line = &location.messages(4)[0];
            let (name, file) = functions[&line.number(1)];
            (location.number(1), format!("{} {} {}", text(name), text(file), line.number(2)))
        })
        .collect();

    let line = |sample: Walked| {
        let labels = sample.messages(3).into_iter();
        let labels = labels.map(|l| format!("{}={};", text(l.number(1)), text(l.number(2))));
        let frames = sample.packed(1).into_iter().map(|id| locations[&id].as_str());
        let frames = frames.collect::<Vec<_>>().join(" < ");
        format!("{}: {frames} = {:?}", labels.collect::<String>(), sample.packed(2))
    };
    file.messages(2).into_iter().map(line).collect()
}

/// What the crate's own view of a profile comes to in [`lines`].
fn wanted(profile: &Profile) -> Vec<String> {
    let line = |sample: crate::profile::Sample<'_>| {
        let state = sample.labels.state.map_or("", |state| state.as_str());
        let labels = [
            ("thread", sample.labels.thread.as_str()),
            ("state", state),
            ("node", sample.labels.node.as_str()),
            ("rank", sample.labels.rank.as_str()),
            ("process", sample.labels.process.as_str()),
        ];
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        let labels: String = labels.map(|(key, value)| format!("{key}={value};")).collect();
        let frames = sample.stack.frames().iter().rev();
        let frames: Vec<String> =
            frames.map(|f| format!("{} {} {}", f.function, f.file, f.line)).collect();
        let values = [sample.count, sample.count * profile.period()];
        format!("{labels}: {} = {values:?}", frames.join(" < "))
    };
    profile.samples().map(line).collect()
}

#[test]
fn the_small_profile_is_what_its_documentation_says() {
    let file = walk(&message(&small()).encode_to_vec());
    let texts = file.texts();
    let text = |index: u64| texts[usize::try_from(index).unwrap()].as_str();
    let types = file.messages(1).into_iter().chain(file.messages(11));
    let types: Vec<_> = types.map(|t| (text(t.number(1)), text(t.number(2)))).collect();
    let wall = ("wall", "nanoseconds");
    assert_eq!(types, [("samples", "count"), wall, wall]);
    assert_eq!(text(file.number(14)), "wall");
    assert_eq!(file.number(9), 1_764_000_000_000_000_000);
    assert_eq!((file.number(10), file.number(12)), (10_000_000_000, 10_000_000));

    let mut comments = file.packed(13).into_iter().map(text);
    assert_eq!(comments.next(), Some("breach of step_time"));
    let labels = "thread=MainThread;state=running;node=node-7;rank=3;";
    let functions = file.messages(5);
    assert!(functions.iter().all(|function| function.number(3) == 0), "no system names");
    let line = format!("{labels}: load data.py 12 < main train.py 30 = [900, 9000000000]");
    assert_eq!(lines(&file)[0], line);

    let mapping = &file.messages(3)[0];
    assert_eq!([7, 8, 9].map(|known| mapping.number(known)), [1, 1, 1]);
    assert!(file.messages(4).iter().all(|location| location.number(2) == mapping.number(1)));
}

proptest! {
    #[test]
    fn files_obey_the_format(profile in profiles()) {
        let file = walk(&message(&profile).encode_to_vec());
        let texts = file.texts();
        prop_assert_eq!(&texts[0], "");
        prop_assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len());
        for table in [4, 5] {
            let ids: Vec<u64> = file.messages(table).iter().map(|entry| entry.number(1)).collect();
            prop_assert_eq!(&ids, &(1..=ids.len() as u64).collect::<Vec<_>>());
        }
        prop_assert_eq!(lines(&file), wanted(&profile));
    }
}
