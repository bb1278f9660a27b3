//! A stand-in for a node's stream socket: reads frames as the protocol says, records each number
//! of a client once, and misbehaves when asked to. It decides nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::wire::frame::{Frame, decode, length};

use crate::parts::monotonic_ns;

const PATIENCE: Duration = Duration::from_secs(60);

/// All that arrived.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) last: BTreeMap<String, Seq>,
    /// Of each client, when each of its frames first arrived, in ns of the monotonic clock.
    pub(crate) arrivals: BTreeMap<String, Vec<u64>>,
    /// Clients whose newest frame is final.
    pub(crate) finals: BTreeSet<String>,
    pub(crate) histograms: BTreeMap<String, Histogram>,
    pub(crate) counters: BTreeMap<String, f64>,
    pub(crate) gauges: BTreeMap<String, f64>,
    pub(crate) clamped: u64,
    pub(crate) frames: u64,
    pub(crate) repeated: u64,
    pub(crate) connections: u64,
    /// Connections whose other end is gone.
    pub(crate) ended: u64,
}

/// What the stand-in does with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Answer,
    /// Records, but hangs up in place of this many answers.
    LoseAnswers(u64),
    /// Neither records nor answers, and hangs up, this many times.
    HangUp(u64),
}

struct Shared {
    seen: Mutex<Seen>,
    manner: Mutex<Manner>,
    streams: Mutex<Vec<UnixStream>>,
}

pub(crate) struct Node {
    path: PathBuf,
    shared: Arc<Shared>,
}

impl Node {
    pub(crate) fn listen(path: &Path, manner: Manner) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            manner: Mutex::new(manner),
            streams: Mutex::default(),
        });
        let node = Self { path: path.to_owned(), shared: shared.clone() };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), shared.clone());
                shared.seen.lock().unwrap().connections += 1;
                shared.streams.lock().unwrap().push(stream.try_clone().unwrap());
                thread::spawn(move || {
                    serve(stream, &shared);
                    shared.seen.lock().unwrap().ended += 1;
                });
            }
        });
        node
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared.seen.lock().unwrap()
    }

    /// What arrived, once `is_enough` says so.
    pub(crate) fn poll_until(&self, what: &str, is_enough: impl Fn(&Seen) -> bool) {
        let until = Deadline::within(PATIENCE);
        while !is_enough(&self.seen()) {
            assert!(until.pause(Duration::from_millis(5)), "{what}: {:?}", self.seen());
        }
    }

    /// Goes away as a node that is stopped does.
    pub(crate) fn leave(self) -> Seen {
        std::fs::remove_file(&self.path).unwrap();
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _gone = stream.shutdown(Shutdown::Both);
        }
        std::mem::take(&mut *self.seen())
    }
}

fn serve(mut stream: UnixStream, shared: &Shared) {
    while let Some(frame) = read(&mut stream) {
        let manner = {
            let mut manner = shared.manner.lock().unwrap();
            let now = *manner;
            *manner = match now {
                Manner::LoseAnswers(0 | 1) | Manner::HangUp(0 | 1) => Manner::Answer,
                Manner::LoseAnswers(n) => Manner::LoseAnswers(n - 1),
                Manner::HangUp(n) => Manner::HangUp(n - 1),
                Manner::Answer => now,
            };
            now
        };
        if matches!(manner, Manner::HangUp(_)) {
            break;
        }
        let last = shared.seen.lock().unwrap().record(frame);
        if matches!(manner, Manner::LoseAnswers(_)) {
            break;
        }
        if stream.write_all(&last.0.to_be_bytes()).is_err() {
            break;
        }
    }
    let _gone = stream.shutdown(Shutdown::Both);
}

fn read(stream: &mut UnixStream) -> Option<Frame> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).ok()?;
    let mut body = vec![0; length(prefix).unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some(decode(&body).unwrap())
}

impl Seen {
    fn record(&mut self, frame: Frame) -> Seq {
        self.frames += 1;
        let last = self.last.entry(frame.client.clone()).or_default();
        if frame.seq <= *last {
            self.repeated += 1;
            return *last;
        }
        self.arrivals.entry(frame.client.clone()).or_default().push(monotonic_ns());
        match frame.last {
            true => self.finals.insert(frame.client),
            false => self.finals.remove(&frame.client),
        };
        *last = frame.seq;
        self.clamped += frame.clamped;
        for (series, histogram) in frame.latency.histograms {
            self.histograms.entry(series.to_string()).or_default().merge(&histogram);
        }
        for (series, value) in frame.latency.counters {
            *self.counters.entry(series.to_string()).or_default() += value;
        }
        let gauges = frame.latency.gauges.into_iter();
        self.gauges.extend(gauges.map(|(series, value)| (series.to_string(), value)));
        frame.seq
    }

    pub(crate) fn samples(&self) -> u64 {
        self.histograms.values().map(Histogram::count).sum()
    }
}
