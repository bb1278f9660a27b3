//! Opens a file that a process has mapped. Its path leads through directories that the process may
//! rule, so whatever lies there must neither block nor be larger than a program is.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use nix::fcntl::OFlag;
use nix::sys::stat::{major, minor};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, fstatfs};

use super::maps::{FileIdentity, MappedFile};
use crate::limits::PROGRAM_BYTES_MAX;
use crate::order::ProcessId;
use crate::refusal::Refusal;

/// What a file must be to count as the one that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Whatever the kernel's own link leads to.
    ByKernel,
    /// At a path, where another one may lie by now.
    ByPath(FileIdentity),
}

/// Opens a mapped file as the process sees it, if possible even if it was deleted.
///
/// # Errors
/// When it may not be opened, is gone, or is not what was mapped.
pub(crate) fn opened(
    pid: ProcessId,
    mapped: &MappedFile,
    is_program: bool,
) -> Result<File, Refusal> {
    let (start, end) = (mapped.start.0, mapped.end.0);
    let by_address = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    let by_path = format!("/proc/{pid}/root{}", mapped.plain_path());
    let ways = match is_program {
        true => vec![(format!("/proc/{pid}/exe"), Found::ByKernel)],
        // The first one needs CAP_CHECKPOINT_RESTORE; the second one finds what is there now.
        false => {
            vec![(by_address, Found::ByKernel), (by_path, Found::ByPath(mapped.identity))]
        }
    };

    let mut is_denied = false;
    for (way, found) in ways {
        match open(&way, found) {
            Ok(file) => return Ok(file),
            Err(error) => is_denied = error.kind() == ErrorKind::PermissionDenied,
        }
    }
    Err(if is_denied { denied(pid, mapped) } else { replaced(pid, mapped) })
}

/// Opens a file at a path of the process's own root, whatever lies there.
///
/// # Errors
/// When there is no regular file of plausible size, or it may not be opened.
pub(crate) fn opened_beside(pid: ProcessId, path: &str) -> io::Result<File> {
    open(&format!("/proc/{pid}/root{path}"), Found::ByKernel)
}

fn denied(pid: ProcessId, mapped: &MappedFile) -> Refusal {
    let fix = format!(
        "{} may not be opened: let others enter its directories and read it, or grant \
         CAP_CHECKPOINT_RESTORE (Linux 5.9; systemd: AmbientCapabilities)",
        mapped.path
    );
    Refusal::Denied { pid, fix }
}

fn replaced(pid: ProcessId, mapped: &MappedFile) -> Refusal {
    Refusal::FileReplaced { pid, path: mapped.path.clone() }
}

/// Opens a regular file of plausible size. Nothing else is opened at all: the look at it takes a
/// handle that does not, so that neither a pipe blocks nor a device notices.
fn open(way: &str, found: Found) -> io::Result<File> {
    let flags = |flags: OFlag| (flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY).bits();
    let handle = fs::OpenOptions::new().read(true).custom_flags(flags(OFlag::O_PATH)).open(way)?;
    let metadata = handle.metadata()?;
    let is_program = metadata.is_file() && metadata.len() <= PROGRAM_BYTES_MAX;
    if !is_program || !is_found(&handle, &metadata, found) {
        return Err(ErrorKind::InvalidData.into());
    }

    let own = format!("/proc/self/fd/{}", handle.as_raw_fd());
    fs::OpenOptions::new().read(true).custom_flags(flags(OFlag::O_NONBLOCK)).open(own)
}

fn is_found(handle: &File, metadata: &fs::Metadata, found: Found) -> bool {
    let Found::ByPath(expected) = found else { return true };
    let (device, inode) = (metadata.dev(), metadata.ino());
    let is_same = expected == FileIdentity { major: major(device), minor: minor(device), inode };
    // These show other numbers of what is mapped than of what is open. There the bytes at the start
    // decide alone, which are compared with memory and have the identity of the build.
    let is_renumbered = fstatfs(handle).is_ok_and(|system| {
        [OVERLAYFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC].contains(&system.filesystem_type())
    });
    is_same || is_renumbered
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;
    use crate::memory::Address;

    /// Opens a path by its name as if this process had mapped it.
    fn opened_here(path: &Path, identity: FileIdentity) -> Result<File, Refusal> {
        let path = path.to_str().unwrap().to_owned();
        let mapped = MappedFile { start: Address(0), end: Address(0), offset: 0, identity, path };
        let (sender, opened_file) = mpsc::channel();
        thread::spawn(move || {
            let own = ProcessId(std::process::id().cast_signed());
            let _late = sender.send(opened(own, &mapped, false));
        });
        opened_file.recv_timeout(Duration::from_secs(20)).expect("it does not block")
    }

    fn identity(path: &Path) -> FileIdentity {
        let metadata = fs::symlink_metadata(path).unwrap();
        let (device, inode) = (metadata.dev(), metadata.ino());
        FileIdentity { major: major(device), minor: minor(device), inode }
    }

    #[test]
    fn only_the_regular_file_that_is_mapped_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [mapped, other, pipe, large] =
            ["mapped", "other", "pipe", "large"].map(|name| folder.path().join(name));
        for path in [&mapped, &other] {
            fs::write(path, b"x").unwrap();
        }
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        File::create(&large).unwrap().set_len(PROGRAM_BYTES_MAX + 1).unwrap();

        assert!(opened_here(&mapped, identity(&mapped)).is_ok());
        let own = |path: &Path| (path.to_owned(), identity(path));
        for (path, identity) in [
            (other.clone(), identity(&mapped)),
            own(&pipe),
            own(&large),
            own(folder.path()),
            own(Path::new("/dev/null")),
            (folder.path().join("none"), identity(&mapped)),
        ] {
            let error = opened_here(&path, identity).unwrap_err();
            assert!(matches!(error, Refusal::FileReplaced { .. }), "{path:?}: {error}");
        }
    }

    #[test]
    fn a_file_that_may_not_be_opened_is_denied_with_the_fix() {
        // Root alone enters the directories of others, so for it only the text is looked at.
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        fs::create_dir(&closed).unwrap();
        let path = closed.join("libpython3.12.so");
        fs::write(&path, b"x").unwrap();
        let identity = identity(&path);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
        let opened = opened_here(&path, identity);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();

        let path = path.to_str().unwrap().to_owned();
        let mapped = MappedFile { start: Address(0), end: Address(0), offset: 0, identity, path };
        let error = opened.err().unwrap_or_else(|| denied(ProcessId(7), &mapped));
        assert!(matches!(error, Refusal::Denied { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("libpython3.12.so may not be opened"), "{error}");
        assert!(error.contains("CAP_CHECKPOINT_RESTORE"), "{error}");
    }
}
