//! How long an hour of profiles takes to merge: 360 of 10 s at 19 Hz, each with 100 stacks of 30
//! frames, from decoded profiles and from pprof files.
//!
//! `cargo bench -p plimsoll-profile --bench merge_speed`

use plimsoll_clock::Stopwatch;
use plimsoll_profile::{Frame, Profile, SampleLabels, Stack, ValueType, merge, pprof};

const PROFILES: u64 = 360;
const STACKS: u64 = 100;
const FRAMES: u64 = 30;
/// Stacks of the program; each profile has some of them.
const DISTINCT: u64 = 2_000;
const ROUNDS: usize = 11;

fn main() {
    let profiles: Vec<Profile> = (0..PROFILES).map(profile).collect();
    let files: Vec<Vec<u8>> =
        profiles.iter().map(|of| pprof::encode(of).expect("it is small")).collect();
    let bytes: usize = files.iter().map(Vec::len).sum();

    let of_profiles = median(|| merged(&profiles));
    let of_files = median(|| {
        let decoded: Result<Vec<_>, _> = files.iter().map(|file| pprof::decode(file)).collect();
        merged(&decoded.expect("they were encoded"));
    });
    let stacks = merge(&profiles.iter().collect::<Vec<_>>()).expect("one kind").samples().count();
    println!("{PROFILES} profiles, {bytes} bytes as pprof, {stacks} stacks merged; medians, ms");
    println!("merge            {of_profiles:>8.1}");
    println!("decode and merge {of_files:>8.1}");
}

/// The profile of one slot; its frames are its own, as those of a file are.
fn profile(slot: u64) -> Profile {
    let mut profile = Profile::new(ValueType::cpu(), 1_000_000_000 / 19);
    profile.duration_ns = 10_000_000_000;
    for at in 0..STACKS {
        let number = (slot * 37 + at * 61) % DISTINCT;
        // Stacks share their roots and differ near their leaves.
        let frame = |depth: u64| {
            let branch = number >> (FRAMES - 1 - depth).min(12);
            let file = format!("package_{}/module_{}.py", depth % 7, branch % 23);
            Frame::new(&format!("function_{depth}_{branch}"), &file, 10)
        };
        let labels = SampleLabels { thread: "MainThread".into(), ..SampleLabels::default() };
        profile.add(Stack::new((0..FRAMES).map(frame).collect()), labels, 1 + number % 5);
    }
    profile
}

fn merged(profiles: &[Profile]) {
    let all: Vec<&Profile> = profiles.iter().collect();
    std::hint::black_box(merge(&all).expect("one kind"));
}

fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let watch = Stopwatch::start();
            work();
            watch.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}
