//! A machine with the process that runs on it: its clocks, its lives, its timer, and the events
//! that wait while it is paused.

use std::collections::VecDeque;

use plimsoll_schemas::time::{Mono, Now};

use super::clocks::Clocks;
use super::event::Event;
use super::plan::Knobs;
use super::rng::Rng;
use super::schedule::Time;

/// See the module.
#[derive(Debug)]
pub struct Machine {
    clocks: Clocks,
    /// Changes with every start and end of the process.
    life: u64,
    born: Time,
    is_alive: bool,
    is_paused: bool,
    is_disk_full: bool,
    timer_at: Time,
    /// Events for a paused process.
    deferred: VecDeque<Event>,
}

impl Machine {
    /// A machine without a process, whose clocks are off by random amounts.
    pub fn new(knobs: &Knobs, rng: &mut Rng) -> Self {
        let signed = |n: u64| i64::try_from(n).unwrap_or(0);
        let drift = signed(rng.within(0..=2 * knobs.drift_ppm)) - signed(knobs.drift_ppm);
        let ahead = signed(rng.span(1, 30_000_000_000)) - signed(rng.span(1, 30_000_000_000));
        Self {
            clocks: Clocks::new(drift, ahead),
            life: 0,
            born: 0,
            is_alive: false,
            is_paused: false,
            is_disk_full: false,
            timer_at: Time::MAX,
            deferred: VecDeque::new(),
        }
    }

    pub fn begin(&mut self, at: Time) {
        (self.life, self.born, self.is_alive) = (self.life + 1, at, true);
        self.timer_at = Time::MAX;
    }

    pub fn end(&mut self) {
        (self.life, self.is_alive, self.is_paused) = (self.life + 1, false, false);
        self.deferred.clear();
    }

    /// What the process reads from its clocks at a virtual time.
    pub fn clock(&self, at: Time) -> Now {
        self.clocks.now(self.born, at)
    }

    /// Identifies the present process among all of this machine.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Whether a process runs or is paused.
    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Whether the process is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Pauses the process; false when it does not run.
    pub fn pause(&mut self) -> bool {
        let runs = self.is_alive && !self.is_paused;
        self.is_paused |= runs;
        runs
    }

    /// Resumes the process and returns the events that waited.
    pub fn resume(&mut self) -> VecDeque<Event> {
        match std::mem::replace(&mut self.is_paused, false) {
            true => std::mem::take(&mut self.deferred),
            false => VecDeque::new(),
        }
    }

    /// An event for the paused process.
    pub fn defer(&mut self, event: Event) {
        self.deferred.push_back(event);
    }

    /// Events for the paused process that precede all others.
    pub fn defer_first(&mut self, events: impl DoubleEndedIterator<Item = Event>) {
        events.rev().for_each(|event| self.deferred.push_front(event));
    }

    /// The disk becomes full, or has free space again.
    pub fn set_disk_full(&mut self, is_full: bool) {
        self.is_disk_full = is_full;
    }

    /// Whether writes to the disk fail.
    pub fn is_disk_full(&self) -> bool {
        self.is_disk_full
    }

    /// The wall clock is set by this many nanoseconds.
    pub fn jump(&mut self, by: i64) {
        self.clocks.jump(by);
    }

    /// Whether the timer fires now; it is not set afterwards.
    pub fn take_timer(&mut self, at: Time) -> bool {
        let fires = self.timer_at <= at && self.is_alive;
        if fires {
            self.timer_at = Time::MAX;
        }
        fires
    }

    /// Sets the timer to a deadline on the process's clock, unless it fires earlier; returns the
    /// virtual time at which it must be scheduled.
    pub fn set_timer(&mut self, deadline: Mono) -> Option<Time> {
        let at = self.clocks.when(self.born, deadline);
        let is_earlier = at < self.timer_at;
        self.timer_at = self.timer_at.min(at);
        is_earlier.then_some(at)
    }
}
