//! The file of one profile: a line of facts as JSON, then the pprof bytes. Its name is the id.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use plimsoll_schemas::summary::ProfileRow;
use serde::{Deserialize, Serialize};

use crate::limits::captures::FACTS_BYTES_MAX;

/// The version that this program writes and reads.
const VERSION: u16 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Facts {
    version: u16,
    mesh: MeshName,
    /// Of the pprof bytes.
    crc32: u32,
    profile: ProfileRow,
}

/// A file that was looked at.
pub(super) struct FoundProfile {
    pub(super) row: ProfileRow,
    /// Of the whole file.
    pub(super) size: u64,
}

/// Writes a new file under another name, then renames it.
pub(super) fn write(
    path: &Path,
    mesh: &MeshName,
    row: &ProfileRow,
    pprof: &[u8],
) -> io::Result<u64> {
    let (mesh, profile, crc32) = (mesh.clone(), row.clone(), crc32fast::hash(pprof));
    let mut bytes = serde_json::to_vec(&Facts { version: VERSION, mesh, crc32, profile })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(pprof);

    let new = path.with_extension("new");
    let mut options = File::options();
    // What is there may be a link to another file.
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.custom_flags(libc::O_NOFOLLOW).open(&new)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    Ok(bytes.len() as u64)
}

/// Reads the facts, and checks that the length is as they state. The bytes are checked when they
/// are read: a start would read gigabytes.
pub(super) fn look(path: &Path, mesh: &MeshName, id: &str) -> Result<FoundProfile, String> {
    let (facts, file) = open(path).map_err(|error| error.to_string())?;
    let size = file.get_ref().metadata().map_err(|error| error.to_string())?.len();
    check(&facts, mesh, id)?;
    // The line of facts, whose length is not stated, is at least its shortest.
    let is_whole =
        size > facts.profile.bytes && size - facts.profile.bytes <= FACTS_BYTES_MAX as u64;
    if !is_whole {
        return Err(format!("it has {size} bytes, and a profile of {}", facts.profile.bytes));
    }
    Ok(FoundProfile { row: facts.profile, size })
}

/// The pprof bytes.
pub(super) fn read(path: &Path, mesh: &MeshName, id: &str) -> Result<Vec<u8>, String> {
    let (facts, file) = open(path).map_err(|error| error.to_string())?;
    check(&facts, mesh, id)?;
    let mut pprof = Vec::new();
    let limit = CAPTURE_PROFILE_BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut pprof).map_err(|error| error.to_string())?;
    if pprof.len() as u64 != facts.profile.bytes || crc32fast::hash(&pprof) != facts.crc32 {
        return Err("its profile is not the one that was written".to_owned());
    }
    Ok(pprof)
}

fn open(path: &Path) -> io::Result<(Facts, BufReader<File>)> {
    let mut file = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    Read::by_ref(&mut file).take(FACTS_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    Ok((serde_json::from_slice(&line)?, file))
}

fn check(facts: &Facts, mesh: &MeshName, id: &str) -> Result<(), String> {
    let Facts { version, mesh: theirs, profile, .. } = facts;
    if *version != VERSION {
        return Err(format!("it is of version {version}; this program reads {VERSION}"));
    }
    if theirs != mesh {
        return Err(format!("it is of mesh {theirs}, not of {mesh}"));
    }
    if profile.id != id {
        return Err(format!("it is the profile {}", profile.id));
    }
    Ok(())
}
