//! A job in miniature: sends the datagrams that a test hands it, and loses none on the way.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::api::Api;
use plimsoll_mesh::child::until;

/// Longest wait for a node that reads all the time.
const WAIT: Duration = Duration::from_secs(10);

/// A socket connected to a node.
#[derive(Debug)]
pub enum Feed {
    /// Waits while the node's socket is full.
    Unix(UnixDatagram),
    /// Whoever sends much must wait for the node with [`caught_up`].
    Udp(UdpSocket),
}

impl Feed {
    /// To a node's Unix socket.
    ///
    /// # Errors
    /// When nobody reads there.
    pub fn unix(path: &Path) -> Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path).with_context(|| format!("{} is not read", path.display()))?;
        socket.set_write_timeout(Some(WAIT))?;
        Ok(Self::Unix(socket))
    }

    /// To a node's UDP port.
    ///
    /// # Errors
    /// When the system has no socket.
    pub fn udp(address: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(address)?;
        Ok(Self::Udp(socket))
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// When the node does not take it.
    pub fn send(&self, datagram: impl AsRef<[u8]>) -> Result<()> {
        let datagram = datagram.as_ref();
        let sent = match self {
            Self::Unix(socket) => socket.send(datagram),
            Self::Udp(socket) => socket.send(datagram),
        };
        sent.map(drop).with_context(|| format!("{} bytes were not taken", datagram.len()))
    }
}

/// Waits until a node has read so many datagrams since its start.
///
/// # Errors
/// When it has not in time: some were lost.
pub async fn caught_up(node: &Api, datagrams: usize) -> Result<()> {
    let what = format!("the node has read {datagrams} datagrams");
    until(&what, WAIT, async || {
        let read = node.metric("plimsoll_agent_datagrams_total").await.ok()??;
        (read >= datagrams as f64).then_some(())
    })
    .await
}
