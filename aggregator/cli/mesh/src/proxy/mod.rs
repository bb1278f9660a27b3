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
use std::sync::{Arc, Mutex, PoisonError};
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
/// A chunk of at least this many bytes is a message that can be cut in half; shorter ones are pings
/// and acknowledgements.
pub const CUT_BYTES_MIN: usize = 64;

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
    /// Number of times that a message was to be cut in half.
    halves: u64,
}

/// What has passed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub connections: u64,
    /// Bytes from clients to the broker.
    pub up_bytes: u64,
    /// Bytes from the broker to clients.
    pub down_bytes: u64,
    /// Messages cut in half.
    pub halves: u64,
}

#[derive(Debug)]
pub struct Proxy {
    port: u16,
    orders: watch::Sender<Orders>,
    passed: Arc<Mutex<Passed>>,
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
        let passed = Arc::new(Mutex::new(Passed::default()));
        let accepting = accept(listener, target.to_owned(), ordered, passed.clone());
        Ok(Self { port, orders, passed, accepting: tokio::spawn(accepting) })
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

    /// Passes only the first half of the next message of a client of at least [`CUT_BYTES_MIN`]
    /// bytes, and closes its connection. Each connection that is open does so once.
    pub fn cut_in_half(&self) {
        self.orders.send_modify(|orders| orders.halves += 1);
    }

    /// What has passed so far.
    pub fn passed(&self) -> Passed {
        *lock(&self.passed)
    }
}

fn lock(passed: &Mutex<Passed>) -> std::sync::MutexGuard<'_, Passed> {
    passed.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: TcpListener,
    target: String,
    orders: watch::Receiver<Orders>,
    passed: Arc<Mutex<Passed>>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if connections.len() < CONNECTIONS_MAX {
                    lock(&passed).connections += 1;
                    let shared = (orders.clone(), passed.clone());
                    connections.spawn(connect(client, target.clone(), shared));
                }
            }
        }
    }
}

/// One connection; it ends when either side closes it, or when it is cut.
async fn connect(
    client: TcpStream,
    target: String,
    (orders, passed): (watch::Receiver<Orders>, Arc<Mutex<Passed>>),
) -> io::Result<()> {
    let broker = TcpStream::connect(target).await?;
    // Small messages must not wait for larger ones: this link's delay is the one that is set.
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    let cuts = orders.borrow().cuts;
    let mut cut = orders.clone();
    let (from_client, to_client) = client.into_split();
    let (from_broker, to_broker) = broker.into_split();
    let up = Way { is_up: true, orders: orders.clone(), passed: passed.clone() };
    let down = Way { is_up: false, orders, passed };
    tokio::select! {
        ended = up.copy(from_client, to_broker) => ended,
        ended = down.copy(from_broker, to_client) => ended,
        _ = cut.wait_for(|orders| orders.cuts != cuts) => Ok(()),
    }
}

/// One direction of one connection.
struct Way {
    is_up: bool,
    orders: watch::Receiver<Orders>,
    passed: Arc<Mutex<Passed>>,
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
        let orders = self.orders.clone();
        let reader = Way { is_up: self.is_up, orders, passed: self.passed.clone() };
        // When the reader has ended, the writer still passes on what is held.
        tokio::try_join!(reader.read(from, held), self.write(to, chunks)).map(drop)
    }

    async fn read(self, mut from: OwnedReadHalf, held: mpsc::Sender<Chunk>) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK_BYTES_MAX];
        loop {
            let rate = self.direction().bytes_per_second;
            let bytes_max = rate.map_or(CHUNK_BYTES_MAX, chunk_bytes);
            let read = from.read(&mut buffer[..bytes_max]).await?;
            let chunk = Chunk { bytes: buffer[..read].to_vec(), since: Stopwatch::start() };
            if read == 0 || held.send(chunk).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Ends when the reader has ended, or when a message was cut in half.
    async fn write(
        mut self,
        mut to: OwnedWriteHalf,
        mut chunks: mpsc::Receiver<Chunk>,
    ) -> io::Result<()> {
        let halves = self.orders.borrow().halves;
        while let Some(Chunk { mut bytes, since }) = chunks.recv().await {
            self.pace(bytes.len()).await;
            self.hold(since).await;
            let cuts = self.orders.borrow().halves != halves;
            let halved = self.is_up && cuts && bytes.len() >= CUT_BYTES_MIN;
            if halved {
                bytes.truncate(bytes.len() / 2);
            }
            to.write_all(&bytes).await?;
            self.count(bytes.len(), halved);
            if halved {
                to.shutdown().await?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
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

    fn count(&self, bytes: usize, halved: bool) {
        let mut passed = lock(&self.passed);
        let total = if self.is_up { &mut passed.up_bytes } else { &mut passed.down_bytes };
        *total += bytes as u64;
        passed.halves += u64::from(halved);
    }
}

/// Bytes of one chunk on a link of this rate.
fn chunk_bytes(rate: u64) -> usize {
    let bytes = usize::try_from(rate / CHUNKS_PER_SECOND).unwrap_or(CHUNK_BYTES_MAX);
    bytes.clamp(1, CHUNK_BYTES_MAX)
}

#[cfg(test)]
mod tests;
