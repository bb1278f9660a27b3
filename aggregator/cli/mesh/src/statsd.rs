//! A socket that sends DogStatsD datagrams to a node, as a job does.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// Longest wait for a node that reads continuously.
const SEND_WAIT: Duration = Duration::from_secs(60);

/// A socket connected to a node.
#[derive(Debug)]
pub enum StatsdSender {
    /// Waits while the node's socket is full.
    Unix(UnixDatagram),
    /// The kernel drops what exceeds the node's buffer.
    Udp(UdpSocket),
}

impl StatsdSender {
    /// To a node's Unix socket.
    ///
    /// # Errors
    /// When no process reads there.
    pub fn unix(path: &Path) -> Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket
            .connect(path)
            .with_context(|| format!("{} is read by no process", path.display()))?;
        socket.set_write_timeout(Some(SEND_WAIT))?;
        Ok(Self::Unix(socket))
    }

    /// To a node's UDP port.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub fn udp(address: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(address)?;
        Ok(Self::Udp(socket))
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// When the kernel does not accept it in time.
    pub fn send(&self, datagram: impl AsRef<[u8]>) -> Result<()> {
        let datagram = datagram.as_ref();
        let sent = match self {
            Self::Unix(socket) => socket.send(datagram),
            Self::Udp(socket) => socket.send(datagram),
        };
        sent.map(drop).with_context(|| format!("{} bytes were not accepted", datagram.len()))
    }
}
