//! What a deep outbox does to new messages: first nothing, then the emergency lane, then the
//! end. Each state is entered at one depth and left at a much lower one, so none flaps.

use std::time::Duration;

use plimsoll_schemas::time::Mono;

/// The depths at which states begin and end, in messages held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// New messages are dropped from here on.
    pub drop: usize,
    /// New messages go to the emergency lane from here on.
    pub reroute: usize,
    /// Every state ends here.
    pub leave: usize,
    /// Longest time in which only the emergency lane is sent.
    pub conservative_max: Duration,
}

/// What becomes of a new message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It goes the usual way.
    Normal,
    /// It goes by the emergency lane.
    Emergency,
    /// There is no room for it.
    Drop,
}

/// The states.
#[derive(Clone, Debug)]
pub struct Pressure {
    marks: Marks,
    dropping: bool,
    rerouting: bool,
    /// When conservative mode ends, while it lasts.
    conservative_until: Option<Mono>,
    /// True once the depth was low again: only then may conservative mode begin anew, so its
    /// own end by time is not at once its next beginning.
    relaxed: bool,
}

impl Pressure {
    /// No pressure yet.
    #[must_use]
    pub fn new(marks: Marks) -> Self {
        Self { marks, dropping: false, rerouting: false, conservative_until: None, relaxed: true }
    }

    /// Decides about a new message, with `depth` messages held; dropping is tested first.
    pub fn admit(&mut self, now: Mono, depth: usize) -> Admission {
        self.on_depth(depth);
        self.dropping |= depth >= self.marks.drop;
        if depth >= self.marks.reroute {
            self.rerouting = true;
            if std::mem::replace(&mut self.relaxed, false) {
                self.conservative_until = Some(now.plus(self.marks.conservative_max));
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

    /// Some messages are no longer held.
    pub fn on_depth(&mut self, depth: usize) {
        if depth <= self.marks.leave {
            *self = Self::new(self.marks);
        }
    }

    /// Lets time pass.
    pub fn on_deadline(&mut self, now: Mono) {
        self.conservative_until.take_if(|until| now >= *until);
    }

    /// The node is leaving: there is no later time for the normal lane to wait for.
    pub fn on_leave(&mut self) {
        self.conservative_until = None;
    }

    /// When conservative mode ends by itself.
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
        Pressure::new(Marks {
            drop: limits::OUTBOX_MESSAGES_MAX,
            reroute: plimsoll_schemas::limits::delivery::REROUTE_MESSAGES,
            leave: limits::LEAVE_MESSAGES,
            conservative_max: limits::CONSERVATIVE_MAX,
        })
    }

    #[test]
    fn each_mark_is_exact_and_dropping_is_tested_first() {
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
        /// Depths wander; a state changes only where its marks allow, and the mode always ends.
        #[test]
        fn no_state_changes_between_its_marks(
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
