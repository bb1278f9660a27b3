//! The offset of a node's clock from the broker's, as its fastest messages show it.
//!
//! A message shows the offset less its time under way. So of some minutes the reading that is
//! furthest ahead counts: a link that becomes slow is no clock that is set back. Where no message
//! was fast, the round trip bounds how long one can have been under way.
//!
//! DESIGN A49.

use std::time::Duration;

use crate::limits::CLOCK_OFFSET_WITHIN;
use plimsoll_schemas::time::nanos;
use serde::{Deserialize, Serialize};

use crate::core::ingest::Skew;

/// The greatest readings of the present span and of the one before, in nanoseconds ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ClockOffset {
    span: u64,
    present: Option<i64>,
    before: Option<i64>,
    latest: i64,
}

impl ClockOffset {
    /// Takes what one message shows.
    pub(super) fn see(&mut self, skew: Skew) {
        let span = skew.at.0 / (nanos(CLOCK_OFFSET_WITHIN) / 2);
        // Two halves of the time in place of all readings: the fastest
        // message of at least one half is known, without a list.
        if span != self.span {
            let before = if span == self.span + 1 { self.present } else { None };
            *self = Self { span, present: None, before, latest: self.latest };
        }
        self.present = self.present.max(Some(skew.ahead_ns));
        self.latest = skew.ahead_ns;
    }

    fn fastest(&self) -> Option<i64> {
        self.present.max(self.before)
    }

    /// Nanoseconds ahead, negative for a clock that is behind by more than a message may have been
    /// under way: at most for the `round_trip`.
    pub(super) fn ahead_ns(&self, round_trip: Option<Duration>) -> Option<i64> {
        let ahead = self.fastest()?;
        let way = i64::try_from(nanos(round_trip.unwrap_or_default())).unwrap_or(i64::MAX);
        Some(if ahead < 0 { ahead.saturating_add(way).min(0) } else { ahead })
    }

    /// How much longer the latest message was under way than the fastest one.
    pub(super) fn delay(&self) -> Duration {
        let slower = self.fastest().map_or(0, |fastest| fastest.saturating_sub(self.latest));
        Duration::from_nanos(u64::try_from(slower).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::time::Wall;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// A clock seen in these seconds to be this many seconds ahead.
    fn seen(readings: impl IntoIterator<Item = (u64, i64)>) -> ClockOffset {
        let mut offset = ClockOffset::default();
        for (at, ahead) in readings {
            offset.see(Skew { at: Wall(at * 1_000_000_000), ahead_ns: ahead * SECOND });
        }
        offset
    }

    #[test]
    fn a_link_that_becomes_slow_is_no_clock_that_is_set_back() {
        let slow = seen((0..100).map(|at| (at, 0)).chain((100..110).map(|at| (at, -10))));
        assert_eq!((slow.ahead_ns(None), slow.delay()), (Some(0), Duration::from_secs(10)));
        // Where every message was as slow, the round trip explains it.
        let always = seen((0..1_000).map(|at| (at, -10)));
        let way = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(always.ahead_ns(None), Some(-10 * SECOND));
        assert_eq!([12, 4].map(|s| always.ahead_ns(way(s))), [Some(0), Some(-6 * SECOND)]);
        assert_eq!(always.delay(), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_is_off_is_seen_ahead_at_once_and_behind_after_some_minutes() {
        assert_eq!(seen([(0, 0), (1, 7)]).ahead_ns(None), Some(7 * SECOND));
        let ahead = seen([(0, 7)]);
        assert_eq!(ahead.ahead_ns(Some(Duration::from_secs(60))), Some(7 * SECOND));
        let within = CLOCK_OFFSET_WITHIN.as_secs();
        let behind = |last| seen((0..last).map(|at| (at, if at == 0 { 0 } else { -60 })));
        assert_eq!(behind(within / 2).ahead_ns(None), Some(0));
        assert_eq!(behind(within + 2).ahead_ns(None), Some(-60 * SECOND));
        assert_eq!(ClockOffset::default().ahead_ns(None), None);
    }
}
