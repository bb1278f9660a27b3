//! Checks every second whether a rule file has changed, on a thread of its own, so that a hanging
//! file system blocks nothing else. What has changed is read once it has not changed for a second.
//! A panic restarts the thread's work.
//!
//! DESIGN A52.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::limits::rules::LOOK_EVERY;
use plimsoll_schemas::rule::Rules;
use tokio::sync::mpsc;

use super::sources::{Loaded, Sources, Stamps, stamp};
use crate::config::Config;
use crate::core::fleet::Definition;

/// Wait for the thread to end; one that hangs in a file system is abandoned.
const END_WAIT: Duration = Duration::from_secs(1);

/// The result of a check of the files.
#[derive(Debug)]
pub struct Found {
    pub requested: bool,
    /// The rules, or why the files are invalid.
    pub rules: Result<Rules, String>,
    /// The roll-ups, if the files are valid.
    pub rollups: Vec<Definition>,
    /// Rules that are valid and probably not what was meant.
    pub advice: Vec<String>,
    /// Sections of the settings that differ from those at the start.
    pub restart: Vec<&'static str>,
}

/// The thread that checks the files.
pub struct Watch {
    requests: SyncSender<()>,
    found: mpsc::Receiver<Found>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Starts the thread, with the stamps of what the start has read.
    pub fn start(
        sources: Sources,
        config: Config,
        stamps: Stamps,
        supervisor: &Supervisor,
    ) -> std::io::Result<Self> {
        // One pending request is enough: it covers every change before it is handled.
        let (requests, requested) = sync_channel(1);
        let (send, found) = mpsc::channel(1);
        let mut checker = Checker::new(sources, config, stamps);
        let mut task = supervisor.task("watch-rules");

        let run = move || {
            while let Some(pause) = task.run_once(|| checker.run(&requested, &send)) {
                // The next start reads the files whether they have changed or not.
                checker.again = true;
                if requested.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        };

        let thread = std::thread::Builder::new().name("watch-rules".to_owned()).spawn(run)?;
        Ok(Self { requests, found, thread })
    }

    pub fn request(&self) {
        // When it is full, a request is pending that has not been handled.
        let _requested = self.requests.try_send(());
    }

    /// The next result. Cancel safe.
    pub async fn next(&mut self) -> Found {
        match self.found.recv().await {
            Some(found) => found,
            // The thread ends only when this value is dropped.
            None => std::future::pending().await,
        }
    }

    pub async fn end(self) {
        let Self { requests, mut found, thread } = self;
        drop(requests);
        let ended = async { while found.recv().await.is_some() {} };
        if tokio::time::timeout(END_WAIT, ended).await.is_ok() {
            // The thread has closed its channel and is returning.
            let _joined = thread.join();
        }
    }
}

/// Looks at the files.
pub(super) struct Checker {
    sources: Sources,
    /// The settings in force.
    config: Config,
    stamps: Stamps,
    /// Whether the next check reads the files even if no stamp has changed: it catches a second
    /// write within the resolution of a stamp, and a file that was half written.
    again: bool,
    last_error: Option<String>,
    /// The stamps at the last look.
    seen: Option<Stamps>,
}

impl Checker {
    /// After a start that has read files with these stamps.
    pub(super) fn new(sources: Sources, config: Config, stamps: Stamps) -> Self {
        Self { sources, config, stamps, again: true, last_error: None, seen: None }
    }

    /// Checks the files until the owner is gone; then true.
    fn run(&mut self, requested: &Receiver<()>, send: &mpsc::Sender<Found>) -> bool {
        loop {
            let requested = match requested.recv_timeout(LOOK_EVERY) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return true,
            };
            let Some(found) = self.check(requested) else { continue };
            if send.blocking_send(found).is_err() {
                return true;
            }
        }
    }

    /// Reads the files if they may have changed; `None` when there is no news.
    pub(super) fn check(&mut self, requested: bool) -> Option<Found> {
        let present: Stamps = self.stamps.keys().map(|path| (path.clone(), stamp(path))).collect();
        let changed = present != self.stamps;
        if !requested && !changed && !self.again {
            return None;
        }
        // A file that is written in place may be half of what it will be, and valid.
        let is_resting = !changed || self.seen.as_ref() == Some(&present);
        self.seen = Some(present);
        if !requested && !is_resting {
            return None;
        }

        let (loaded, stamps) = self.sources.load();
        // Files that were not reached because an earlier one is invalid stay watched.
        let before: Vec<PathBuf> = self.stamps.keys().cloned().collect();
        self.stamps = stamps;

        let (rules, rollups, advice, restart, error) = match loaded {
            Ok(Loaded { rules, resolved }) => {
                let advice = self.config.advice(&rules);
                let restart = self.config.differing(&resolved.value);
                (Ok(rules), resolved.value.rollups(), advice, restart, None)
            }
            Err(error) => {
                before.into_iter().for_each(|path| {
                    self.stamps.entry(path).or_insert_with_key(|path| stamp(path));
                });
                (Err(error.clone()), Vec::new(), Vec::new(), Vec::new(), Some(error))
            }
        };

        self.again = changed || error.is_some();
        let news = requested || changed || error != self.last_error;
        self.last_error = error;
        news.then_some(Found { requested, rules, rollups, advice, restart })
    }
}
