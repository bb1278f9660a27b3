//! Both ports with a task that answers, and clients that write the protocol by hand.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use plimsoll_clock::Deadline;
use plimsoll_node::config::OtlpSettings;
use plimsoll_node::core::intake::otlp::{Encoding, Malformed, Outcome, Signal};
use plimsoll_node::core::spool::NoteNumber;
use plimsoll_node::io::otlp::stats::OtlpStats;
use plimsoll_node::io::otlp::{OtlpServers, RecordedBody};
use plimsoll_runtime::http::Protection;
use plimsoll_runtime::supervision::Supervisor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;

const PATIENCE: Duration = Duration::from_secs(60);
/// The largest body that is taken.
pub(crate) const LARGEST: usize = 4 * 1024 * 1024;

/// The outcome that a body requests by its text.
pub(crate) fn record(
    _signal: Signal,
    _encoding: Encoding,
    body: &[u8],
) -> Result<Outcome, Malformed> {
    match body {
        b"bad" => Err(Malformed("metric 7: \u{e4} is no field".to_owned())),
        b"partly" => Ok(Outcome { refused: 3, message: Some("unit of x: set otlp.unit".into()) }),
        _ => Ok(Outcome::default()),
    }
}

/// Both ports, and every body that came.
pub(crate) struct Fixture {
    pub(crate) servers: OtlpServers,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) came: Vec<(Signal, Encoding, Vec<u8>)>,
}

impl Fixture {
    pub(crate) async fn open() -> Self {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let settings = OtlpSettings { http: any, grpc: any, ..OtlpSettings::default() };
        let (open, supervisor) = (Protection::default(), Supervisor::default());
        let servers = OtlpServers::open(&settings, &open, &supervisor).await.unwrap();
        let (http, grpc) = (servers.http_address().unwrap(), servers.grpc_address().unwrap());
        Self { servers, http, grpc, came: Vec::new() }
    }

    /// Records what is there, as a driver does in one turn.
    pub(crate) fn turn(&mut self) {
        let Self { servers, came, .. } = self;
        servers.take(false, |signal, encoding, body| {
            came.push((signal, encoding, body.to_vec()));
            RecordedBody { outcome: record(signal, encoding, body), note: NoteNumber::default() }
        });
        servers.answer(NoteNumber::ALL);
    }

    /// Answers until the client's task ends.
    pub(crate) async fn answering<T: Send + 'static>(
        &mut self,
        client: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let client = tokio::spawn(client);
        let deadline = Deadline::within(PATIENCE);
        while !client.is_finished() {
            assert!(!deadline.has_passed(), "no answer came: {:?}", self.stats());
            self.turn();
            yield_now().await;
        }
        client.await.unwrap()
    }

    pub(crate) fn stats(&self) -> OtlpStats {
        self.servers.stats().unwrap()
    }

    /// How many requests ended so: `http metrics taken`.
    pub(crate) fn ended(&self, what: &str) -> u64 {
        let name = |protocol, signal, ending| format!("{protocol} {signal} {ending}");
        let endings = self.stats().requests.endings.into_iter();
        let named =
            endings.map(|((from, end), n)| (name(from.protocol, from.signal, end.as_str()), n));
        named.filter(|(name, _)| name == what).map(|(_, n)| n).sum()
    }

    /// Waits, without answering any client, until something holds.
    pub(crate) async fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = Deadline::within(PATIENCE);
        while !holds(self) {
            assert!(!deadline.has_passed(), "{what} did not come: {:?}", self.stats());
            yield_now().await;
        }
    }

    /// No body holds room any more: no client left anything behind.
    pub(crate) async fn emptied(&mut self) {
        let empty = |fixture: &mut Self| {
            fixture.stats().requests.buffered_bytes == 0 && !fixture.servers.is_awaited()
        };
        self.until("an empty room", empty).await;
    }
}

/// An answer over HTTP/1.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = str::from_utf8(&bytes[..end]).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()));
        Some(Self { status, headers: headers.collect(), body: bytes[end + 4..].to_vec() })
    }
}

/// The head of a request with further headers.
pub(crate) fn head(path: &str, headers: &str) -> String {
    format!("{path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{headers}\r\n")
}

/// Sends all of `bytes`, as far as the server reads them, and returns the answer, if there is one.
pub(crate) async fn send(address: SocketAddr, bytes: Vec<u8>) -> Option<Answer> {
    let mut client = TcpStream::connect(address).await.unwrap();
    // The server may close before all is sent.
    let _sent = client.write_all(&bytes).await;
    answer_of(client).await
}

/// What a client still receives.
pub(crate) async fn answer_of(mut client: TcpStream) -> Option<Answer> {
    let mut answer = Vec::new();
    let _read = client.read_to_end(&mut answer).await;
    Answer::read(&answer)
}

pub(crate) fn post(path: &str, content_type: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let headers = format!("content-type: {content_type}\r\ncontent-length: {length}\r\n{headers}");
    [head(&format!("POST {path}"), &headers).as_bytes(), body].concat()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
