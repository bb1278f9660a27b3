//! What the depth of the outbox does to new messages: nothing, then reroute to the emergency
//! lane, then drop. Each state starts at a high watermark and ends at a low one, so none flaps.
//!
//! DESIGN N10.

use std::time::Duration;

use plimsoll_schemas::time::Mono;

/// The depths at which states start and end, in messages held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// New messages are dropped from here on.
    pub drop: usize,
    /// New messages go to the emergency lane from here on.
    pub reroute: usize,
    /// Low watermark: every state ends at this depth.
    pub recover: usize,
    /// Longest time for which only the emergency lane is sent.
    pub conservative_max: Duration,
}

/// How a new message is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// By the normal lane.
    Normal,
    /// By the emergency lane.
    Emergency,
    /// There is no room for it.
    Drop,
}

/// The current states.
#[derive(Clone, Debug)]
pub struct Pressure {
    thresholds: Thresholds,
    dropping: bool,
    rerouting: bool,
    /// When conservative mode ends, while it lasts.
    conservative_until: Option<Mono>,
    /// True once the depth was low again: only then may conservative mode start again, so that it
    /// does not restart as soon as its time is over.
    relaxed: bool,
}

impl Pressure {
    /// No pressure.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            dropping: false,
            rerouting: false,
            conservative_until: None,
            relaxed: true,
        }
    }

    /// Admits a new message, with `depth` messages held; dropping is tested first.
    pub fn admit(&mut self, now: Mono, depth: usize) -> Admission {
        self.on_depth(depth);
        self.dropping |= depth >= self.thresholds.drop;
        if depth >= self.thresholds.reroute {
            self.rerouting = true;
            if std::mem::replace(&mut self.relaxed, false) {
                self.conservative_until = Some(now.plus(self.thresholds.conservative_max));
            }
        }
        if self.dropping {
            Admission::Drop
        } else if self.rerouting {
            Admission::Emergency
        } else {
            Admission::Normal
        }
    }

    /// The depth went down to `depth`.
    pub fn on_depth(&mut self, depth: usize) {
        if depth <= self.thresholds.recover {
            *self = Self::new(self.thresholds);
        }
    }

    /// Advances time.
    pub fn on_deadline(&mut self, now: Mono) {
        self.conservative_until.take_if(|until| now >= *until);
    }

    /// The node is leaving: the normal lane cannot wait any longer.
    pub fn on_leave(&mut self) {
        self.conservative_until = None;
    }

    /// When conservative mode ends by time.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.conservative_until
    }

    /// True while only the emergency lane is sent.
    #[must_use]
    pub fn is_conservative(&self) -> bool {
        self.conservative_until.is_some()
    }

    /// True while new messages go by the emergency lane.
    #[must_use]
    pub fn is_rerouting(&self) -> bool {
        self.rerouting
    }

    /// True while new messages are dropped.
    #[must_use]
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }
}

#[cfg(test)]
mod tests {
    use crate::limits;
    use proptest::prelude::*;

    use super::*;

    fn pressure() -> Pressure {
        Pressure::new(Thresholds {
            drop: limits::OUTBOX_MESSAGES_MAX,
            reroute: plimsoll_schemas::limits::delivery::REROUTE_MESSAGES,
            recover: limits::RECOVER_MESSAGES,
            conservative_max: limits::CONSERVATIVE_MAX,
        })
    }

    #[test]
    fn each_threshold_is_exact_and_dropping_is_tested_first() {
        let mut pressure = pressure();
        for (depth, expected) in [
            (3_999, Admission::Normal),
            (4_000, Admission::Emergency),
            (1_001, Admission::Emergency),
            (1_000, Admission::Normal),
            (3_999, Admission::Normal),
            (8_000, Admission::Drop),
            (4_000, Admission::Drop),
            (1_001, Admission::Drop),
            (1_000, Admission::Normal),
            (7_999, Admission::Emergency),
        ] {
            assert_eq!(pressure.admit(Mono(0), depth), expected, "{depth}");
        }
    }

    #[test]
    fn conservative_mode_ends_by_depth() {
        let mut pressure = pressure();
        pressure.admit(Mono(0), 4_000);
        pressure.on_depth(1_001);
        assert!(pressure.is_conservative());
        pressure.on_depth(1_000);
        assert_eq!((pressure.is_conservative(), pressure.is_rerouting()), (false, false));
    }

    #[test]
    fn conservative_mode_ends_after_a_minute_and_begins_anew_only_once_depth_was_low() {
        let mut pressure = pressure();
        pressure.admit(Mono(0), 4_000);
        let end = Mono(0).plus(limits::CONSERVATIVE_MAX);
        pressure.on_deadline(Mono(end.0 - 1));
        assert!(pressure.is_conservative());
        pressure.on_deadline(end);
        assert_eq!(pressure.admit(end, 7_000), Admission::Emergency);
        assert!(!pressure.is_conservative());
        pressure.on_depth(1_000);
        pressure.admit(end, 4_000);
        assert!(pressure.is_conservative());
    }

    proptest! {
        /// Depths wander; a state changes only at its thresholds, and conservative mode always
        /// ends.
        #[test]
        fn no_state_changes_between_its_thresholds(
            depths in prop::collection::vec((0..9_000_usize, 0..40_u64), 1..100),
        ) {
            let (mut pressure, mut now, mut began) = (pressure(), Mono(0), None);
            for (depth, seconds) in depths {
                now = now.plus(Duration::from_secs(seconds));
                let before = pressure.clone();
                pressure.on_deadline(now);
                pressure.admit(now, depth);
                let low = depth <= 1_000;
                let dropping = !low && (before.dropping || depth >= 8_000);
                let rerouting = !low && (before.rerouting || depth >= 4_000);
                prop_assert_eq!((pressure.dropping, pressure.rerouting), (dropping, rerouting));
                if pressure.is_conservative() {
                    let since = *began.get_or_insert(now);
                    prop_assert!(!low && now.since(since) < limits::CONSERVATIVE_MAX);
                } else {
                    began = None;
                }
            }
        }
    }
}
