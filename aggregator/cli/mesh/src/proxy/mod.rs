//! A TCP proxy before a broker: a link that is slow, delays, stalls or breaks, as it is set at run
//! time.
//!
//! Owns the listening socket and every connection through it; dropped, it closes them all. It
//! copies bytes and reads no protocol, so it never alters what passes. Rates hold for each
//! connection and direction; what a direction holds is bounded by [`HELD_CHUNKS_MAX`], beyond which
//! the sender's own socket fills up, as on a real link.
//!
//! DESIGN D16.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_clock::Stopwatch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Bytes read at once; fewer on a slow link, so that it has no bursts.
const CHUNK_BYTES_MAX: usize = 16 * 1024;
/// Chunks of a slow link in a second: the resolution of its rate.
const CHUNKS_PER_SECOND: u64 = 20;
/// Chunks under way in one direction of a connection: 1 MiB, or three seconds of a slow link.
pub const HELD_CHUNKS_MAX: usize = 64;
/// Connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 256;

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Bytes a second; unlimited if `None`. 0 counts as 1.
    pub bytes_per_second: Option<u64>,
    /// Time from the arrival of bytes until they are passed on.
    pub delay: Duration,
}

/// How a link behaves; by default it passes everything at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkConditions {
    /// From clients to the broker.
    pub up: Direction,
    /// From the broker to clients.
    pub down: Direction,
    /// Nothing passes in either direction, and connections stay open.
    pub stalled: bool,
}

/// The link's setting and the breaks that were ordered.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    link: NetworkConditions,
    /// Number of times that all connections were cut.
    cuts: u64,
}

#[derive(Debug)]
pub struct Proxy {
    port: u16,
    orders: watch::Sender<Orders>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its connections are in a set that ends with it.
        self.accepting.abort();
    }
}

impl Proxy {
    /// Listens on a free port of loopback and connects each client to `target`, such as
    /// `127.0.0.1:4222`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(target: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for a proxy")?;
        let port = listener.local_addr()?.port();
        let (orders, ordered) = watch::channel(Orders::default());
        let accepting = tokio::spawn(accept(listener, target.to_owned(), ordered));
        Ok(Self { port, orders, accepting })
    }

    /// The address for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Changes the link, for connections that are open too.
    pub fn set(&self, link: NetworkConditions) {
        self.orders.send_modify(|orders| orders.link = link);
    }

    /// Closes every connection. Clients may connect again at once.
    pub fn cut(&self) {
        self.orders.send_modify(|orders| orders.cuts += 1);
    }
}

async fn accept(listener: TcpListener, target: String, orders: watch::Receiver<Orders>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if connections.len() < CONNECTIONS_MAX {
                    connections.spawn(connect(client, target.clone(), orders.clone()));
                }
            }
        }
    }
}

/// One connection; it ends when either side closes it, or when it is cut.
async fn connect(
    client: TcpStream,
    target: String,
    orders: watch::Receiver<Orders>,
) -> io::Result<()> {
    let broker = TcpStream::connect(target).await?;
    // Small messages must not wait for larger ones: this link's delay is the one that is set.
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    // Counted, not a flag: connections that are made after a cut stay.
    let cuts = orders.borrow().cuts;
    let mut cut = orders.clone();
    let (from_client, to_client) = client.into_split();
    let (from_broker, to_broker) = broker.into_split();
    let up = Way { is_up: true, orders: orders.clone() };
    let down = Way { is_up: false, orders };

    tokio::select! {
        ended = up.copy(from_client, to_broker) => ended,
        ended = down.copy(from_broker, to_client) => ended,
        _ = cut.wait_for(|orders| orders.cuts != cuts) => Ok(()),
    }
}

/// One direction of one connection.
#[derive(Clone)]
struct Way {
    is_up: bool,
    orders: watch::Receiver<Orders>,
}

/// Bytes and when they came.
struct Chunk {
    bytes: Vec<u8>,
    since: Stopwatch,
}

impl Way {
    fn direction(&self) -> Direction {
        let NetworkConditions { up, down, .. } = self.orders.borrow().link;
        if self.is_up { up } else { down }
    }

    async fn copy(self, from: OwnedReadHalf, to: OwnedWriteHalf) -> io::Result<()> {
        let (held, chunks) = mpsc::channel(HELD_CHUNKS_MAX);
        // When the reader has ended, the writer still passes on what is held.
        tokio::try_join!(self.clone().read(from, held), self.write(to, chunks)).map(drop)
    }

    async fn read(self, mut from: OwnedReadHalf, held: mpsc::Sender<Chunk>) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK_BYTES_MAX];
        loop {
            let rate = self.direction().bytes_per_second;
            // Chunks of a twentieth of a second: a larger one would pass a slow link as one burst.
            let bytes_max = rate.map_or(CHUNK_BYTES_MAX, chunk_bytes);
            let read = from.read(&mut buffer[..bytes_max]).await?;
            let chunk = Chunk { bytes: buffer[..read].to_vec(), since: Stopwatch::start() };
            if read == 0 || held.send(chunk).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Ends when the reader has ended.
    async fn write(
        mut self,
        mut to: OwnedWriteHalf,
        mut chunks: mpsc::Receiver<Chunk>,
    ) -> io::Result<()> {
        while let Some(Chunk { bytes, since }) = chunks.recv().await {
            self.pace(bytes.len()).await;
            self.hold(since).await;
            to.write_all(&bytes).await?;
        }
        to.shutdown().await
    }

    /// Waits until bytes that came then may pass: after the delay, and not while the link stalls.
    async fn hold(&mut self, since: Stopwatch) {
        loop {
            // The sender lives as long as the proxy, which ends this task.
            drop(self.orders.wait_for(|orders| !orders.link.stalled).await);
            let left = self.direction().delay.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                _ = self.orders.changed() => {}
            }
        }
    }

    /// Waits as long as the link takes for this many bytes. A faster link ends the wait.
    async fn pace(&mut self, bytes: usize) {
        let since = Stopwatch::start();
        while let Some(rate) = self.direction().bytes_per_second {
            let whole = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            let left = whole.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                _ = self.orders.changed() => {}
            }
        }
    }
}

/// Bytes of one chunk on a link of this rate.
fn chunk_bytes(rate: u64) -> usize {
    let bytes = usize::try_from(rate / CHUNKS_PER_SECOND).unwrap_or(CHUNK_BYTES_MAX);
    bytes.clamp(1, CHUNK_BYTES_MAX)
}

#[cfg(test)]
mod tests;
