//! Tests of pprof files: golden bytes, round trips, files of other tools, hostile bytes.

mod foreign;
mod hostile;
mod walk;

use std::io::Read;

use flate2::read::GzDecoder;
use proptest::prelude::*;

use super::messages::{ProfileMessage, SampleMessage};
use super::{PprofError, decode, encode, encode::message, encode_difference};
use crate::difference::subtract;
use crate::labels::{SampleLabels, ThreadState};
use crate::limits::{COMMENTS_MAX, ENCODED_BYTES_MAX, FRAMES_MAX, STACKS_MAX};
use crate::name::Name;
use crate::profile::{Profile, ValueType};
use crate::stack::{Frame, Stack};
use crate::tests::profiles;
use plimsoll_schemas::time::Wall;
use prost::Message;

/// What [`small`] is in a file, inflated and compressed.
const SMALL: &[u8] = include_bytes!("../../../../../tests/data/pprof/small.pb");
const SMALL_GZIP: &[u8] = include_bytes!("../../../../../tests/data/pprof/small.pb.gz");

/// Two threads of one rank.
fn small() -> Profile {
    let mut profile = Profile::new(ValueType::wall(), 10_000_000);
    profile.started_at = Wall(1_764_000_000_000_000_000);
    profile.duration_ns = 10_000_000_000;
    profile.add_comment("plimsoll.rung=profiler".into());
    profile.add_comment("breach of step_time".into());

    let main = Frame::new("main", "train.py", 30);
    let load = Frame::new("load", "data.py", 12);
    let stacks = [
        (vec![main.clone(), load.clone()], ThreadState::Running, 900),
        (vec![main.clone(), load, Frame::marker("<GC>")], ThreadState::Running, 87),
        (vec![main, Frame::new("wait", "train.py", 41)], ThreadState::Waiting, 987),
    ];
    for (frames, state, count) in stacks {
        let labels = SampleLabels {
            thread: "MainThread".into(),
            state: Some(state),
            node: "node-7".into(),
            rank: "3".into(),
            ..SampleLabels::default()
        };
        profile.add(Stack::new(frames), labels, count);
    }
    profile
}

#[test]
fn a_difference_has_both_sides_and_the_label_of_the_peer() {
    let mut culprit = small();
    culprit.duration_ns = 5_000_000_000;
    let running = Some(ThreadState::Running);
    let file = encode_difference(&subtract(&culprit, &small(), running).unwrap()).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
    let found = ProfileMessage::decode(&bytes[..]).unwrap();
    let text = |at: i64| str::from_utf8(&found.string_table[usize::try_from(at).unwrap()]).unwrap();

    let row = |of: &SampleMessage| {
        let label = of.label.iter().map(|label| format!("{}={}", text(label.key), text(label.str)));
        (of.location_id.len(), of.value.clone(), label.collect::<String>())
    };
    let peer = || "pprof::base=true".to_owned();
    let wanted = [
        (2, vec![1_800_000_000], String::new()),
        (2, vec![-900_000_000], peer()),
        (3, vec![174_000_000], String::new()),
        (3, vec![-87_000_000], peer()),
    ];
    assert_eq!(found.sample.iter().map(row).collect::<Vec<_>>(), wanted);
    assert_eq!((text(found.sample_type[0].unit), found.sample_type.len()), ("nanoseconds", 1));
    assert_eq!(decode(&file), Err(PprofError::Negative(-900_000_000)));
}

#[test]
fn a_small_profile_has_its_golden_bytes() {
    let bytes = message(&small()).encode_to_vec();
    assert_eq!(bytes, SMALL, "{}", bytes.escape_ascii());
    // Compressed bytes may change with the library; those of a file that is kept are read.
    for file in [SMALL, SMALL_GZIP, &encode(&small()).unwrap()] {
        assert_eq!(decode(file), Ok(small()));
    }
}

#[test]
fn a_full_profile_is_read_back() {
    let mut profile = Profile::new(ValueType::wall(), 1);
    let names: Vec<Name> = (0..128).map(|n| Name::new(&format!("{n:0256}"))).collect();
    let frames: Vec<_> = (0..128)
        .map(|line| Frame {
            function: names[line].clone(),
            file: names[127 - line].clone(),
            line: 1,
        })
        .map(std::sync::Arc::new)
        .collect();
    for n in 0..STACKS_MAX + 9 {
        let mut stack: Vec<_> = frames[..FRAMES_MAX - 2].to_vec();
        stack.extend([frames[n / 128 % 128].clone(), frames[n % 128].clone()]);
        let labels = SampleLabels { thread: Name::new(&format!("{n:0256}")), ..Default::default() };
        profile.add(Stack::new(stack), labels, 1);
    }
    (0..COMMENTS_MAX).for_each(|n| profile.add_comment(Name::new(&format!("{n:0256}"))));

    let bytes = encode(&profile).unwrap();
    assert!(bytes.len() < ENCODED_BYTES_MAX);
    assert!(decode(&bytes) == Ok(profile), "too long to print");
}

proptest! {
    #[test]
    fn any_profile_comes_back_as_it_was(profile in profiles()) {
        let bytes = encode(&profile).unwrap();
        prop_assert_eq!(decode(&bytes), Ok(profile));
    }

    #[test]
    fn equal_profiles_have_equal_bytes(profile in profiles()) {
        // Added in another order.
        let mut other = Profile::new(profile.value_type().clone(), profile.period());
        (other.started_at, other.duration_ns) = (profile.started_at, profile.duration_ns);
        let samples: Vec<_> = profile.samples().collect();
        for sample in samples.into_iter().rev() {
            other.add(sample.stack.clone(), sample.labels.clone(), sample.count);
        }
        profile.comments().cloned().for_each(|comment| other.add_comment(comment));
        prop_assert_eq!(encode(&other).unwrap(), encode(&profile).unwrap());
    }
}
