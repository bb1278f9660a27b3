//! Profiles for tests of properties, with names that each format must escape.

use proptest::prelude::*;

use crate::labels::{SampleLabels, ThreadState};
use crate::profile::{Profile, ValueType};
use crate::stack::{Frame, Stack};
use plimsoll_schemas::time::Wall;

const NAMES: [&str; 12] = [
    "train",
    "load",
    "a;b",
    "x (y:1)",
    "operator ()",
    "é%3B%zz",
    "a\nb\u{1b}[31m\u{202e}",
    "<script>alert('&\"')</script>]]>",
    "",
    " ",
    "(other)",
    "[truncated]",
];

/// Profiles of one kind, with any periods, in which stacks repeat.
pub(crate) fn profiles() -> impl Strategy<Value = Profile> {
    let periods = prop::sample::select(vec![1, 10_000_000, 20_000_000, 9_999_000, 7]);
    let samples = prop::collection::vec((stacks(), labels(), 1_u64..1_000), 0..20);
    let spans = (0..=i64::MAX.unsigned_abs(), 1..1_000_000_000_000_u64);
    let remarks = prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..3);
    (periods, samples, spans, remarks).prop_map(
        |(period, samples, (start, duration_ns), remarks)| {
            let mut profile = Profile::new(ValueType::wall(), period);
            for (stack, labels, count) in samples {
                profile.add(stack, labels, count);
            }
            profile.started_at = Wall(start);
            profile.duration_ns = duration_ns;
            remarks.into_iter().for_each(|remark| profile.add_comment(remark.into()));
            profile
        },
    )
}

pub(crate) fn stacks() -> impl Strategy<Value = Stack> {
    prop::collection::vec((0..NAMES.len(), 0..NAMES.len(), 0..3_u32), 0..6).prop_map(|frames| {
        let frame = |(function, file, line): (usize, usize, u32)| {
            Frame::new(NAMES[function], NAMES[file], line)
        };
        Stack::new(frames.into_iter().map(frame).collect())
    })
}

fn labels() -> impl Strategy<Value = SampleLabels> {
    let states = prop::option::of(prop::sample::select(ThreadState::ALL.to_vec()));
    (0..NAMES.len(), states, 0..2_usize, 0..2_usize).prop_map(|(thread, state, node, rank)| {
        let process = ["", "python3 (7)"][(node + rank) % 2].into();
        let (node, rank) = (["", "n1"][node].into(), ["", "3"][rank].into());
        SampleLabels { thread: NAMES[thread].into(), state, node, rank, process }
    })
}

/// A stack of functions of one file, each at a line: `main:3`.
pub(crate) fn stack(frames: &[&str]) -> Stack {
    let frame = |text: &&str| {
        let (function, line) = text.split_once(':').unwrap_or((text, "1"));
        Frame::new(function, "a.py", line.parse().expect("tests write numbers"))
    };
    Stack::new(frames.iter().map(frame).collect())
}

/// A profile of wall time, a count for each stack.
pub(crate) fn profile(period: u64, duration_ns: u64, counts: &[(&[&str], u64)]) -> Profile {
    let mut profile = Profile::new(ValueType::wall(), period);
    profile.duration_ns = duration_ns;
    for (frames, count) in counts {
        profile.add(stack(frames), SampleLabels::default(), *count);
    }
    profile
}
