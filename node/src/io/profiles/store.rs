//! What the thread of profiles does: writes them to segments, closes and drops those, and reads a
//! range of them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use plimsoll_clock::Clock;
use plimsoll_profile::series::{
    Past, PastQuery, RecordHead, SEGMENT_BEGIN, Sum, Writer, WriterError, encode_within, heads,
};
use plimsoll_profile::{Name, Profile, pprof};
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::wire::capture::{CaptureFacts, CaptureFailure, CaptureState, PastRange};

use super::error::ProfilesError;
use crate::config::ProfileSettings;
use crate::core::captures::{CaptureEnd, CaptureStart};
use crate::core::continuous::KeptProfile;
use crate::core::history::{IntervalEnds, Segment};
use crate::io::segments::{Directory, Files, Format, Scanned, listed};
use crate::limits::{
    CONTINUOUS_SECONDS, PROFILES_SEGMENT_BYTES, PROFILES_SEGMENT_TIME, PROFILES_SKEW_MAX,
    PROFILES_THREADS_MAX,
};

/// How profiles of the past were read, in place of a profiler.
const RUNG: &str = "segments";
const NOTHING: &str = "no profile has its middle in the range: a longer one, or another process?";

/// The open segment has the version of its format in its name, so that another version of this
/// program leaves it alone.
const FORMAT: Format = Format {
    what: "profiles",
    open: "open-1.segment",
    start: SEGMENT_BEGIN,
    scan: |segment| {
        let (heads, bytes) = heads(segment)?;
        Some(Scanned::new(heads.iter().map(RecordHead::to), bytes))
    },
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileStats {
    /// Bytes of all segments,
    pub bytes: u64,
    /// and how many of them were damaged or of another version when they were read.
    pub unread_segments: u64,
}

pub(super) struct Store {
    directory: Directory,
    /// Of the open segment.
    writer: Writer,
    node: Name,
    stats: Arc<Mutex<ProfileStats>>,
}

/// Why a profile is not stored.
enum Unstored {
    Disk(io::Error),
    Profile(&'static str),
}

/// Adds up the profiles of a directory whose middle is in a range; another process may write it.
///
/// # Errors
/// When it cannot be read, or has counts that are too large.
pub fn read_range(dir: &Path, query: PastQuery) -> io::Result<Past> {
    let range = query.from..query.to;
    // A profile whose middle is in the range may end after it, within a minute.
    let near = range.start..range.end.plus(PROFILES_SKEW_MAX);
    let is_near = |segment: &Segment| segment.ends.overlap(&near);
    let mut sum = Sum::new(query);
    let closed = listed(dir)?.into_iter().filter(is_near).map(|segment| segment.file_name());
    for name in closed.chain([FORMAT.open.to_owned()]) {
        match fs::read(dir.join(name)) {
            Ok(bytes) => sum.add(&bytes),
            // It has expired, or none is open.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum.finish())
}

impl Store {
    pub(super) fn new(
        settings: &ProfileSettings,
        node: Name,
        clock: Clock,
        stats: Arc<Mutex<ProfileStats>>,
    ) -> Self {
        let (path, bounds) = (settings.directory.clone(), settings.bounds());
        let directory = Directory::new(path, &FORMAT, bounds, clock);
        Self { directory, writer: Writer::default(), node, stats }
    }

    /// Opens the directory, if it can be used now.
    pub(super) fn open(&mut self) -> Result<(), ProfilesError> {
        self.directory.open().map_err(|path| ProfilesError::InUse { path })?;
        self.count_bytes();
        Ok(())
    }

    /// Stores a profile, or states why not, in one word.
    pub(super) fn write(&mut self, kept: &KeptProfile, now: Wall) -> Result<(), &'static str> {
        if let Some(why) = self.directory.paused() {
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
                // The writer counts on what was lost.
                self.writer = Writer::default();
                return Err(self.directory.fail(&error));
            }
        }
        self.directory.succeed();
        self.count_bytes();
        Ok(())
    }

    fn try_write(
        &mut self,
        kept: &KeptProfile,
        profile: &Profile,
        now: Wall,
    ) -> Result<(), Unstored> {
        let (from, duration_ns) = (profile.started_at, profile.duration_ns);
        let head = RecordHead { from, duration_ns, period: profile.period(), pid: kept.pid };
        // Before it is written: a segment that spans a long pause would expire late.
        let is_due = |ends: IntervalEnds| head.to().since(ends.earliest) >= PROFILES_SEGMENT_TIME;
        if self.open_ends().is_some_and(is_due) {
            self.close(now)?;
        }

        let record = self.record_of(kept, profile, now)?;
        if self.directory.append(&record, head.to())? >= PROFILES_SEGMENT_BYTES {
            self.close(now)?;
        }
        Ok(())
    }

    /// The record of a profile for the open segment, or for a new one where that has no room for
    /// it.
    fn record_of(
        &mut self,
        kept: &KeptProfile,
        profile: &Profile,
        now: Wall,
    ) -> Result<Vec<u8>, Unstored> {
        let process = Name::new(&format!("{} ({})", kept.command, kept.pid));
        let mut record = Vec::new();
        loop {
            let is_new = self.open_ends().is_none();
            match self.writer.append(kept.pid, &process, profile, &mut record) {
                Ok(()) => return Ok(record),
                Err(WriterError::OtherType) => return Err(Unstored::Profile("other_type")),
                Err(WriterError::Full) if is_new => return Err(Unstored::Profile("too_large")),
                Err(WriterError::Full) => self.close(now)?,
            }
        }
    }

    fn open_ends(&self) -> Option<IntervalEnds> {
        self.directory.files().and_then(Files::open_ends)
    }

    fn close(&mut self, now: Wall) -> io::Result<()> {
        self.writer = Writer::default();
        self.directory.close(now)
    }

    fn count_bytes(&self) {
        let bytes = self.directory.files().map_or(0, Files::bytes);
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
        let facts = CaptureFacts {
            kind: order.kind,
            native: order.native,
            rung: RUNG.to_owned(),
            pid: order.pid,
            samples,
            ..CaptureFacts::default()
        };
        CaptureEnd { id: *id, state: CaptureState::Kept, facts, profile: bytes.into() }
    }

    fn encoded(&self, query: PastQuery) -> Result<(Past, Vec<u8>), String> {
        let path = self.directory.path.display();
        let past =
            read_range(&self.directory.path, query).map_err(|error| format!("{path}: {error}"))?;
        let bytes = encode_within(&past.profile, CAPTURE_PROFILE_BYTES_MAX);
        let bytes = bytes.map_err(|error| format!("{path}: {error}"))?;
        Ok((past, bytes))
    }
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
