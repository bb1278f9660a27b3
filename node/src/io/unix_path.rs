//! Binding of a Unix socket to a path: replaces the file of a dead process, never of a live one,
//! and admits those whom the settings admit. The file goes with its socket.
//!
//! DESIGN N71.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

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

/// A socket that listens at a path.
pub(super) struct BoundSocket {
    pub(super) socket: OwnedFd,
    pub(super) file: SocketFile,
}

/// The file of a socket, which is removed when this is dropped; one that a killed process leaves
/// is replaced by a later start.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.0);
    }
}

/// A socket of this type that listens at `path`, for those whom `access` admits: the file has its
/// mode and group, and datagrams carry their senders if `access` lists users. Its directory is made
/// if it is missing. Replaces a socket file that a dead process left behind.
pub(super) fn bind(path: &Path, kind: SockType, access: &SocketAccess) -> io::Result<BoundSocket> {
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
    let file = SocketFile(path.to_owned());
    restrict(path, access)?;
    // Only once mode and group are set: until then no client can connect.
    if kind == SockType::Stream {
        listen(&socket, Backlog::new(BACKLOG)?)?;
    }
    Ok(BoundSocket { socket, file })
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

/// Who may send over a socket, and how many others have tried.
pub(super) struct Admission {
    /// The setting of the socket, for the log.
    key: &'static str,
    access: SocketAccess,
    refused: u64,
}

impl Admission {
    pub(super) fn new(key: &'static str, access: &SocketAccess) -> Self {
        Self { key, access: access.clone(), refused: 0 }
    }

    /// Whether senders need not be known.
    pub(super) fn is_open_to_all(&self) -> bool {
        self.access.users.is_none()
    }

    /// Whether a user may send; one whom the kernel does not state may not. Any user may be refused
    /// again and again, which is logged at doubling counts.
    pub(super) fn admits(&mut self, user: Option<u32>) -> bool {
        let is_admitted = user.is_some_and(|user| self.access.admits(user));
        self.refused += u64::from(!is_admitted);
        if !is_admitted && self.refused.is_power_of_two() {
            tracing::warn!(
                socket = self.key,
                user,
                refused = self.refused,
                "sender refused because listen.users lacks its user; logged at doubling counts"
            );
        }
        is_admitted
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
