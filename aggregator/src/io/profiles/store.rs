//! The folder of profiles, and the list of what is in it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_profile::{Profile, pprof};
use plimsoll_runtime::directory;
use plimsoll_schemas::ids::{MeshName, NodeName, ProfileName};
use plimsoll_schemas::limits::wire::CAPTURE_HZ_MAX;
use plimsoll_schemas::summary::ProfileRow;
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::wire::capture::{CaptureId, CaptureKind};
use thiserror::Error;

use super::file::{self, StoredProfile};
use super::trace::is_trace;
use crate::config::ProfileSettings;
use crate::io::database::quarantine;
use crate::limits::captures::{NAMED_MAX, PROFILES_BYTES_MAX};

const SECOND_NS: u64 = 1_000_000_000;
/// How the names of files end.
const ENDING: &str = "profile";

#[derive(Debug, Error)]
pub enum ProfileError {
    #[error("no profile {0} is kept; GET /api/v1/profiles has them, and those not taken yet")]
    Unknown(ProfileRef),
    #[error("profile {0} is a trace, which has no stacks; GET /api/v1/profiles/{0}/trace has it")]
    Trace(CaptureId),
    #[error("profile {0} is no trace; GET /api/v1/profiles/{0}/pprof has it")]
    NoTrace(CaptureId),
    #[error("profile {by} is kept as {name}; choose another name, or DELETE {by}/keep first")]
    NameTaken { name: ProfileName, by: CaptureId },
    #[error(
        "{NAMED_MAX} profiles are kept under a name; DELETE /api/v1/profiles/{{id}}/keep of one"
    )]
    NamesFull,
    #[error("the name of profile {0} cannot be stored; the log has the cause")]
    NotStored(CaptureId),
    #[error("profile {id} cannot be used: {why}")]
    Damaged { id: CaptureId, why: String },
    #[error("both profiles are of process {pid} on {node}, which has both ranks")]
    SameProcess { node: NodeName, pid: u32 },
    #[error("{0}")]
    Subtract(#[from] plimsoll_profile::MixError),
}

/// What names a profile: its id, or the name under which it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileRef {
    Id(CaptureId),
    Name(ProfileName),
}

impl fmt::Display for ProfileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => write!(f, "name:{name}"),
        }
    }
}

/// Shared by the driver's tasks and by HTTP.
#[derive(Clone, Debug)]
pub struct ProfileStore(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    mesh: MeshName,
    bounds: ProfileSettings,
    kept: Mutex<KeptProfiles>,
}

#[derive(Debug, Default)]
struct KeptProfiles {
    profiles: BTreeMap<CaptureId, ProfileRow>,
    quarantined: u64,
}

impl ProfileStore {
    /// The profiles beside a state file. The folder is created with the first one.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn open(
        state: &Path,
        mesh: &MeshName,
        bounds: ProfileSettings,
        now: Wall,
    ) -> Result<Self, String> {
        let mut path = state.as_os_str().to_owned();
        path.push(".profiles");
        let (path, mesh, kept) = (PathBuf::from(path), mesh.clone(), Mutex::default());
        let store = Self(Arc::new(Folder { path, mesh, bounds, kept }));
        store.scan(now).map_err(|error| format!("{}: {error}", store.0.path.display()))?;
        store.expire(now);
        Ok(store)
    }

    fn scan(&self, now: Wall) -> io::Result<()> {
        let entries = match fs::read_dir(&self.0.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            // What has another ending is not ours, or quarantined.
            if path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            match file::read(&path, &self.0.mesh) {
                Ok(StoredProfile { row, .. }) => self.insert(row),
                // That version reads it again after a rollback.
                Err(why) if file::is_of_later_version(&path) => {
                    tracing::warn!(file = %path.display(), why, "profile of a later version stays");
                }
                Err(why) => self.set_aside(&path, &why, now),
            }
        }
        Ok(())
    }

    /// The profiles, in no order.
    pub fn rows(&self) -> Vec<ProfileRow> {
        self.lock().profiles.values().cloned().collect()
    }

    /// What became of one, if its profile is kept.
    pub fn row(&self, id: CaptureId) -> Option<ProfileRow> {
        self.lock().profiles.get(&id).cloned()
    }

    /// The one of this id or name, if its profile is kept.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self, wanted: &ProfileRef) -> Result<ProfileRow, ProfileError> {
        let found = match wanted {
            ProfileRef::Id(id) => self.row(*id),
            ProfileRef::Name(name) => self.lock().named(name).cloned(),
        };
        found.ok_or_else(|| ProfileError::Unknown(wanted.clone()))
    }

    /// Keeps a profile under a name, or as any other one. What has a name does not expire.
    ///
    /// # Errors
    /// When another one has the name, enough have one, or there is no such profile.
    pub fn keep_as(
        &self,
        now: Wall,
        id: CaptureId,
        name: Option<ProfileName>,
    ) -> Result<ProfileRow, ProfileError> {
        let bytes = self.bytes(now, id)?;
        // First in the list, so that it does not expire while its file is written.
        let before = self.lock().set_name(id, name)?;
        let row = self.find(&ProfileRef::Id(id))?;
        let written = file::write(&self.path(id), &self.0.mesh, &row, &bytes);
        written.map_err(|error| {
            tracing::warn!(%id, %error, "name of a profile not stored");
            self.insert(before);
            ProfileError::NotStored(id)
        })?;
        self.expire(now);
        Ok(row)
    }

    /// Files that could not be used, since the start.
    pub fn quarantined(&self) -> u64 {
        self.lock().quarantined
    }

    /// Stores the bytes that a node sent, if they are a profile.
    ///
    /// # Errors
    /// In one word.
    pub fn write(&self, now: Wall, mut row: ProfileRow, bytes: &[u8]) -> Result<(), &'static str> {
        match row.kind {
            CaptureKind::Trace if is_trace(bytes) => {}
            CaptureKind::Trace => return Err("unreadable"),
            CaptureKind::Cpu
            | CaptureKind::Memory
            | CaptureKind::Past
            | CaptureKind::Continuous => {
                let profile = pprof::decode(bytes).map_err(|_| "unreadable")?;
                if row.kind == CaptureKind::Past {
                    row.hz = rate(&profile);
                }
            }
        }

        let path = self.path(row.id);
        let written = directory::make_parent(&path, directory::PRIVATE)
            .and_then(|()| file::write(&path, &self.0.mesh, &row, bytes));
        written.map_err(|error| {
            tracing::warn!(id = %row.id, %error, "profile not stored");
            "not_stored"
        })?;
        self.insert(row);
        self.expire(now);
        Ok(())
    }

    fn insert(&self, row: ProfileRow) {
        self.lock().profiles.insert(row.id, row);
    }

    /// The bytes of a profile or trace, as its node sent them.
    ///
    /// # Errors
    /// When there is none, or its file is damaged.
    pub fn bytes(&self, now: Wall, id: CaptureId) -> Result<Vec<u8>, ProfileError> {
        self.find(&ProfileRef::Id(id))?;
        let path = self.path(id);
        let read = file::read(&path, &self.0.mesh).map_err(|why| {
            // One that another thread expires meanwhile is not damaged.
            let is_kept = self.lock().profiles.remove(&id).is_some();
            if is_kept {
                self.set_aside(&path, &why, now);
            }
            ProfileError::Damaged { id, why }
        })?;
        Ok(read.pprof)
    }

    /// A profile.
    ///
    /// # Errors
    /// As [`Self::bytes`], and of a trace.
    pub fn profile(&self, now: Wall, id: CaptureId) -> Result<Profile, ProfileError> {
        if self.find(&ProfileRef::Id(id))?.kind == CaptureKind::Trace {
            return Err(ProfileError::Trace(id));
        }
        let bytes = self.bytes(now, id)?;
        let damaged = |why: String| ProfileError::Damaged { id, why };
        pprof::decode(&bytes).map_err(|error| damaged(error.to_string()))
    }

    /// Drops the oldest beyond the bounds, of those without a name.
    fn expire(&self, now: Wall) {
        // The driver and HTTP wait for this lock, and must not wait for the disk.
        let expired = self.lock().take_expired(now, &self.0.bounds);
        for id in expired {
            if let Err(error) = fs::remove_file(self.path(id)) {
                tracing::warn!(%id, %error, "expired profile not removed");
            }
        }
    }

    fn set_aside(&self, path: &Path, why: &str, now: Wall) {
        self.lock().quarantined += 1;
        match quarantine(path, now) {
            Ok(kept_at) => tracing::warn!(
                file = %path.display(), why, kept_at = %kept_at.display(), "profile quarantined"
            ),
            Err(error) => tracing::warn!(file = %path.display(), why, %error, "profile unusable"),
        }
    }

    pub(super) fn path(&self, id: CaptureId) -> PathBuf {
        self.0.path.join(id.to_string()).with_extension(ENDING)
    }

    fn lock(&self) -> MutexGuard<'_, KeptProfiles> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples a second; 0 of several rates in one, whose period is that of none of them.
fn rate(of: &Profile) -> u32 {
    let period = of.period().max(1);
    let hz = u32::try_from((SECOND_NS + period / 2) / period).unwrap_or(u32::MAX);
    if hz <= CAPTURE_HZ_MAX { hz } else { 0 }
}

impl KeptProfiles {
    fn named(&self, name: &ProfileName) -> Option<&ProfileRow> {
        self.profiles.values().find(|row| row.kept_as.as_ref() == Some(name))
    }

    /// Changes the name of one that is kept, and returns its row of before.
    fn set_name(
        &mut self,
        id: CaptureId,
        name: Option<ProfileName>,
    ) -> Result<ProfileRow, ProfileError> {
        let other = name.as_ref().and_then(|name| self.named(name)).filter(|row| row.id != id);
        if let (Some(other), Some(name)) = (other, &name) {
            return Err(ProfileError::NameTaken { name: name.clone(), by: other.id });
        }
        let all_named = self.profiles.values().filter(|row| row.kept_as.is_some() && row.id != id);
        if name.is_some() && all_named.count() >= NAMED_MAX {
            return Err(ProfileError::NamesFull);
        }

        let row = self.profiles.get_mut(&id).ok_or(ProfileError::Unknown(ProfileRef::Id(id)))?;
        let before = row.clone();
        row.kept_as = name;
        Ok(before)
    }

    /// The oldest beyond the bounds, which are kept no longer.
    fn take_expired(&mut self, now: Wall, bounds: &ProfileSettings) -> Vec<CaptureId> {
        let unnamed = self.profiles.values().filter(|row| row.kept_as.is_none());
        let mut all: Vec<&ProfileRow> = unnamed.collect();
        all.sort_by(|a, b| b.made_at().total_cmp(&a.made_at()));

        let oldest = seconds(now.0) - bounds.age_max().as_secs_f64();
        let mut bytes = 0;
        let expired = all.into_iter().enumerate().filter(|(number, row)| {
            bytes += row.bytes;
            let is_kept = *number < bounds.keep && bytes <= PROFILES_BYTES_MAX;
            !is_kept || row.made_at() < oldest
        });
        let expired: Vec<CaptureId> = expired.map(|(_, row)| row.id).collect();
        self.profiles.retain(|id, _| !expired.contains(id));
        expired
    }
}
