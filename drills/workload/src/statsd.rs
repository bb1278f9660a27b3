//! Where samples go, and the socket that takes them there.
//!
//! A Unix datagram socket is lossless: a full one makes the sender wait. UDP may lose what the
//! kernel has accepted; exact counts require the Unix socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;

use crate::limits::{SEND_WAIT, SOCKET_PATH_BYTES_MAX};
use thiserror::Error;

/// The address of a DogStatsD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A Unix datagram socket.
    Unix(PathBuf),
    Udp(SocketAddr),
}

/// Why a text is no destination.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DestinationError {
    /// Neither of the two kinds.
    #[error("must start with unix:// or udp://, such as udp://127.0.0.1:8125")]
    Scheme,
    /// Not from the root, or too long for the kernel.
    #[error(
        "must name an absolute path of at most {SOCKET_PATH_BYTES_MAX} bytes, \
         such as unix:///run/plimsoll/statsd.sock"
    )]
    Path,
    /// Not a literal address with a port.
    #[error("must name an IP address and a port, such as udp://127.0.0.1:8125")]
    Address,
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        if let Some(path) = text.strip_prefix("unix://") {
            let fits = path.starts_with('/')
                && path.len() <= SOCKET_PATH_BYTES_MAX
                && !path.contains('\0');
            return fits.then(|| Self::Unix(path.into())).ok_or(DestinationError::Path);
        }
        let address = text.strip_prefix("udp://").ok_or(DestinationError::Scheme)?;
        address.parse().map(Self::Udp).map_err(|_| DestinationError::Address)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Udp(address) => write!(f, "udp://{address}"),
        }
    }
}

impl Destination {
    /// A socket that is connected there and waits for at most `SEND_WAIT` when full.
    ///
    /// # Errors
    /// When the kernel reports that no process listens there.
    pub fn connect(&self) -> io::Result<StatsdSocket> {
        match self {
            Self::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(SEND_WAIT))?;
                Ok(StatsdSocket::Unix(socket))
            }
            Self::Udp(address) => {
                let any: IpAddr = match address {
                    SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };

                let socket = UdpSocket::bind((any, 0))?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(SEND_WAIT))?;
                Ok(StatsdSocket::Udp(socket))
            }
        }
    }
}

#[derive(Debug)]
pub enum StatsdSocket {
    /// To a Unix datagram socket.
    Unix(UnixDatagram),
    /// To a UDP port.
    Udp(UdpSocket),
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took it.
    Accepted,
    /// The socket stayed full; the same link may take it later.
    Full,
    /// No process listens any more; a new link is needed.
    Gone,
}

impl StatsdSocket {
    /// Sends one datagram, waiting while the socket is full.
    pub fn send(&self, datagram: &[u8]) -> Sent {
        let sent = match self {
            Self::Unix(socket) => socket.send(datagram),
            Self::Udp(socket) => socket.send(datagram),
        };
        match sent.map_err(|error| error.kind()) {
            Ok(_) => Sent::Accepted,
            Err(
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted,
            ) => Sent::Full,
            Err(_) => Sent::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_parsed_and_others_get_the_fix() {
        let long = format!("unix:///{}", "x".repeat(SOCKET_PATH_BYTES_MAX));
        let udp = Destination::Udp("127.0.0.1:8125".parse().unwrap());
        let table = [
            ("unix:///run/a.sock", Ok(Destination::Unix("/run/a.sock".into()))),
            ("udp://127.0.0.1:8125", Ok(udp)),
            ("udp://[::1]:1", Ok(Destination::Udp("[::1]:1".parse().unwrap()))),
            ("unix://run/a.sock", Err(DestinationError::Path)),
            (&long, Err(DestinationError::Path)),
            ("udp://localhost:8125", Err(DestinationError::Address)),
            ("udp://127.0.0.1", Err(DestinationError::Address)),
            ("127.0.0.1:8125", Err(DestinationError::Scheme)),
        ];
        for (text, expected) in table {
            let read = text.parse::<Destination>();
            assert_eq!(read, expected, "{text}");
            assert!(read.is_err() || read.unwrap().to_string() == text);
        }
    }
}
