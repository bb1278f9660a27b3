//! When to log that the broker is unreachable: soon, then rarely, never while it is connected.
//!
//! A process without its broker keeps running, so a log line is the only hint to an operator who
//! has mistyped its address. Logs nothing itself: it takes `now` and returns when a line is due.

use std::time::Duration;

use plimsoll_bus::limits::{ABSENCE_LOGGED_AFTER, ABSENCE_LOGGED_EVERY};
use plimsoll_schemas::time::Mono;

/// Since when the broker is unreachable, and when the next log line is due.
#[derive(Clone, Copy, Debug)]
pub struct Absence(Option<Outage>);

#[derive(Clone, Copy, Debug)]
struct Outage {
    since: Mono,
    next_log: Mono,
}

impl Absence {
    /// A process starts disconnected.
    pub fn since(now: Mono) -> Self {
        Self(Some(Outage { since: now, next_log: now.plus(ABSENCE_LOGGED_AFTER) }))
    }

    /// The broker is connected.
    pub fn on_present(&mut self) {
        self.0 = None;
    }

    /// The broker is unreachable; a repeated call changes nothing.
    pub fn on_absent(&mut self, now: Mono) {
        if self.0.is_none() {
            *self = Self::since(now);
        }
    }

    /// When [`Self::on_deadline`] next returns a line.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.0.map(|away| away.next_log)
    }

    /// How long the broker has been unreachable, when a line is due.
    pub fn on_deadline(&mut self, now: Mono) -> Option<Duration> {
        let away = self.0.as_mut().filter(|away| now >= away.next_log)?;
        away.next_log = now.plus(ABSENCE_LOGGED_EVERY);
        Some(now.since(away.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    fn got(absence: &mut Absence, seconds: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        seconds.filter_map(|now| Some((now, absence.on_deadline(at(now))?.as_secs()))).collect()
    }

    #[test]
    fn a_broker_unreachable_at_start_is_logged_soon_and_then_rarely() {
        let mut absence = Absence::since(at(10));
        assert_eq!(got(&mut absence, 10..200), [(12, 2), (72, 62), (132, 122), (192, 182)]);
    }

    #[test]
    fn nothing_is_logged_while_connected() {
        let mut absence = Absence::since(at(0));
        absence.on_present();
        assert_eq!((got(&mut absence, 0..200), absence.next_deadline()), (vec![], None));
    }

    #[test]
    fn a_short_absence_is_not_worth_a_word() {
        let mut absence = Absence::since(at(0));
        absence.on_present();
        absence.on_absent(at(100));
        assert_eq!(got(&mut absence, 100..102), []);
        absence.on_present();
        assert_eq!(got(&mut absence, 102..300), []);
    }

    #[test]
    fn an_absence_seen_twice_is_one_absence() {
        let mut absence = Absence::since(at(0));
        absence.on_absent(at(1));
        assert_eq!(got(&mut absence, 0..10), [(2, 2)]);
    }

    #[test]
    fn the_next_deadline_lies_ahead_after_a_log_line() {
        let mut absence = Absence::since(at(0));
        for now in (0..500).map(at) {
            absence.on_deadline(now);
            assert!(absence.next_deadline().is_some_and(|next| next > now), "{now:?}");
        }
    }
}
