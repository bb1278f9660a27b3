//! Binding of a Unix socket to a path: replaces the file of a dead process, never of a live one.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

/// Binds a socket of this type with `bind`. Replaces a socket file that a dead process left behind.
/// Every user of the machine may write to the socket, as to a UDP port; permissions of the
/// directory can restrict that.
///
/// # Errors
/// When the path is in use, is something other than a socket, or cannot be made.
pub(super) fn bind<S>(
    path: &Path,
    kind: SockType,
    open: impl FnOnce(&Path) -> io::Result<S>,
) -> io::Result<S> {
    remove_stale(path, kind)?;
    let socket = open(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(socket)
}

fn remove_stale(path: &Path, kind: SockType) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the file is not a socket"));
    }
    match probe(path, kind) {
        Ok(()) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens on this path")),
        // Only this error proves that no process listens: a socket of another type and one without
        // permission return other errors.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => {
            let text = format!("the socket may belong to another program ({error})");
            Err(io::Error::new(ErrorKind::AddrInUse, text))
        }
    }
}

/// Connects without blocking: a listener that never accepts must not delay the start.
fn probe(path: &Path, kind: SockType) -> io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, kind, flags, None)?;
    connect(probe.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(())
}
