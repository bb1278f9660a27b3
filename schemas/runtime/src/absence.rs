//! When to say that the broker is away: soon, then rarely, never while it is there.
//!
//! A process without its broker goes on, so nothing but a log line tells an operator who has
//! mistyped its address. Says nothing itself: `now` goes in, the time for a line comes out.

use std::time::Duration;

use plimsoll_bus::limits::{ABSENCE_TOLD_AFTER, ABSENCE_TOLD_EVERY};
use plimsoll_schemas::time::Mono;

/// Since when the broker is away, and when to say so next.
#[derive(Clone, Copy, Debug)]
pub struct Absence(Option<Away>);

#[derive(Clone, Copy, Debug)]
struct Away {
    since: Mono,
    told_next: Mono,
}

impl Absence {
    /// A process starts without its broker.
    #[must_use]
    pub fn since(now: Mono) -> Self {
        Self(Some(Away { since: now, told_next: now.plus(ABSENCE_TOLD_AFTER) }))
    }

    /// The broker is there.
    pub fn on_present(&mut self) {
        self.0 = None;
    }

    /// The broker is away; hearing so again changes nothing.
    pub fn on_absent(&mut self, now: Mono) {
        if self.0.is_none() {
            *self = Self::since(now);
        }
    }

    /// When [`Self::on_deadline`] next has something to say.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.0.map(|away| away.told_next)
    }

    /// How long the broker has been away, when it is time to say so.
    pub fn on_deadline(&mut self, now: Mono) -> Option<Duration> {
        let away = self.0.as_mut().filter(|away| now >= away.told_next)?;
        away.told_next = now.plus(ABSENCE_TOLD_EVERY);
        Some(now.since(away.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    fn told(absence: &mut Absence, seconds: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        seconds.filter_map(|now| Some((now, absence.on_deadline(at(now))?.as_secs()))).collect()
    }

    #[test]
    fn a_broker_away_from_the_start_is_told_soon_and_then_rarely() {
        let mut absence = Absence::since(at(10));
        assert_eq!(told(&mut absence, 10..200), [(12, 2), (72, 62), (132, 122), (192, 182)]);
    }

    #[test]
    fn nothing_is_told_while_the_broker_is_there() {
        let mut absence = Absence::since(at(0));
        absence.on_present();
        assert_eq!((told(&mut absence, 0..200), absence.next_deadline()), (vec![], None));
    }

    #[test]
    fn a_short_absence_is_not_worth_a_word() {
        let mut absence = Absence::since(at(0));
        absence.on_present();
        absence.on_absent(at(100));
        assert_eq!(told(&mut absence, 100..102), []);
        absence.on_present();
        assert_eq!(told(&mut absence, 102..300), []);
    }

    #[test]
    fn an_absence_heard_twice_is_one_absence() {
        let mut absence = Absence::since(at(0));
        absence.on_absent(at(1));
        assert_eq!(told(&mut absence, 0..10), [(2, 2)]);
    }

    #[test]
    fn the_next_deadline_lies_ahead_once_something_was_told() {
        let mut absence = Absence::since(at(0));
        for now in (0..500).map(at) {
            absence.on_deadline(now);
            assert!(absence.next_deadline().is_some_and(|next| next > now), "{now:?}");
        }
    }
}
