//! Keeps one frame until the node has answered it, and merges everything else behind it.
//!
//! A frame never changes once it has a number: the node may have recorded it although no answer
//! arrived, and recognises it by that number. A frame is dropped when the node has read all of it
//! and closed the connection instead of answering, `ATTEMPTS_MAX` times. An unreachable node costs
//! nothing.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{ATTEMPTS_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use plimsoll_clock::Deadline;
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::wire::frame::{self, Frame};

use crate::connection::{Connection, ExchangeError};
use crate::default_labels::DefaultLabels;
use crate::delivery::{DeliveryCounts, SendOutcome};
use crate::unsent::{FrameLoad, Unsent};

pub(crate) struct Sender {
    path: PathBuf,
    client: String,
    next: Seq,
    pub(crate) unsent: Unsent,
    /// A final frame has a number.
    has_ended: bool,
    unanswered: Option<UnansweredFrame>,
    connection: Option<Connection>,
    delivery: DeliveryCounts,
    pause: Duration,
    retry: Deadline,
}

/// Who waits for what is sent, and whether anything can follow it.
#[derive(Clone, Copy)]
pub(crate) struct SendTerms {
    /// A thread waits, so an unreachable node is tried without a pause.
    pub(crate) is_awaited: bool,
    /// The process ends: each frame is final, and there is at least one.
    pub(crate) is_ending: bool,
}

struct UnansweredFrame {
    seq: Seq,
    samples: u64,
    bytes: Vec<u8>,
    hung_up: u32,
}

impl Sender {
    pub(crate) fn new(path: PathBuf, client: String, defaults: DefaultLabels) -> Self {
        Self {
            path,
            client,
            next: Seq(1),
            unsent: Unsent::new(defaults),
            has_ended: false,
            unanswered: None,
            connection: None,
            delivery: DeliveryCounts::new(),
            pause: RETRY_PAUSE_MIN,
            retry: Deadline::within(Duration::ZERO),
        }
    }

    pub(crate) fn delivery(&self) -> DeliveryCounts {
        DeliveryCounts { refused: self.delivery.refused + self.unsent.overfull, ..self.delivery }
    }

    /// Sends what is unsent until the node stops answering. While the node is unreachable, attempts
    /// are separated by a growing pause, unless a thread waits.
    pub(crate) fn send(&mut self, terms: SendTerms) -> SendOutcome {
        let SendTerms { is_awaited, is_ending } = terms;

        loop {
            // One frame at a time: what is recorded meanwhile merges by series, so that a long
            // outage holds no more than a short one.
            if self.unanswered.is_none() {
                // A process that has sent no frame has nothing to end.
                let owes_final = is_ending && self.next > Seq(1) && !self.has_ended;
                let load = self.unsent.cut().or_else(|| owes_final.then(FrameLoad::default));
                self.unanswered = load.and_then(|load| self.number(load, is_ending));
            }

            let Some(unanswered) = &mut self.unanswered else { return SendOutcome::Complete };

            if self.connection.is_none() {
                // On a machine without a node every flush would try to connect.
                if !is_awaited && !self.retry.has_passed() {
                    return SendOutcome::Unreachable;
                }
                self.connection = Connection::open(&self.path).ok();
                self.delivery.connections += u64::from(self.connection.is_some());
            }

            let Some(connection) = &mut self.connection else { return self.on_unreachable() };

            match connection.exchange(&unanswered.bytes) {
                Ok(seq) if seq >= unanswered.seq.0 => self.on_answered(),
                Err(ExchangeError::Slow) => return SendOutcome::Waiting,
                Err(ExchangeError::Broken) => return self.on_unreachable(),
                // An older number does not cover this frame: as good as no answer.
                Ok(_) | Err(ExchangeError::HungUp) => {
                    unanswered.hung_up += 1;
                    if unanswered.hung_up >= ATTEMPTS_MAX {
                        self.on_refused();
                    }
                    return self.on_unreachable();
                }
            }
        }
    }

    fn number(&mut self, load: FrameLoad, last: bool) -> Option<UnansweredFrame> {
        let FrameLoad { latency, clamped } = load;
        let (seq, samples) = (self.next, latency.samples());
        self.next = Seq(seq.0 + 1);
        self.has_ended |= last;

        let client = self.client.clone();
        let Ok(bytes) = frame::encode(&Frame { client, seq, clamped, latency, last }) else {
            self.delivery.refused += samples;
            self.delivery.frames_refused += 1;
            return None;
        };
        Some(UnansweredFrame { seq, samples, bytes, hung_up: 0 })
    }

    fn on_answered(&mut self) {
        let samples = self.unanswered.take().map_or(0, |unanswered| unanswered.samples);
        self.delivery.acknowledged += samples;
        self.delivery.frames += 1;
        self.pause = RETRY_PAUSE_MIN;
    }

    fn on_refused(&mut self) {
        let samples = self.unanswered.take().map_or(0, |unanswered| unanswered.samples);
        self.delivery.refused += samples;
        self.delivery.frames_refused += 1;
    }

    fn on_unreachable(&mut self) -> SendOutcome {
        self.connection = None;
        self.retry = Deadline::within(self.pause);
        self.pause = (self.pause * 2).min(RETRY_PAUSE_MAX);
        SendOutcome::Unreachable
    }
}
