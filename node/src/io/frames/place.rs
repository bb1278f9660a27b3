//! The path of the stream socket: taken where nobody living has it, never from anyone.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    remove_left_over(path)?;
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

fn remove_left_over(path: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket"));
    }
    match probe(path) {
        Ok(()) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens on it")),
        // The only answer that means nobody: a datagram socket's or a forbidden one's is another.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => {
            let text = format!("a socket that may belong to another program ({error})");
            Err(io::Error::new(ErrorKind::AddrInUse, text))
        }
    }
}

/// Connects without waiting: a listener that accepts nobody must not hold up the start.
fn probe(path: &Path) -> io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(probe.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(())
}
