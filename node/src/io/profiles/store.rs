//! What the thread of profiles does: writes them to segments, closes and drops those, and reads a
//! range of them.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_profile::series::{Past, PastQuery, RecordHead, WriterError, encode_within};
use plimsoll_profile::{Name, Profile, pprof};
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use plimsoll_schemas::time::{Mono, Wall, nanos};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureKind, CaptureState, PastRange,
};

use super::error::ProfilesError;
use super::segments::{Files, LOCK, read_range};
use crate::config::ProfileSettings;
use crate::core::captures::{CaptureEnd, CaptureStart};
use crate::core::continuous::KeptProfile;
use crate::core::history::HistoryBounds;
use crate::io::history::reason;
use crate::limits::{
    CONTINUOUS_SECONDS, HISTORY_RETRY_PAUSE, PROFILES_SEGMENT_BYTES, PROFILES_SEGMENT_TIME,
    PROFILES_SKEW_MAX, PROFILES_THREADS_MAX,
};

/// How profiles of the past were read, in place of a profiler.
const RUNG: &str = "segments";
const NOTHING: &str = "no profile has its middle in the range: a longer one, or another process?";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileStats {
    /// Bytes of all segments,
    pub bytes: u64,
    /// and how many of them were damaged or of another version when they were read.
    pub unread_segments: u64,
}

pub(super) struct Store {
    dir: PathBuf,
    node: Name,
    bounds: HistoryBounds,
    clock: Clock,
    stats: Arc<Mutex<ProfileStats>>,
    /// `None` while the directory cannot be used.
    files: Option<Files>,
    /// Nothing is tried before.
    retry_at: Mono,
    /// Why the latest write failed.
    failed: Option<&'static str>,
}

/// Why a profile is not stored.
enum Unstored {
    Disk(io::Error),
    Profile(&'static str),
}

impl Store {
    pub(super) fn new(
        settings: &ProfileSettings,
        node: Name,
        clock: Clock,
        stats: Arc<Mutex<ProfileStats>>,
    ) -> Self {
        let (dir, bounds) = (settings.directory.clone(), settings.bounds());
        let (files, retry_at, failed) = (None, Mono(0), None);
        Self { dir, node, bounds, clock, stats, files, retry_at, failed }
    }

    /// Opens the directory, if it can be used now.
    pub(super) fn open(&mut self) -> Result<(), ProfilesError> {
        match Files::open(&self.dir) {
            Ok(files) => self.files = Some(files),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                return Err(ProfilesError::InUse { path: self.dir.join(LOCK) });
            }
            Err(error) => self.fail(&error),
        }
        self.count_bytes();
        Ok(())
    }

    /// Stores a profile, or states why not, in one word.
    pub(super) fn write(&mut self, kept: &KeptProfile, now: Wall) -> Result<(), &'static str> {
        let is_waiting = self.clock.now().mono < self.retry_at;
        if let Some(why) = self.failed.filter(|_| is_waiting) {
            return Err(why);
        }
        let profile = pprof::decode(&kept.profile).map_err(|_| "malformed")?;
        if !is_plausible(&profile, now) {
            return Err("malformed");
        }
        match self.try_write(kept, &profile, now) {
            Ok(()) => {}
            Err(Unstored::Profile(why)) => return Err(why),
            Err(Unstored::Disk(error)) => {
                self.fail(&error);
                return Err(reason(&error));
            }
        }
        if self.failed.take().is_some() {
            tracing::info!("profiles are written again");
        }
        self.count_bytes();
        Ok(())
    }

    fn try_write(
        &mut self,
        kept: &KeptProfile,
        profile: &Profile,
        now: Wall,
    ) -> Result<(), Unstored> {
        let files = match &mut self.files {
            Some(files) => files,
            none => none.insert(Files::open(&self.dir)?),
        };
        let (from, duration_ns) = (profile.started_at, profile.duration_ns);
        let head = RecordHead { from, duration_ns, period: profile.period(), pid: kept.pid };
        let earliest = files.open.as_ref().and_then(|open| open.ends).map(|ends| ends.earliest);
        // Before it is written: a segment that spans a long pause would expire late.
        if earliest.is_some_and(|earliest| head.to().since(earliest) >= PROFILES_SEGMENT_TIME) {
            files.close()?;
            files.expire(now, self.bounds);
        }

        let record = record_of(files, kept, profile)?;
        let open = files.opened()?;
        open.append(&record, head)?;
        if open.bytes >= PROFILES_SEGMENT_BYTES {
            files.close()?;
            files.expire(now, self.bounds);
        }
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        if self.failed.replace(reason(error)).is_none() {
            let path = self.dir.display();
            tracing::error!(%path, %error, "profiles not written; retried every 30 s");
        }
        self.retry_at = self.clock.now().mono.plus(HISTORY_RETRY_PAUSE);
        // What is on disk is found out by opening it anew, which closes the segment.
        self.files = None;
    }

    fn count_bytes(&self) {
        let bytes = self.files.as_ref().map_or(0, Files::bytes);
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).bytes = bytes;
    }

    /// The profiles of a range as one.
    pub(super) fn read(&self, start: &CaptureStart) -> CaptureEnd {
        let CaptureStart { id, order, past, from_outside: _ } = start;
        let Some(PastRange { from, to }) = *past else {
            return CaptureEnd::failed(*id, CaptureFailure::Other, String::new());
        };
        let pid = Some(order.pid).filter(|pid| *pid > 0);
        let query = PastQuery { from, to, pid, node: self.node.clone() };
        let (past, bytes) = match self.encoded(query) {
            Ok(read) => read,
            Err(fix) => return CaptureEnd::failed(*id, CaptureFailure::Unreadable, fix),
        };
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.unread_segments = stats.unread_segments.max(past.unread_segments);
        if past.profiles == 0 {
            return CaptureEnd::failed(*id, CaptureFailure::Unreadable, NOTHING.to_owned());
        }

        let samples = past.profile.samples().map(|sample| sample.count).sum();
        let (kind, rung, pid) = (CaptureKind::Past, RUNG.to_owned(), order.pid);
        let facts = CaptureFacts { kind, rung, pid, samples, ..CaptureFacts::default() };
        CaptureEnd { id: *id, state: CaptureState::Kept, facts, profile: bytes.into() }
    }

    fn encoded(&self, query: PastQuery) -> Result<(Past, Vec<u8>), String> {
        let path = self.dir.display();
        let past = read_range(&self.dir, query).map_err(|error| format!("{path}: {error}"))?;
        let bytes = encode_within(&past.profile, CAPTURE_PROFILE_BYTES_MAX);
        let bytes = bytes.map_err(|error| format!("{path}: {error}"))?;
        Ok((past, bytes))
    }
}

/// The record of a profile for the open segment, or for a new one where that has no room for it.
fn record_of(
    files: &mut Files,
    kept: &KeptProfile,
    profile: &Profile,
) -> Result<Vec<u8>, Unstored> {
    let process = Name::new(&format!("{} ({})", kept.command, kept.pid));
    let mut record = Vec::new();
    for is_last in [files.open.is_none(), true] {
        let open = files.opened()?;
        match open.writer.append(kept.pid, &process, profile, &mut record) {
            Ok(()) => return Ok(record),
            Err(WriterError::OtherType) => return Err(Unstored::Profile("other_type")),
            // Its tables are of no more use.
            Err(WriterError::Full) => files.close()?,
        }
        if is_last {
            break;
        }
    }
    Err(Unstored::Profile("too_large"))
}

impl From<io::Error> for Unstored {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Whether it can be of the last turn. A client inside of a process states what it likes: counts
/// that no sum has room for, or a time that never expires, would cost the profiles of all others.
fn is_plausible(profile: &Profile, now: Wall) -> bool {
    let turn = nanos(Duration::from_secs(CONTINUOUS_SECONDS.into()));
    let earliest = now.minus(PROFILES_SKEW_MAX + Duration::from_nanos(3 * turn));
    let is_recent = (earliest..now.plus(PROFILES_SKEW_MAX)).contains(&profile.started_at);
    let is_short = profile.duration_ns <= 2 * turn;
    is_recent && is_short && profile.value() <= PROFILES_THREADS_MAX * 2 * turn
}
