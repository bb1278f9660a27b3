//! Samples every Python process below one, from outside and for as long as it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_profile::{Profile, merge};
use plimsoll_profiler::capture;
use plimsoll_profiler::limits::SECONDS_MAX;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::output::{Capture, End};
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;

const RATE_HZ: u32 = 100;
/// Processes that are sampled at a time.
const PROCESSES_MAX: usize = 16;
/// Time between two looks for new processes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a process is tried that is not Python yet: an interpreter starts within a second, and
/// a shell may become one.
const TRIES_MAX: u32 = 20;
/// Processes whose tries are remembered: a build starts thousands.
const TRIED_MAX: usize = 4_096;

/// A thread that samples.
pub(super) struct TreeSampler {
    stop: Sender<()>,
    thread: JoinHandle<Sampled>,
}

/// What was sampled.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    /// The sum of all processes; `None` if there was none.
    pub(super) profile: Option<Profile>,
    /// Why processes were not sampled, in words.
    pub(super) refusals: BTreeSet<String>,
}

impl TreeSampler {
    /// Samples a process and those below it.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(super) fn start(root: i32) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let watch = Watch {
            root,
            cancel: Cancel::default(),
            captures: BTreeMap::new(),
            tries: BTreeMap::new(),
            sampled: Sampled::default(),
        };
        let thread = std::thread::Builder::new()
            .name("profiler".to_owned())
            .spawn(move || watch.run(&stopped))?;
        Ok(Self { stop, thread })
    }

    /// Ends all captures.
    pub(super) fn stop(self) -> Sampled {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| Sampled {
            profile: None,
            refusals: ["the profiler failed".to_owned()].into(),
        })
    }
}

struct Watch {
    root: i32,
    cancel: Cancel,
    captures: BTreeMap<i32, JoinHandle<Result<Capture, Refusal>>>,
    tries: BTreeMap<i32, u32>,
    sampled: Sampled,
}

impl Watch {
    fn run(mut self, stopped: &Receiver<()>) -> Sampled {
        loop {
            self.look();
            if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            self.collect(JoinHandle::is_finished);
        }
        self.cancel.cancel();
        self.collect(|_| true);
        self.sampled
    }

    /// Starts a capture of each process that has none.
    fn look(&mut self) {
        for pid in below(self.root, &parents()) {
            let tries = self.tries.get(&pid).copied().unwrap_or_default();
            let is_full = self.tries.len() >= TRIED_MAX && tries == 0;
            if self.captures.len() >= PROCESSES_MAX || is_full {
                return;
            }
            if tries >= TRIES_MAX || self.captures.contains_key(&pid) {
                continue;
            }
            let Ok(order) = Order::new(pid, RATE_HZ, SECONDS_MAX, Paths::Short) else { return };
            let cancel = self.cancel.clone();
            let work = move || capture(&order, &cancel);
            let started = std::thread::Builder::new().name(format!("profiler {pid}")).spawn(work);
            self.tries.insert(pid, tries + 1);
            self.captures.extend(started.ok().map(|capture| (pid, capture)));
        }
    }

    /// Takes what captures have brought.
    fn collect(&mut self, is_over: impl Fn(&JoinHandle<Result<Capture, Refusal>>) -> bool) {
        let all = std::mem::take(&mut self.captures).into_iter();
        let (over, going): (Vec<_>, Vec<_>) = all.partition(|(_, capture)| is_over(capture));
        self.captures = going.into_iter().collect();
        for (pid, capture) in over {
            if let Ok(result) = capture.join() {
                self.take(pid, result);
            }
        }
    }

    fn take(&mut self, pid: i32, result: Result<Capture, Refusal>) {
        let capture = match result {
            Ok(capture) => capture,
            // It may be no Python, or none yet; or it is over.
            Err(Refusal::NotPython { .. } | Refusal::NotRunning(_) | Refusal::NoProcess(_)) => {
                return;
            }
            Err(refusal) => {
                self.tries.insert(pid, TRIES_MAX);
                if self.sampled.refusals.len() < PROCESSES_MAX {
                    self.sampled.refusals.insert(refusal.to_string());
                }
                return;
            }
        };

        let goes_on = matches!(capture.ended, End::Complete | End::Replaced);
        self.tries.insert(pid, if goes_on { 1 } else { TRIES_MAX });
        let profile = match self.sampled.profile.take() {
            None => Ok(capture.profile),
            Some(before) => merge(&[&before, &capture.profile]).map_err(|error| (before, error)),
        };
        self.sampled.profile = Some(profile.unwrap_or_else(|(before, error)| {
            self.sampled.refusals.insert(error.to_string());
            before
        }));
    }
}

/// A process and all below it, the older ones first.
fn below(root: i32, parents: &[(i32, i32)]) -> Vec<i32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        // A number that is used again while this is read could close a circle.
        let children = parents.iter().filter(|(pid, of)| *of == parent && !found.contains(pid));
        let children: Vec<i32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        at += 1;
    }
    found
}

/// Each process of this machine with its parent.
fn parents() -> Vec<(i32, i32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it may have any characters.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        Some((pid, parent.parse().ok()?))
    };
    pids.filter_map(parent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_what_is_below_its_root() {
        let parents = [(2, 1), (5, 2), (3, 1), (7, 5), (9, 8), (0, 0)];
        assert_eq!(below(2, &parents), [2, 5, 7]);
        assert_eq!(below(1, &parents), [1, 2, 3, 5, 7]);
        assert_eq!(below(0, &parents), [0], "no process is its own child");
        assert_eq!(below(4, &[(4, 6), (6, 4)]), [4, 6]);
        let own = i32::try_from(std::process::id()).unwrap();
        let above = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        assert!(super::parents().contains(&(own, above)));
    }
}
