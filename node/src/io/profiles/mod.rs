//! Profiles of the past on disk: one thread stores what continuous profiling brings, answers orders
//! of the past one at a time, and lists processes by name. The driver waits for none of it: what
//! finds no room is counted and not kept.
//!
//! DESIGN N100.

mod error;
mod store;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_clock::Clock;
use plimsoll_profile::Name;
use plimsoll_runtime::priority::give_way;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{CaptureFailure, CaptureKind};
use tokio::sync::mpsc;

use crate::config::ProfileSettings;
use crate::core::captures::{CaptureEnd, CaptureStart};
use crate::core::continuous::KeptProfile;
use crate::io::hardware::processes_called;
use crate::limits::{HISTORY_NICENESS, PROFILES_QUEUE_MAX, PROFILES_WAITING_BYTES_MAX};
pub use error::ProfilesError;
use store::Store;
pub use store::{ProfileStats, read_range};

const OFF: &str = "profiles.continuous is off at the node: nothing was recorded";
const NOTHING_WATCHED: &str = "no process was watched: those that send samples over a Unix socket \
                               are (profiles.jobs), and those of profiles.processes";

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

/// Without a thread until something is profiled or read.
#[derive(Debug)]
pub struct Profiles {
    settings: ProfileSettings,
    node: Name,
    clock: Clock,
    jobs: Option<SyncSender<Job>>,
    out: mpsc::Sender<ProfileEvent>,
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
        let (out, events) = mpsc::channel(PROFILES_QUEUE_MAX);
        let mut opened = Self {
            settings: settings.clone(),
            node: node.as_str().into(),
            clock,
            jobs: None,
            out,
            events,
            refused: Vec::new(),
            stats: Arc::default(),
            waiting_bytes: Arc::default(),
        };
        if settings.continuous {
            let mut store = opened.new_store();
            store.open()?;
            opened.start(store)?;
        }
        Ok(opened)
    }

    /// Of a directory that is opened by the first write.
    fn new_store(&self) -> Store {
        Store::new(&self.settings, self.node.clone(), self.clock, Arc::clone(&self.stats))
    }

    fn start(&mut self, store: Store) -> io::Result<()> {
        let (jobs, to_do) = sync_channel(PROFILES_QUEUE_MAX);
        let (names, out) = (self.settings.processes.clone(), self.out.clone());
        let waiting_bytes = Arc::clone(&self.waiting_bytes);
        std::thread::Builder::new()
            .name("profiles".to_owned())
            .spawn(move || run(store, &names, &to_do, &out, &waiting_bytes))?;
        self.jobs = Some(jobs);
        Ok(())
    }

    pub fn find(&mut self) {
        // One that finds no room comes again.
        let _is_sent = self.send(Job::Find);
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
        let off = if start.order.kind == CaptureKind::Continuous { NOTHING_WATCHED } else { OFF };
        let was_recorded = self.jobs.is_some() || self.settings.directory.exists();
        if !was_recorded || !self.send(Job::Read(start)) {
            let (failure, fix) = match was_recorded {
                true => (CaptureFailure::ProfilerBusy, String::new()),
                false => (CaptureFailure::NotSupported, off.to_owned()),
            };
            self.refused.push(ProfileEvent::Read(CaptureEnd::failed(id, failure, fix)));
        }
    }

    fn send(&mut self, job: Job) -> bool {
        // Settings are off: an order records, or reads what was recorded before.
        if self.jobs.is_none()
            && let Err(error) = self.start(self.new_store())
        {
            tracing::error!(%error, "profiles: no thread can be started");
        }
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
