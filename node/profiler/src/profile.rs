//! A capture as the profile that travels: the one place where the two vocabularies meet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_profile::{
    CaptureFacts, Frame, Profile, SampleLabels, Stack, ThreadState, ValueType, WAITING_FOR_GIL,
};
use plimsoll_schemas::time::{Wall, nanos};

use crate::output::{Capture, CountedStack, Facts, StackSample, ThreadActivity, ThreadId};

/// How a profile of this crate was taken.
const RUNG: &str = "memory";
/// Parts of a path that remain of it.
const PATH_PARTS: usize = 2;

/// How much of a source file's path a profile has. A whole path may name a person or a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// The file and the folder that it is in.
    Short,
    Full,
}

impl Capture {
    /// The profile of this capture: the wall time of each thread.
    pub fn profile(&self, paths: Paths) -> Profile {
        let period = 1_000_000_000 / u64::from(self.facts.rate_hz.max(1));
        let mut profile = Profile::new(ValueType::wall(), period);
        profile.started_at = Wall(nanos(duration(self.facts.started_unix_seconds)));
        profile.duration_ns = nanos(duration(self.facts.seconds));
        profile.facts = facts(&self.facts);

        let frames: Vec<Arc<Frame>> = self
            .frames
            .iter()
            .map(|frame| Frame::new(&frame.function, shown(&frame.file, paths), frame.line))
            .collect();
        let threads: HashMap<ThreadId, String> = self
            .threads
            .iter()
            // Threads of a pool often share a name.
            .map(|thread| (thread.id, format!("{} {}", thread.name, thread.id.0)))
            .collect();

        for CountedStack { stack, count } in &self.stacks {
            let labels = SampleLabels {
                thread: threads.get(&stack.thread).map_or("", String::as_str).into(),
                state: Some(state(stack.activity)),
                ..SampleLabels::default()
            };
            profile.add(travelling(stack, &frames), labels, *count);
        }

        profile
    }
}

fn travelling(stack: &StackSample, frames: &[Arc<Frame>]) -> Stack {
    let mut root_first = Vec::with_capacity(stack.frames.len() + 2);
    if stack.is_truncated {
        root_first.push(Frame::marker(plimsoll_profile::TRUNCATED));
    }
    root_first.extend(stack.frames.iter().filter_map(|row| frames.get(row.0 as usize)).cloned());

    // Under the function that waits, so that a flame graph shows which ones do.
    if stack.activity == ThreadActivity::Gil {
        root_first.push(Frame::marker(WAITING_FOR_GIL));
    }
    Stack::new(root_first)
}

fn state(activity: ThreadActivity) -> ThreadState {
    match activity {
        ThreadActivity::Running => ThreadState::Running,
        ThreadActivity::Waiting => ThreadState::Waiting,
        ThreadActivity::Gil => ThreadState::Gil,
    }
}

fn facts(facts: &Facts) -> CaptureFacts {
    let readings = &facts.readings;
    let lost = readings.overflowed + facts.ticks.missed;
    CaptureFacts {
        rung: RUNG.into(),
        rate_asked_millihertz: u64::from(facts.rate_hz) * 1_000,
        rate_reached_millihertz: millihertz(facts.reached_hz),
        samples_asked: readings.whole + readings.torn + lost,
        samples_taken: readings.whole,
        samples_torn: readings.torn,
        samples_lost: lost,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is at most 1 000, and the cast saturates"
)]
fn millihertz(hz: f64) -> u64 {
    (hz * 1_000.0).round() as u64
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn shown(path: &str, paths: Paths) -> &str {
    let cut = path.rmatch_indices('/').nth(PATH_PARTS - 1);
    match cut {
        Some((at, _)) if paths == Paths::Short => &path[at + 1..],
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{self, End, FrameRef, ReadingCounts, Thread, Ticks};

    fn capture() -> Capture {
        let facts = Facts {
            pid: 1,
            python: "3.11.7".to_owned(),
            started_unix_seconds: 1_700_000_000.5,
            seconds: 2.0,
            rate_hz: 100,
            reached_hz: 99.5,
            ended: End::Complete,
            ticks: Ticks { taken: 199, missed: 1, torn_lists: 0 },
            readings: ReadingCounts { whole: 10, torn: 2, overflowed: 3, ..Default::default() },
        };
        let frame = |function: &str, file: &str, line| output::Frame {
            function: function.into(),
            file: file.into(),
            first_line: 1,
            line,
        };
        let stack = |thread, activity, rows: &[u32], is_truncated| StackSample {
            thread: ThreadId(thread),
            activity,
            frames: rows.iter().map(|row| FrameRef(*row)).collect(),
            is_truncated,
        };
        Capture {
            facts,
            threads: vec![Thread { id: ThreadId(7), name: "worker".to_owned() }],
            frames: vec![
                frame("<module>", "/data/ann/train/main.py", 3),
                frame("augment", "data.py", 41),
            ],
            stacks: vec![
                CountedStack { stack: stack(7, ThreadActivity::Running, &[0, 1], false), count: 6 },
                CountedStack { stack: stack(7, ThreadActivity::Gil, &[0], false), count: 3 },
                CountedStack { stack: stack(8, ThreadActivity::Waiting, &[1], true), count: 1 },
            ],
        }
    }

    #[test]
    fn each_stack_has_its_thread_state_and_time() {
        let profile = capture().profile(Paths::Short);
        let shown: Vec<String> = profile
            .samples()
            .map(|sample| {
                let frames: Vec<String> =
                    sample.stack.frames().iter().map(ToString::to_string).collect();
                let state = sample.labels.state.map_or("", ThreadState::as_str);
                format!("{} {state} {} {}", sample.labels.thread, frames.join(" > "), sample.count)
            })
            .collect();
        assert_eq!(
            shown,
            [
                " waiting [truncated] > augment (data.py:41) 1",
                "worker 7 running <module> (train/main.py:3) > augment (data.py:41) 6",
                "worker 7 gil <module> (train/main.py:3) > <waiting for GIL> 3",
            ]
        );
        assert_eq!(profile.value(), 10 * 10_000_000);
        assert_eq!(profile.started_at, Wall(1_700_000_000_500_000_000));
        assert_eq!(profile.duration_ns, 2_000_000_000);
    }

    #[test]
    fn facts_account_for_every_sample() {
        let facts = capture().profile(Paths::Short).facts;
        assert_eq!((facts.rate_asked_millihertz, facts.rate_reached_millihertz), (100_000, 99_500));
        assert_eq!((facts.samples_taken, facts.samples_torn, facts.samples_lost), (10, 2, 4));
        assert_eq!(facts.samples_asked, 16);
    }

    #[test]
    fn a_path_is_cut_to_its_last_two_parts_unless_all_is_wanted() {
        for (path, short) in [
            ("/data/ann/train/main.py", "train/main.py"),
            ("train/main.py", "train/main.py"),
            ("/main.py", "/main.py"),
            ("main.py", "main.py"),
            ("<string>", "<string>"),
            ("", ""),
            ("/ü/ö/ä.py", "ö/ä.py"),
        ] {
            assert_eq!(shown(path, Paths::Short), short);
            assert_eq!(shown(path, Paths::Full), path);
        }
    }
}
