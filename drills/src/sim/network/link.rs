//! One process's TCP connection to the broker: two pipes, each in order, and the state that the
//! process assumes, which lags behind the real one.

use std::collections::VecDeque;

use crate::sim::event::{Request, Response};
use crate::sim::schedule::Time;

/// The state of the connection that a process assumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Belief {
    #[default]
    Down,
    Up,
    /// It is up, but the broker does not respond.
    Stalled,
}

#[derive(Debug)]
pub(super) struct Pipe<T> {
    /// What is sent arrives no sooner than what was sent before.
    clear_at: Time,
    /// Whether packets are held up.
    pub is_blocked: bool,
    /// What arrived while packets were held up, or while the broker was stopped.
    pub parked: VecDeque<T>,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        Self { clear_at: 0, is_blocked: false, parked: VecDeque::new() }
    }
}

impl<T> Pipe<T> {
    /// The arrival time of a packet whose own delay ends at `at`: no sooner than `apart` after the
    /// packet before it.
    pub(super) fn arrival(&mut self, at: Time, apart: Time) -> Time {
        self.clear_at = self.clear_at.saturating_add(apart).max(at);
        self.clear_at
    }

    fn renew(&mut self) {
        self.clear_at = 0;
        self.parked.clear();
    }
}

#[derive(Debug, Default)]
pub(super) struct LaneLink {
    /// Counts connections; what belongs to an earlier one is lost.
    pub generation: u64,
    /// Whether the connection of this generation is intact.
    pub is_intact: bool,
    /// The state that the process assumes.
    pub belief: Belief,
    pub requests: Pipe<Request>,
    pub responses: Pipe<Response>,
    /// Extra delay of everything.
    pub slowness: Time,
    /// Since when the process has received nothing on a connection that it assumes is up.
    pub quiet_since: Option<Time>,
    /// Attempts to connect in a row.
    pub attempts: u32,
}

impl LaneLink {
    /// The connection breaks, and what waited in it is lost; returns the requests that had reached
    /// the broker's machine and were not read.
    pub(super) fn tear(&mut self) -> VecDeque<Request> {
        self.is_intact = false;
        let unread = std::mem::take(&mut self.requests.parked);
        self.requests.renew();
        self.responses.renew();
        unread
    }

    /// A new connection is up, though the process has not detected it yet.
    pub(super) fn join(&mut self) {
        self.tear();
        self.generation += 1;
        self.is_intact = true;
        self.attempts = 0;
    }

    /// The process ends or starts: the state of its old connection is dropped.
    pub(super) fn clear(&mut self) {
        self.tear();
        self.generation += 1;
        self.belief = Belief::Down;
        self.quiet_since = None;
        self.attempts = 0;
    }

    /// Whether both directions are open.
    pub(super) fn is_open(&self) -> bool {
        !self.requests.is_blocked && !self.responses.is_blocked
    }
}
