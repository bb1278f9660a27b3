//! Continuous profiling: which process is captured next, and what became of each turn.
//!
//! Owns the watched processes, found by name or as senders of samples, and the ledger of their
//! turns ([`ContinuousStats`]). Each process is captured back to back; one that an order captures
//! meanwhile loses its turn, and one that cannot be captured waits ever longer. It finds, captures
//! and stores nothing: [`Continuous::next_effect`] returns what is to be done.
//!
//! DESIGN N100.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::time::{BootMillis, Mono, nanos};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureId, CaptureKind, CaptureRefusal, CaptureState,
    ProfilerOrder,
};

use super::captures::{CaptureEnd, CaptureStart, SendingProcess};
use crate::limits::{
    CAPTURE_RESPONSE_WAIT, CONTINUOUS_FIND_EVERY, CONTINUOUS_FORGET_AFTER,
    CONTINUOUS_PROCESSES_MAX, CONTINUOUS_RETRY_MAX, CONTINUOUS_SEARCH_EVERY, CONTINUOUS_SEARCH_FOR,
    CONTINUOUS_SECONDS,
};

const RETRY: Backoff =
    Backoff::new(Duration::from_secs(CONTINUOUS_SECONDS as u64), CONTINUOUS_RETRY_MAX);

/// What is watched, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContinuousBounds {
    /// Whether processes are found by name
    pub by_name: bool,
    /// and as senders of samples.
    pub senders: bool,
    /// What settings state; without it nothing is watched unless an order states it.
    pub turns: Option<Turns>,
}

/// How each process is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    pub hz: u32,
    pub native: bool,
    /// From the start of one capture to the next.
    pub every: Duration,
}

#[derive(Debug, Default)]
pub struct Continuous {
    bounds: ContinuousBounds,
    /// What an order states, which has priority.
    ordered: Option<Turns>,
    /// Since when; who sends is searched at once.
    ordered_at: Option<Mono>,
    watched: BTreeMap<u32, Watched>,
    find_at: Mono,
    /// When a process last found no room.
    full_at: Option<Mono>,
    /// Captures so far, which number them.
    started: u64,
    /// Reasons that were reported; a bounded set of words.
    reported: BTreeSet<(&'static str, &'static str)>,
    stats: ContinuousStats,
}

/// Each turn of a process has one outcome, runs, or is being stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContinuousStats {
    pub turns: u64,
    /// By outcome and reason.
    pub outcomes: BTreeMap<(&'static str, &'static str), u64>,
    pub running: u64,
    pub storing: u64,
    pub watched: u64,
}

#[derive(Debug)]
struct Watched {
    /// The last instant at which it sent, if it is known as a sender.
    alive_at: Option<BootMillis>,
    seen_at: Mono,
    next_at: Mono,
    /// Its capture, and when that is given up.
    running: Option<(CaptureId, Mono)>,
    /// When its last turn started.
    turned_at: Option<Mono>,
    failures: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ContinuousEffect {
    /// List the processes that have the names.
    Find,
    Start(CaptureStart),
}

/// What to do with an end of a capture.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Store(KeptProfile),
    /// To be reported, once for each reason.
    Report(String),
    Nothing,
}

/// A profile to be stored; [`Continuous::on_stored`] takes what became of it.
#[derive(Debug, PartialEq, Eq)]
pub struct KeptProfile {
    pub pid: u32,
    pub command: String,
    /// As compressed pprof.
    pub profile: Bytes,
}

impl Continuous {
    pub fn new(bounds: ContinuousBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// What an order states now. Another interval counts from the turns that were.
    pub fn set_ordered(&mut self, now: Mono, ordered: Option<Turns>) {
        if self.ordered == ordered {
            return;
        }
        (self.ordered, self.ordered_at) = (ordered, ordered.map(|_| now));
        let every = self.every();
        for watched in self.watched.values_mut().filter(|of| of.failures == 0) {
            watched.next_at = watched.turned_at.map_or(watched.next_at, |at| at.plus(every));
        }
    }

    fn every(&self) -> Duration {
        self.turns().map_or(Duration::ZERO, |turns| turns.every)
    }

    fn turns(&self) -> Option<Turns> {
        self.ordered.or(self.bounds.turns)
    }

    /// Whether the kernel is asked now who sends: for a short time in each period, since each
    /// datagram then takes a call of its own.
    pub fn is_searching(&self, now: Mono) -> bool {
        let in_period = Duration::from_nanos(now.0 % nanos(CONTINUOUS_SEARCH_EVERY));
        let in_order = self.ordered_at.map(|at| now.since(at));
        let is_time = [Some(in_period), in_order].into_iter().flatten();
        self.turns().is_some()
            && self.bounds.senders
            && is_time.min().is_some_and(|since| since < CONTINUOUS_SEARCH_FOR)
    }

    /// The kernel states that this process has sent something.
    pub fn on_sender(&mut self, now: Mono, sender: SendingProcess) {
        if self.is_searching(now) {
            self.watch(now, sender.pid, Some(sender.alive_at));
        }
    }

    /// Processes that have the names.
    pub fn on_found(&mut self, now: Mono, pids: &[u32]) {
        pids.iter().for_each(|pid| self.watch(now, *pid, None));
    }

    fn watch(&mut self, now: Mono, pid: u32, alive_at: Option<BootMillis>) {
        if !self.watched.contains_key(&pid) && self.watched.len() == CONTINUOUS_PROCESSES_MAX {
            // Once for each search: it finds a sender again and again.
            if self.full_at.is_none_or(|at| now.since(at) >= CONTINUOUS_SEARCH_FOR) {
                self.full_at = Some(now);
                self.stats.turns += 1;
                self.end("skipped", "too_many");
            }
            return;
        }
        let watched = self.watched.entry(pid).or_insert(Watched {
            alive_at,
            seen_at: now,
            next_at: now,
            running: None,
            turned_at: None,
            failures: 0,
        });
        watched.seen_at = now;
        watched.alive_at = alive_at.or(watched.alive_at);
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        let is_on = self.turns().is_some();
        let next = |of: &Watched| match of.running {
            Some((_, until)) => Some(until),
            None => is_on.then_some(of.next_at),
        };
        let find = (is_on && self.bounds.by_name).then_some(self.find_at);
        self.watched.values().filter_map(next).chain(find).min()
    }

    /// What is to be done now; `is_ordered` is whether an order captures a process.
    pub fn next_effect(
        &mut self,
        now: Mono,
        is_ordered: impl Fn(u32) -> bool,
    ) -> Option<ContinuousEffect> {
        self.give_up(now);
        let turns = self.turns()?;
        self.watched.retain(|_, of| {
            of.running.is_some() || now.since(of.seen_at) < CONTINUOUS_FORGET_AFTER
        });
        if self.bounds.by_name && now >= self.find_at {
            self.find_at = now.plus(CONTINUOUS_FIND_EVERY);
            return Some(ContinuousEffect::Find);
        }

        let is_due = |(pid, of): (&u32, &Watched)| of.is_due(now).then_some(*pid);
        let due: Vec<u32> = self.watched.iter().filter_map(is_due).collect();
        due.into_iter().find_map(|pid| self.turn(now, pid, turns, is_ordered(pid)))
    }

    fn turn(
        &mut self,
        now: Mono,
        pid: u32,
        turns: Turns,
        is_ordered: bool,
    ) -> Option<ContinuousEffect> {
        let Turns { hz, native, .. } = turns;
        let watched = self.watched.get_mut(&pid)?;
        let length = Duration::from_secs(CONTINUOUS_SECONDS.into());
        self.stats.turns += 1;
        if is_ordered {
            watched.next_at = now.plus(length);
            self.end("skipped", "ordered");
            return None;
        }

        self.started += 1;
        let id = CaptureId::derived(&[b"continuous", &self.started.to_be_bytes()]);
        watched.running = Some((id, now.plus(length + CAPTURE_RESPONSE_WAIT)));
        watched.turned_at = Some(now);
        let order = ProfilerOrder {
            pid,
            kind: CaptureKind::Cpu,
            native,
            seconds: CONTINUOUS_SECONDS,
            hz,
            full_paths: false,
            alive_at: watched.alive_at,
        };
        Some(ContinuousEffect::Start(CaptureStart { id, order, past: None, from_outside: true }))
    }

    /// Those whose end was not reported in time.
    fn give_up(&mut self, now: Mono) {
        let is_over = |of: &Watched| of.running.filter(|(_, until)| now >= *until);
        let over: Vec<CaptureId> =
            self.watched.values().filter_map(is_over).map(|(id, _)| id).collect();
        for id in over {
            let timeout = CaptureFailure::ProfilerTimeout;
            let _reported = self.on_ended(now, CaptureEnd::failed(id, timeout, String::new()));
        }
    }

    /// Whether this capture is one of these.
    pub fn has(&self, id: CaptureId) -> bool {
        self.watched.values().any(|of| of.running.is_some_and(|(running, _)| running == id))
    }

    /// A capture has ended; one that was given up stays so.
    pub fn on_ended(&mut self, now: Mono, end: CaptureEnd) -> Ended {
        let CaptureEnd { id, state, facts, profile } = end;
        let every = self.every();
        let is_of = |of: &Watched| of.running.is_some_and(|(running, _)| running == id);
        let Some((&pid, watched)) = self.watched.iter_mut().find(|(_, of)| is_of(of)) else {
            return Ended::Nothing;
        };
        watched.running = None;
        if state.has_profile() && !profile.is_empty() {
            // A client inside may answer at once; a turn lasts as long all the same.
            (watched.failures, watched.next_at) =
                (0, watched.turned_at.map_or(now, |at| at.plus(every)));
            self.stats.storing += 1;
            return Ended::Store(KeptProfile { pid, command: facts.command, profile });
        }

        if is_gone(state) {
            self.watched.remove(&pid);
            return self.refused(pid, state, &facts);
        }
        watched.next_at = now.plus(RETRY.span(watched.failures));
        watched.failures = watched.failures.saturating_add(1);
        self.refused(pid, state, &facts)
    }

    fn refused(&mut self, pid: u32, state: CaptureState, facts: &CaptureFacts) -> Ended {
        let (outcome, reason) = state.labels();
        self.end(outcome, reason);
        if !self.reported.insert((outcome, reason)) {
            return Ended::Nothing;
        }
        Ended::Report(format!("process {pid}: {outcome} ({reason}); {}", facts.fix))
    }

    /// A profile is stored, or why not.
    pub fn on_stored(&mut self, stored: Result<(), &'static str>) {
        self.stats.storing = self.stats.storing.saturating_sub(1);
        match stored {
            Ok(()) => self.end("stored", ""),
            Err(reason) => self.end("dropped", reason),
        }
    }

    fn end(&mut self, outcome: &'static str, reason: &'static str) {
        *self.stats.outcomes.entry((outcome, reason)).or_default() += 1;
    }

    /// `None` when nothing is or was watched.
    pub fn stats(&self) -> Option<ContinuousStats> {
        if self.turns().is_none() && self.stats.turns == 0 {
            return None;
        }
        let running = self.watched.values().filter(|of| of.running.is_some()).count() as u64;
        Some(ContinuousStats { running, watched: self.watched.len() as u64, ..self.stats.clone() })
    }
}

/// Whether another process may have the number.
fn is_gone(state: CaptureState) -> bool {
    matches!(
        state,
        CaptureState::Failed(CaptureFailure::ProcessEnded)
            | CaptureState::Refused(CaptureRefusal::ProcessNotFound)
    )
}

impl Watched {
    fn is_due(&self, now: Mono) -> bool {
        self.running.is_none() && now >= self.next_at
    }
}
