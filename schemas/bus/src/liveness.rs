//! Judges whether a connected broker still answers: pure, `now` is an argument.

use std::time::Duration;

use crate::limits::{ROUND_TRIP_MAX, STALL_AFTER};
use plimsoll_schemas::time::Mono;

/// When the broker last sent anything, and whether its silence was reported.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    up: bool,
    stalled: bool,
    last_received: Mono,
    /// Nothing has arrived on this connection yet.
    is_new: bool,
}

/// What the owner must do after a tick.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TickAction {
    pub(crate) probe: bool,
    /// Report that the broker has fallen silent.
    pub(crate) stalled: bool,
}

impl Liveness {
    /// The connection was made or lost. A new one has the full time before it counts as silent, and
    /// a round trip more: nothing is on its way to this process yet.
    pub(crate) fn on_link(&mut self, now: Mono, up: bool) {
        *self = Self { up, stalled: false, last_received: now, is_new: true };
    }

    /// Something arrived from the broker.
    pub(crate) fn on_received(&mut self, now: Mono) {
        self.last_received = now;
        (self.stalled, self.is_new) = (false, false);
    }

    /// Time for a probe.
    pub(crate) fn on_tick(&mut self, now: Mono) -> TickAction {
        let on_the_way = if self.is_new { ROUND_TRIP_MAX } else { Duration::ZERO };
        let silent = self.up && now.since(self.last_received) >= STALL_AFTER + on_the_way;
        let stalled = silent && !self.stalled;
        self.stalled |= stalled;
        TickAction { probe: self.up, stalled }
    }
}

/// The name of a probe: its send time, from which its arrival yields the round trip.
pub(crate) fn probe_name(sent: Mono) -> String {
    format!("probe-{}", sent.0)
}

/// How long the probe of this name took; `None` for anything else.
pub(crate) fn round_trip(name: &str, now: Mono) -> Option<Duration> {
    let sent = name.strip_prefix("probe-")?.parse().ok()?;
    Some(now.since(Mono(sent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    #[test]
    fn silence_is_reported_once_and_again_after_a_recovery() {
        let mut liveness = Liveness::default();
        liveness.on_link(at(10), true);
        liveness.on_received(at(10));
        let stalls = |liveness: &mut Liveness, seconds: std::ops::RangeInclusive<u64>| {
            seconds.filter(|second| liveness.on_tick(at(*second)).stalled).collect::<Vec<_>>()
        };
        assert_eq!(stalls(&mut liveness, 11..=20), [13]);
        liveness.on_received(at(20));
        assert_eq!(stalls(&mut liveness, 21..=30), [23]);
    }

    #[test]
    fn without_a_connection_nothing_is_sent_and_nothing_is_silent() {
        let mut liveness = Liveness::default();
        assert_eq!(liveness.on_tick(at(100)), TickAction::default());
        liveness.on_link(at(100), true);
        liveness.on_link(at(101), false);
        assert_eq!(liveness.on_tick(at(200)), TickAction::default());
    }

    #[test]
    fn a_new_connection_has_the_full_time_and_a_round_trip() {
        let mut liveness = Liveness::default();
        liveness.on_link(at(0), true);
        liveness.on_link(at(60), true);
        assert_eq!(liveness.on_tick(at(65)), TickAction { probe: true, stalled: false });
        assert_eq!(liveness.on_tick(at(66)), TickAction { probe: true, stalled: true });
    }

    #[test]
    fn a_probe_reports_its_duration() {
        assert_eq!(round_trip(&probe_name(at(7)), at(8)), Some(SECOND));
        assert_eq!(round_trip(&probe_name(at(8)), at(7)), Some(Duration::ZERO));
        assert_eq!(round_trip("probe-x", at(7)), None);
        assert_eq!(round_trip("7", at(7)), None);
    }
}
