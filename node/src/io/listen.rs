//! Sockets that jobs write DogStatsD datagrams to.
//!
//! The driver asks when something can be read and then takes a bounded number of datagrams
//! straight from the kernel into its core: no task, no channel, no copy in between.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plimsoll_schemas::limits::node::{
    BYTES_PER_WAKE, DATAGRAM_BYTES_MAX, DATAGRAMS_PER_WAKE, SOCKET_RECEIVE_BYTES,
};
use socket2::SockRef;
use thiserror::Error;
use tokio::net::{UdpSocket, UnixDatagram};

use crate::core::departure::Taken;

/// A socket that could not be had.
#[derive(Debug, Error)]
#[error("{key}: cannot listen on {place}: {source}{hint}")]
pub struct ListenError {
    key: &'static str,
    place: String,
    source: io::Error,
    hint: &'static str,
}

/// One socket, or none: reading from an absent one waits for ever.
pub struct Listener {
    socket: Option<Socket>,
    buffer: Box<[u8]>,
}

enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram, PathBuf),
}

impl Listener {
    /// A UDP socket, when there is an address for one.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub async fn udp(address: Option<SocketAddr>) -> Result<Self, ListenError> {
        let Some(address) = address else { return Ok(Self::absent()) };
        let fail = |source| ListenError {
            key: "listen.udp",
            place: address.to_string(),
            source,
            hint: "; another agent may have it: choose another port or \"\" for none",
        };
        let socket = UdpSocket::bind(address).await.map_err(fail)?;
        ask_for_buffer(&SockRef::from(&socket));
        Ok(Self::on(Socket::Udp(socket)))
    }

    /// A Unix datagram socket, when there is a path for one. A socket file that a dead process
    /// left behind is replaced; one that a living process reads is not.
    ///
    /// # Errors
    /// When the path is in use, is something other than a socket, or cannot be made.
    pub fn unix(path: Option<&Path>) -> Result<Self, ListenError> {
        let Some(path) = path else { return Ok(Self::absent()) };
        let fail = |source| ListenError {
            key: "listen.unix",
            place: path.display().to_string(),
            source,
            hint: "; choose another path or \"\" for none",
        };
        remove_left_over(path).map_err(fail)?;
        let socket = UnixDatagram::bind(path).map_err(fail)?;
        ask_for_buffer(&SockRef::from(&socket));
        Ok(Self::on(Socket::Unix(socket, path.to_owned())))
    }

    /// No socket at all.
    #[must_use]
    pub fn absent() -> Self {
        Self { socket: None, buffer: Box::default() }
    }

    fn on(socket: Socket) -> Self {
        // One byte more than allowed: the kernel cuts silently, so a full buffer tells of a cut.
        Self { socket: Some(socket), buffer: vec![0; DATAGRAM_BYTES_MAX + 1].into() }
    }

    /// Where a UDP socket really listens.
    #[must_use]
    pub fn udp_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Some(Socket::Udp(socket)) => socket.local_addr().ok(),
            Some(Socket::Unix(..)) | None => None,
        }
    }

    /// Waits until there may be something to read. Cancel safe.
    pub async fn readable(&self) {
        let ready = match &self.socket {
            Some(Socket::Udp(socket)) => socket.readable().await,
            Some(Socket::Unix(socket, _)) => socket.readable().await,
            None => std::future::pending().await,
        };
        if let Err(error) = ready {
            tracing::error!(%error, "socket cannot be polled");
        }
    }

    /// Reads what is there, up to a bound, and hands over each datagram or failure. A datagram
    /// longer than `DATAGRAM_BYTES_MAX` is handed over cut, but still longer than that.
    pub fn take(&mut self, mut on_read: impl FnMut(io::Result<&[u8]>)) -> Taken {
        let mut taken = Taken::default();
        while taken.datagrams < DATAGRAMS_PER_WAKE && taken.bytes < BYTES_PER_WAKE {
            let read = match &self.socket {
                Some(Socket::Udp(socket)) => socket.try_recv(&mut self.buffer),
                Some(Socket::Unix(socket, _)) => socket.try_recv(&mut self.buffer),
                None => break,
            };
            match read {
                Ok(bytes) => {
                    taken.datagrams += 1;
                    taken.bytes += bytes;
                    on_read(Ok(&self.buffer[..bytes]));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // One lost datagram's error, not the socket's.
                Err(error) => {
                    on_read(Err(error));
                    break;
                }
            }
        }
        taken
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(Socket::Unix(_, path)) = &self.socket {
            // A later start replaces a file that is left over.
            let _gone = std::fs::remove_file(path);
        }
    }
}

/// The kernel gives less than asked for when `net.core.rmem_max` is lower; that is no error.
fn ask_for_buffer(socket: &SockRef<'_>) {
    if let Err(error) = socket.set_recv_buffer_size(SOCKET_RECEIVE_BYTES) {
        tracing::warn!(%error, "receive buffer stays at the system's default");
    }
}

fn remove_left_over(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket"));
    }
    let probe = std::os::unix::net::UnixDatagram::unbound()?;
    match probe.connect(path) {
        Ok(()) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process reads it")),
        // The only answer that means nobody: a stream socket's or a forbidden one's is another.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => {
            let text = format!("a socket that may belong to another program ({error})");
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn datagrams_of_any_size_arrive_whole_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let mut listener = Listener::unix(Some(&path)).unwrap();
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        for payload in [&b""[..], b"a:1|ms", &[b'x'; 8_000]] {
            sender.send_to(payload, &path).unwrap();
        }
        listener.readable().await;
        assert_eq!(sizes(&mut listener), [0, 6, 8_000]);
        assert_eq!(listener.take(|_| panic!("nothing is left")), Taken::default());
    }

    fn sizes(listener: &mut Listener) -> Vec<usize> {
        let mut sizes = Vec::new();
        let taken = listener.take(|read| sizes.push(read.unwrap().len()));
        assert_eq!(taken, Taken { datagrams: sizes.len(), bytes: sizes.iter().sum() });
        sizes
    }

    #[tokio::test]
    async fn a_datagram_that_was_cut_is_longer_than_any_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let mut listener = Listener::unix(Some(&path)).unwrap();
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        for bytes in [DATAGRAM_BYTES_MAX, 90_000] {
            sender.send_to(&vec![b'x'; bytes], &path).unwrap();
        }
        listener.readable().await;
        assert_eq!(sizes(&mut listener), [DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX + 1]);
    }

    #[tokio::test]
    async fn one_turn_takes_a_bounded_number_of_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let mut listener = Listener::unix(Some(&path)).unwrap();
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        let sent = (0..9).take_while(|_| sender.send_to(&[b'x'; 50_000], &path).is_ok()).count();
        assert!(sent > 3, "the kernel took only {sent}");
        listener.readable().await;
        assert_eq!(sizes(&mut listener), [50_000; 3]);
    }

    #[tokio::test]
    async fn a_socket_of_another_type_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = Listener::unix(Some(&path)).err().unwrap().to_string();
        for part in ["listen.unix", "may belong to another program", "choose another path"] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
        drop(other);
    }

    #[tokio::test]
    async fn a_socket_in_use_is_refused_and_a_left_over_one_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let first = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let error = Listener::unix(Some(&path)).err().unwrap().to_string();
        assert!(error.contains("listen.unix") && error.contains("another process"), "{error}");
        drop(first);
        assert!(Listener::unix(Some(&path)).is_ok());
        assert!(!path.exists(), "the socket file goes with its listener");
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Listener::unix(Some(file.path())).err().unwrap().to_string();
        assert!(error.contains("no socket"), "{error}");
        assert!(file.path().exists());
    }

    #[tokio::test]
    async fn a_taken_port_is_named_with_its_key() {
        let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = Listener::udp(Some(address)).await.err().unwrap().to_string();
        assert!(error.contains("listen.udp") && error.contains(&address.to_string()), "{error}");
    }
}
