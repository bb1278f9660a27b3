//! The clients of a node that is killed: frames are sent again under their number until they are
//! answered, as our client library sends them; an OTLP body is sent once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_clock::Clock;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Operation, Seq, Series};
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::frame::{ANSWER_BYTES, Frame, encode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::book::{Client, SharedBook};

const FRAME_SAMPLES: u64 = 20;
const FRAME_PAUSE: Duration = Duration::from_millis(5);
const BODY_SAMPLES: u64 = 50;
const BODY_PAUSE: Duration = Duration::from_millis(15);
/// Pause after a refused connection.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Both clients; they send until they are ended.
pub(super) struct Clients {
    stop: Arc<AtomicBool>,
    tasks: [JoinHandle<()>; 2],
}

impl Clients {
    pub(super) fn start(stream: PathBuf, otlp: Api, book: &SharedBook) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let frames = send_frames(stream, book.clone(), stop.clone());
        let bodies = send_bodies(otlp, book.clone(), stop.clone());
        Self { tasks: [tokio::spawn(frames), tokio::spawn(bodies)], stop }
    }

    /// Stops sending, and waits for the answers to come that are under way.
    pub(super) async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            let _panicked = task.await;
        }
    }
}

async fn send_frames(path: PathBuf, book: SharedBook, stop: Arc<AtomicBool>) {
    let (mut connection, mut seq) = (None, Seq(1));
    while !stop.load(Ordering::Relaxed) {
        let samples = book.with(|book| book.send(Client::Frames, FRAME_SAMPLES));
        let Ok(frame) = frame(seq, samples.clone()) else { return };

        while !stop.load(Ordering::Relaxed) {
            match exchange(&mut connection, &path, &frame).await {
                Ok(answered) if answered >= seq.0 => {
                    book.with(|book| book.answer(Client::Frames, samples));
                    break;
                }
                Ok(_) | Err(_) => {
                    connection = None;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }

        seq = Seq(seq.0 + 1);
        tokio::time::sleep(FRAME_PAUSE).await;
    }
}

fn frame(seq: Seq, samples: std::ops::Range<u64>) -> Result<Vec<u8>> {
    let mut histograms: Vec<(Series, Histogram)> = Vec::new();
    for n in samples {
        let (operation, ns) = Client::Frames.sample(n);
        let series = Series::plain(Operation::new(&operation)?);
        let place = histograms.iter().position(|(known, _)| *known == series);
        let place = place.unwrap_or_else(|| {
            histograms.push((series, Histogram::default()));
            histograms.len() - 1
        });
        histograms[place].1.record(ns);
    }
    let latency = Latency { histograms, ..Latency::default() };
    Ok(encode(&Frame { client: "kill-loop".to_owned(), seq, clamped: 0, latency, last: false })?)
}

/// Sends a frame and reads its answer: the number up to which the node has recorded frames.
async fn exchange(connection: &mut Option<UnixStream>, path: &Path, frame: &[u8]) -> Result<u64> {
    let stream = match connection {
        Some(stream) => stream,
        None => connection.insert(UnixStream::connect(path).await?),
    };
    let both = async {
        stream.write_all(frame).await?;
        let mut answer = [0; ANSWER_BYTES];
        stream.read_exact(&mut answer).await.map(|_| u64::from_be_bytes(answer))
    };
    Ok(timeout(ANSWER_WAIT, both).await.context("no answer")??)
}

async fn send_bodies(api: Api, book: SharedBook, stop: Arc<AtomicBool>) {
    let clock = Clock::start();
    while !stop.load(Ordering::Relaxed) {
        let samples = book.with(|book| book.send(Client::Otlp, BODY_SAMPLES));
        let spans = samples.clone().map(|n| span(&clock, n)).collect::<Vec<_>>();
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
        let answer = api.request("POST", "/v1/traces", Some(&body)).await;

        match answer {
            // A partial success names what it rejects.
            Ok(text) if !text.contains("reject") => {
                book.with(|book| book.answer(Client::Otlp, samples));
            }
            _ => tokio::time::sleep(RETRY_PAUSE).await,
        }

        tokio::time::sleep(BODY_PAUSE).await;
    }
}

/// A span that ends now and lasts as long as the sample that it stands for.
fn span(clock: &Clock, n: u64) -> Value {
    let (operation, ns) = Client::Otlp.sample(n);
    let end = clock.now().wall.0;
    json!({
        "name": operation,
        "traceId": format!("{:032x}", n + 1),
        "spanId": format!("{:016x}", n + 1),
        "kind": 2,
        "startTimeUnixNano": (end - ns).to_string(),
        "endTimeUnixNano": end.to_string(),
    })
}
