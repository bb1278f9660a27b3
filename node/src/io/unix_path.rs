//! Binding of a Unix socket to a path: replaces the file of a dead process, never of a live one,
//! and admits those whom the settings admit.
//!
//! DESIGN N71.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::Path;

use nix::sys::socket::sockopt::PassCred;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind as sys_bind, connect, listen,
    setsockopt, socket,
};
use nix::sys::stat::{Mode, fchmod};

use plimsoll_runtime::directory;

use crate::config::SocketAccess;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket of this type that listens at `path`, for those whom `access` admits: the file has its
/// mode and group, and datagrams carry their senders if `access` lists users. Its directory is made
/// if it is missing. Replaces a socket file that a dead process left behind.
///
/// # Errors
/// When the path is in use, is something other than a socket, or cannot be made so.
pub(super) fn bind(path: &Path, kind: SockType, access: &SocketAccess) -> io::Result<OwnedFd> {
    directory::make_parent(path, directory::SHARED)?;
    remove_stale(path, kind)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, kind, flags, None)?;
    if kind == SockType::Datagram && access.users.is_some() {
        setsockopt(&socket, PassCred, &true)?;
    }
    // The file gets the mode of the socket, so that no other user connects before all is set.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    sys_bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    restrict(path, access).inspect_err(|_| {
        let _gone = fs::remove_file(path);
    })?;
    if kind == SockType::Stream {
        listen(&socket, Backlog::new(BACKLOG)?)?;
    }
    Ok(socket)
}

fn restrict(path: &Path, access: &SocketAccess) -> io::Result<()> {
    if let Some(group) = access.group {
        chown(path, None, Some(group)).map_err(|error| {
            let text = format!(
                "it cannot be given to group {group} of listen.group ({error}): run the node as a \
                 member of that group"
            );
            io::Error::new(error.kind(), text)
        })?;
    }
    fs::set_permissions(path, Permissions::from_mode(access.mode))
}

/// Any user may be refused again and again.
pub(super) fn log_refused(socket: &str, user: Option<u32>, refused: u64) {
    if refused.is_power_of_two() {
        tracing::warn!(
            socket,
            user,
            refused,
            "sender refused because listen.users lacks its user; logged at doubling counts"
        );
    }
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
