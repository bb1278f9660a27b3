//! Profiles of the past on disk: one thread stores what continuous profiling brings, answers orders
//! of the past one at a time, and lists processes by name. The driver waits for none of it: what
//! finds no room is counted and not kept.
//!
//! DESIGN N100.

mod error;
mod segments;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_clock::Clock;
use plimsoll_runtime::priority::give_way;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::CaptureFailure;
use tokio::sync::mpsc;

use crate::config::ProfileSettings;
use crate::core::captures::{CaptureEnd, CaptureStart};
use crate::core::continuous::KeptProfile;
use crate::io::hardware::processes_called;
use crate::limits::{HISTORY_NICENESS, PROFILES_QUEUE_MAX, PROFILES_WAITING_BYTES_MAX};
pub use error::ProfilesError;
pub use segments::read_range;
pub use store::ProfileStats;
use store::Store;

const OFF: &str = "profiles.continuous is off at the node: nothing was recorded";

enum Job {
    Find,
    Store(KeptProfile, Wall),
    Read(CaptureStart),
}

/// What became of a job.
#[derive(Debug)]
pub enum ProfileEvent {
    /// Processes that have one of the names.
    Found(Vec<u32>),
    Stored(Result<(), &'static str>),
    Read(CaptureEnd),
}

/// Without a thread when nothing is profiled.
#[derive(Debug)]
pub struct Profiles {
    jobs: Option<SyncSender<Job>>,
    events: mpsc::Receiver<ProfileEvent>,
    /// What found no room in the queue.
    refused: Vec<ProfileEvent>,
    stats: Arc<Mutex<ProfileStats>>,
    /// Bytes of the profiles that wait to be stored.
    waiting_bytes: Arc<AtomicUsize>,
}

impl Profiles {
    /// Opens the directory, which is made if need be. A disk that cannot be used now is tried again
    /// later; until then nothing is kept, which is counted.
    pub fn open(
        settings: &ProfileSettings,
        node: &NodeName,
        clock: Clock,
    ) -> Result<Self, ProfilesError> {
        // Room for all that waits: the thread never waits for the driver to read.
        let (out, events) = mpsc::channel(if settings.continuous { PROFILES_QUEUE_MAX } else { 1 });
        let stats = Arc::default();
        let (refused, waiting_bytes) = (Vec::new(), Arc::default());
        let mut opened = Self { jobs: None, events, refused, stats, waiting_bytes };
        if !settings.continuous {
            return Ok(opened);
        }

        let node = node.as_str().into();
        let mut store = Store::new(settings, node, clock, Arc::clone(&opened.stats));
        store.open()?;
        let (jobs, to_do) = sync_channel(PROFILES_QUEUE_MAX);
        let names = settings.processes.clone();
        std::thread::Builder::new().name("profiles".to_owned()).spawn({
            let waiting_bytes = Arc::clone(&opened.waiting_bytes);
            move || run(store, &names, &to_do, &out, &waiting_bytes)
        })?;
        opened.jobs = Some(jobs);
        Ok(opened)
    }

    pub fn find(&self) {
        // One that finds no room comes again.
        let _sent = self.jobs.as_ref().map(|jobs| jobs.try_send(Job::Find));
    }

    pub fn store(&mut self, profile: KeptProfile, now: Wall) {
        let bytes = profile.profile.len();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::AcqRel);
        if waiting + bytes > PROFILES_WAITING_BYTES_MAX || !self.send(Job::Store(profile, now)) {
            self.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.refused.push(ProfileEvent::Stored(Err("slow")));
        }
    }

    /// Reads a range; the profile comes as an event.
    pub fn read(&mut self, start: CaptureStart) {
        let id = start.id;
        if !self.send(Job::Read(start)) {
            let (failure, fix) = match self.jobs {
                Some(_) => (CaptureFailure::ProfilerBusy, String::new()),
                None => (CaptureFailure::NotSupported, OFF.to_owned()),
            };
            self.refused.push(ProfileEvent::Read(CaptureEnd::failed(id, failure, fix)));
        }
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok())
    }

    /// The next event; never without a thread. Cancel safe.
    pub async fn next(&mut self) -> ProfileEvent {
        if let Some(refused) = self.refused.pop() {
            return refused;
        }
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    pub fn stats(&self) -> ProfileStats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn run(
    mut store: Store,
    names: &[String],
    jobs: &Receiver<Job>,
    events: &mpsc::Sender<ProfileEvent>,
    waiting_bytes: &AtomicUsize,
) {
    give_way(HISTORY_NICENESS);

    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    while let Ok(job) = jobs.recv() {
        let event = match job {
            Job::Find => ProfileEvent::Found(processes_called(Path::new("/"), &names)),
            Job::Store(profile, now) => {
                let stored = store.write(&profile, now);
                waiting_bytes.fetch_sub(profile.profile.len(), Ordering::AcqRel);
                ProfileEvent::Stored(stored)
            }
            Job::Read(start) => ProfileEvent::Read(store.read(&start)),
        };
        // A driver that has ended needs none.
        if events.blocking_send(event).is_err() {
            return;
        }
    }
}
