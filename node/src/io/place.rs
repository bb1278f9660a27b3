//! The path of a Unix socket: taken where nobody living has it, never from anyone.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

/// Binds a socket of this type with `bind`. A socket file that a dead process left behind is
/// replaced. Every user of the machine may write to it, as to a UDP port; the folder's permissions
/// can forbid it.
///
/// # Errors
/// When the path is in use, is something other than a socket, or cannot be made.
pub(super) fn take<S>(
    path: &Path,
    kind: SockType,
    bind: impl FnOnce(&Path) -> io::Result<S>,
) -> io::Result<S> {
    remove_left_over(path, kind)?;
    let socket = bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(socket)
}

fn remove_left_over(path: &Path, kind: SockType) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket"));
    }
    match probe(path, kind) {
        Ok(()) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens on it")),
        // The only answer that means nobody: another type's or a forbidden one's is another.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => {
            let text = format!("a socket that may belong to another program ({error})");
            Err(io::Error::new(ErrorKind::AddrInUse, text))
        }
    }
}

/// Connects without waiting: a listener that accepts nobody must not hold up the start.
fn probe(path: &Path, kind: SockType) -> io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, kind, flags, None)?;
    connect(probe.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(())
}
