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

/// What a file has, whole.
pub(super) struct StoredProfile {
    pub(super) row: ProfileRow,
    pub(super) pprof: Vec<u8>,
}

/// Writes a new file under another name, then renames it.
pub(super) fn write(
    path: &Path,
    mesh: &MeshName,
    row: &ProfileRow,
    pprof: &[u8],
) -> io::Result<()> {
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
    fs::rename(&new, path)
}

/// Whether a later version of this program wrote a file, whose facts may be others.
pub(super) fn is_of_later_version(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Head {
        version: u16,
    }
    let facts = File::open(path).map(|file| file.take(FACTS_BYTES_MAX as u64));
    let line = facts.ok().and_then(|facts| BufReader::new(facts).lines().next()?.ok());
    let head = line.and_then(|line| serde_json::from_str::<Head>(&line).ok());
    head.is_some_and(|head| head.version > VERSION)
}

/// Reads a file of this mesh.
///
/// # Errors
/// When it cannot be read, or is not what was written for this mesh and under this name.
pub(super) fn read(path: &Path, mesh: &MeshName) -> Result<StoredProfile, String> {
    let limit = FACTS_BYTES_MAX + CAPTURE_PROFILE_BYTES_MAX;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;

    let line = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no line of facts")?;
    let facts = serde_json::from_slice(&bytes[..line]).map_err(|error| error.to_string())?;
    let Facts { version, mesh: theirs, crc32, profile: row } = facts;
    let is_named = path.file_stem().is_some_and(|name| *name == *row.id.to_string());
    if version != VERSION || theirs != *mesh || !is_named {
        let id = row.id;
        return Err(format!("it is profile {id} of mesh {theirs}, version {version}"));
    }

    let pprof = bytes.split_off(line + 1);
    if pprof.len() as u64 != row.bytes || crc32fast::hash(&pprof) != crc32 {
        return Err("its profile is not the one that was written".to_owned());
    }
    Ok(StoredProfile { row, pprof })
}
