//! Keeps one frame until the node has answered it, and everything else merged behind it.
//!
//! A frame never changes once it has a number: the node may have recorded it although no answer
//! came, and knows it again by that number. It is given up when the node, having read all of it,
//! hung up instead of answering, `ATTEMPTS_MAX` times; a node that is away loses nothing.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{ATTEMPTS_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use plimsoll_clock::Deadline;
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::wire::frame::{self, Frame};

use crate::held::{Held, Load};
use crate::line::{Fault, Line};

/// How far sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing is held any more.
    Answered,
    /// The node is connected and owes an answer.
    Waiting,
    /// The node cannot be reached, or hangs up.
    Away,
}

/// What became of samples and frames so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Samples that the node has answered for.
    pub(crate) acknowledged: u64,
    /// Samples given up.
    pub(crate) refused: u64,
    pub(crate) frames: u64,
    pub(crate) frames_refused: u64,
    pub(crate) connections: u64,
}

impl Account {
    pub(crate) const fn new() -> Self {
        Self { acknowledged: 0, refused: 0, frames: 0, frames_refused: 0, connections: 0 }
    }
}

pub(crate) struct Sender {
    path: PathBuf,
    client: String,
    next: Seq,
    pub(crate) held: Held,
    pending: Option<Pending>,
    line: Option<Line>,
    account: Account,
    pause: Duration,
    retry: Deadline,
}

struct Pending {
    seq: Seq,
    samples: u64,
    bytes: Vec<u8>,
    hung_up: u32,
}

impl Sender {
    pub(crate) fn new(path: PathBuf, client: String) -> Self {
        Self {
            path,
            client,
            next: Seq(1),
            held: Held::default(),
            pending: None,
            line: None,
            account: Account::new(),
            pause: RETRY_PAUSE_MIN,
            retry: Deadline::within(Duration::ZERO),
        }
    }

    pub(crate) fn account(&self) -> Account {
        Account { refused: self.account.refused + self.held.overfull, ..self.account }
    }

    /// Sends what is held, as far as the node goes along. While it is away nothing is tried
    /// before a growing pause is over, unless somebody waits.
    pub(crate) fn send(&mut self, is_awaited: bool) -> Outcome {
        loop {
            if self.pending.is_none() {
                self.pending = self.held.cut().and_then(|load| self.number(load));
            }
            let Some(pending) = &mut self.pending else { return Outcome::Answered };
            if self.line.is_none() {
                if !is_awaited && !self.retry.has_passed() {
                    return Outcome::Away;
                }
                self.line = Line::open(&self.path).ok();
                self.account.connections += u64::from(self.line.is_some());
            }
            let Some(line) = &mut self.line else { return self.on_away() };
            match line.exchange(&pending.bytes) {
                Ok(seq) if seq >= pending.seq.0 => self.on_answered(),
                Err(Fault::Slow) => return Outcome::Waiting,
                Err(Fault::Broken) => return self.on_away(),
                Ok(_) | Err(Fault::HungUp) => {
                    pending.hung_up += 1;
                    if pending.hung_up >= ATTEMPTS_MAX {
                        self.on_refused();
                    }
                    return self.on_away();
                }
            }
        }
    }

    fn number(&mut self, load: Load) -> Option<Pending> {
        let Load { latency, clamped } = load;
        let (seq, samples) = (self.next, latency.samples());
        self.next = Seq(seq.0 + 1);
        let client = self.client.clone();
        let Ok(bytes) = frame::encode(&Frame { client, seq, clamped, latency }) else {
            self.account.refused += samples;
            self.account.frames_refused += 1;
            return None;
        };
        Some(Pending { seq, samples, bytes, hung_up: 0 })
    }

    fn on_answered(&mut self) {
        let samples = self.pending.take().map_or(0, |pending| pending.samples);
        self.account.acknowledged += samples;
        self.account.frames += 1;
        self.pause = RETRY_PAUSE_MIN;
    }

    fn on_refused(&mut self) {
        let samples = self.pending.take().map_or(0, |pending| pending.samples);
        self.account.refused += samples;
        self.account.frames_refused += 1;
    }

    fn on_away(&mut self) -> Outcome {
        self.line = None;
        self.retry = Deadline::within(self.pause);
        self.pause = (self.pause * 2).min(RETRY_PAUSE_MAX);
        Outcome::Away
    }
}
