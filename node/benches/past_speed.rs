//! What an hour of continuous profiles of one process takes on disk, and the time in which it is
//! added up. The process has 8 threads and 500 stacks of some 40 frames, 60 of them in each
//! profile of 10 s.
//!
//! `cargo bench -p plimsoll-node --bench past_speed`

use std::sync::Arc;

use anyhow::{Result, ensure};
use plimsoll_clock::Stopwatch;
use plimsoll_profile::series::{PastQuery, SEGMENT_BEGIN, Sum, Writer, encode_within};
use plimsoll_profile::{Frame, Name, Profile, SampleLabels, Stack, ThreadState, ValueType, pprof};
use plimsoll_schemas::time::Wall;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600;
const MILLISECONDS_MAX: f64 = 300.0;
const ROUNDS: usize = 9;

fn main() -> Result<()> {
    let frames: Vec<Arc<Frame>> = (0..1_200)
        .map(|n| Frame::new(&format!("function_{n}"), &format!("package/module_{}.py", n / 20), n))
        .collect();
    let (mut writer, mut segment) = (Writer::default(), SEGMENT_BEGIN.to_vec());
    let mut as_pprof = 0;
    for second in (0..HOUR).step_by(10) {
        let profile = ten_seconds(&frames, second);
        as_pprof += pprof::encode(&profile)?.len();
        writer.append(7, &"python3 (7)".into(), &profile, &mut segment)?;
    }

    let mut milliseconds = Vec::new();
    for _ in 0..ROUNDS {
        let watch = Stopwatch::start();
        let (from, to) = (Wall(0), Wall(HOUR * SECOND));
        let mut sum = Sum::new(PastQuery { from, to, pid: None, node: Name::default() });
        sum.add(&segment);
        let past = sum.finish();
        let bytes = encode_within(&past.profile, 4 << 20)?;
        milliseconds.push(watch.elapsed().as_secs_f64() * 1e3);
        ensure!(past.profiles == HOUR / 10 && past.covered_seconds == HOUR && !bytes.is_empty());
    }
    milliseconds.sort_by(f64::total_cmp);
    let median = milliseconds[ROUNDS / 2];
    println!("an hour of one process: {} bytes, as pprof {as_pprof}", segment.len());
    println!("added up and encoded: {median:.1} ms, at most {MILLISECONDS_MAX} ms");
    ensure!(median <= MILLISECONDS_MAX, "the target is missed");
    Ok(())
}

fn ten_seconds(frames: &[Arc<Frame>], second: u64) -> Profile {
    let mut profile = Profile::new(ValueType::wall(), SECOND / 19);
    (profile.started_at, profile.duration_ns) = (Wall(second * SECOND), 10 * SECOND);
    for n in 0..60 {
        // Stacks that begin alike and end apart, some of them often.
        let chosen = usize::try_from((second * 7 + n * n * 31) % 500).unwrap_or_default();
        let depth = 30 + chosen % 20;
        let stack = (0..depth).map(|level| match level {
            0..25 => frames[chosen % 8 * 25 + level].clone(),
            _ => frames[200 + (chosen * 2 + level) % 1_000].clone(),
        });
        let labels = SampleLabels {
            thread: Name::new(&format!("Thread-{}", chosen % 8)),
            state: Some(ThreadState::ALL[chosen % 3]),
            ..SampleLabels::default()
        };
        profile.add(Stack::new(stack.collect()), labels, 1 + n % 40);
    }
    profile
}
