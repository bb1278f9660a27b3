//! What the load of the outbox does to new messages: nothing, then the newest go by the emergency
//! lane, then readings are dropped. Whichever of depth, bytes and age is worst decides. Each state
//! starts at a high watermark and ends at a low one, so none flaps.
//!
//! DESIGN N10.

use std::time::Duration;

use crate::limits::{CONSERVATIVE_MAX, OUTBOX_AGE_MAX, RECOVER_MESSAGES};
use plimsoll_schemas::limits::delivery::{REROUTE_MESSAGES, REROUTE_PRESSURE};
use plimsoll_schemas::time::Mono;

/// [`Pressure::level`] at which rerouting begins.
const REROUTE_LEVEL: u64 = REROUTE_PRESSURE;
/// The same for dropping.
const DROP_LEVEL: u64 = 1_000_000;
/// Part of the greatest bytes and age at which every state ends: as 1 000 of 8 000 messages.
const RECOVER_PART: u32 = 8;

/// What the outbox holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxLoad {
    /// Messages as they were produced: one that stands for 40 merged ones counts 40.
    pub depth: u64,
    /// Their bytes.
    pub bytes: usize,
    /// The age of the oldest.
    pub age: Duration,
}

/// The loads at which states start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Depth from which readings are dropped.
    pub drop: u64,
    /// Depth from which the newest messages go by the emergency lane.
    pub reroute: u64,
    /// Low watermark: every state ends at this depth.
    pub recover: u64,
    /// Bytes that there is room for: half of them are as `reroute`, an eighth as `recover`.
    pub bytes_max: usize,
    /// Longest time for which only the emergency lane is sent.
    pub conservative_max: Duration,
}

impl Thresholds {
    /// The thresholds of an outbox with room for `drop` messages and `bytes_max` bytes. A small one
    /// reroutes no later than it drops, and ends both at a quarter of that depth.
    pub fn of(drop: u64, bytes_max: usize) -> Self {
        let reroute = drop.min(REROUTE_MESSAGES as u64);
        let recover = reroute * RECOVER_MESSAGES as u64 / REROUTE_MESSAGES as u64;
        Self { drop, reroute, recover, bytes_max, conservative_max: CONSERVATIVE_MAX }
    }

    /// How far the worst of depth, bytes and age is on the way to its mark, in millionths: half
    /// of them where rerouting begins, all where dropping begins.
    pub fn level(&self, load: OutboxLoad) -> u64 {
        let share = |part: u128, whole: u128| {
            u64::try_from(part * u128::from(DROP_LEVEL) / whole.max(1)).unwrap_or(u64::MAX)
        };

        // Two lines that meet at the mark of rerouting, so that half is always where that starts.
        let depth = match load.depth.checked_sub(self.reroute) {
            None => share(load.depth.into(), u128::from(self.reroute) * 2),
            Some(beyond) => {
                let until_drop = u128::from(self.drop.saturating_sub(self.reroute)) * 2;
                REROUTE_LEVEL.saturating_add(share(beyond.into(), until_drop))
            }
        };

        let bytes = share(load.bytes as u128, self.bytes_max as u128);
        let age = share(load.age.as_nanos(), OUTBOX_AGE_MAX.as_nanos());
        depth.max(bytes).max(age)
    }

    fn is_low(&self, load: OutboxLoad) -> bool {
        let bytes = self.bytes_max / RECOVER_PART as usize;
        load.depth <= self.recover
            && load.bytes <= bytes
            && load.age <= OUTBOX_AGE_MAX / RECOVER_PART
    }
}

#[derive(Clone, Debug)]
pub struct Pressure {
    thresholds: Thresholds,
    dropping: bool,
    rerouting: bool,
    /// When conservative mode ends, while it lasts.
    conservative_until: Option<Mono>,
    /// True once the load was low again: only then may conservative mode start again, so that it
    /// does not restart as soon as its time is over.
    relaxed: bool,
}

impl Pressure {
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            dropping: false,
            rerouting: false,
            conservative_until: None,
            relaxed: true,
        }
    }

    /// A message was produced, with which the outbox holds `load`.
    pub fn on_produced(&mut self, now: Mono, load: OutboxLoad) {
        self.on_load(load);
        let level = self.thresholds.level(load);

        self.dropping |= level >= DROP_LEVEL;
        if level >= REROUTE_LEVEL {
            self.rerouting = true;
            // Once in each time of pressure: a normal lane that never goes would never empty.
            if std::mem::replace(&mut self.relaxed, false) {
                self.conservative_until = Some(now.plus(self.thresholds.conservative_max));
            }
        }
    }

    /// The load went down.
    pub fn on_load(&mut self, load: OutboxLoad) {
        if self.thresholds.is_low(load) {
            *self = Self::new(self.thresholds);
        }
    }

    /// How far the worst of depth, bytes and age is on its way, see [`Thresholds::level`].
    pub fn level(&self, load: OutboxLoad) -> u64 {
        self.thresholds.level(load)
    }

    pub fn on_deadline(&mut self, now: Mono) {
        self.conservative_until.take_if(|until| now >= *until);
    }

    /// The node is leaving: the normal lane cannot wait any longer.
    pub fn on_leave(&mut self) {
        self.conservative_until = None;
    }

    /// When conservative mode ends by time.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.conservative_until
    }

    /// True while only the emergency lane is sent.
    pub fn is_conservative(&self) -> bool {
        self.conservative_until.is_some()
    }

    /// True while the newest messages may go by the emergency lane.
    pub fn is_rerouting(&self) -> bool {
        self.rerouting
    }

    /// True while readings are dropped, and samples for which there is no room.
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }
}

#[cfg(test)]
mod tests {
    use crate::limits;
    use proptest::prelude::*;

    use super::*;

    fn thresholds() -> Thresholds {
        Thresholds {
            drop: limits::OUTBOX_MESSAGES_MAX as u64,
            reroute: REROUTE_MESSAGES as u64,
            recover: RECOVER_MESSAGES as u64,
            bytes_max: limits::OUTBOX_BYTES_MAX,
            conservative_max: CONSERVATIVE_MAX,
        }
    }

    fn pressure() -> Pressure {
        Pressure::new(thresholds())
    }

    fn deep(depth: u64) -> OutboxLoad {
        OutboxLoad { depth, ..OutboxLoad::default() }
    }

    #[test]
    fn each_threshold_is_exact() {
        let mut pressure = pressure();
        for (depth, rerouting, dropping) in [
            (3_999, false, false),
            (4_000, true, false),
            (1_001, true, false),
            (1_000, false, false),
            (3_999, false, false),
            (8_000, true, true),
            (4_000, true, true),
            (1_001, true, true),
            (1_000, false, false),
            (7_999, true, false),
        ] {
            pressure.on_produced(Mono(0), deep(depth));
            let states = (pressure.is_rerouting(), pressure.is_dropping());
            assert_eq!(states, (rerouting, dropping), "{depth}");
        }
    }

    #[test]
    fn the_worst_of_depth_bytes_and_age_decides() {
        let (max, age_max) = (limits::OUTBOX_BYTES_MAX, OUTBOX_AGE_MAX);
        let large = |bytes| OutboxLoad { bytes, ..deep(10) };
        let old = |age| OutboxLoad { age, ..deep(10) };
        for (load, level) in [
            (deep(0), 0),
            (deep(2_000), 250_000),
            (deep(4_000), 500_000),
            (deep(4_001), 500_125),
            (deep(6_000), 750_000),
            (large(max / 2), 500_000),
            (large(max), 1_000_000),
            (old(age_max / 4), 250_000),
            (old(age_max), 1_000_000),
            (OutboxLoad { depth: 6_000, bytes: max / 2, age: age_max / 4 }, 750_000),
        ] {
            assert_eq!(pressure().level(load), level, "{load:?}");
        }
        for load in [large(max), old(age_max), deep(8_000)] {
            let mut pressure = pressure();
            pressure.on_produced(Mono(0), load);
            assert!(pressure.is_rerouting() && pressure.is_dropping(), "{load:?}");
            pressure.on_load(large(max / 8 + 1));
            pressure.on_load(old(age_max / 8 + Duration::from_nanos(1)));
            assert!(pressure.is_dropping(), "one of them is not low yet");
            pressure.on_load(OutboxLoad { depth: 1_000, bytes: max / 8, age: age_max / 8 });
            assert!(!pressure.is_rerouting() && !pressure.is_dropping());
        }
    }

    #[test]
    fn conservative_mode_ends_by_depth() {
        let mut pressure = pressure();
        pressure.on_produced(Mono(0), deep(4_000));
        pressure.on_load(deep(1_001));
        assert!(pressure.is_conservative());
        pressure.on_load(deep(1_000));
        assert_eq!((pressure.is_conservative(), pressure.is_rerouting()), (false, false));
    }

    #[test]
    fn conservative_mode_ends_after_a_minute_and_begins_anew_only_once_depth_was_low() {
        let mut pressure = pressure();
        pressure.on_produced(Mono(0), deep(4_000));
        let end = Mono(0).plus(CONSERVATIVE_MAX);
        pressure.on_deadline(Mono(end.0 - 1));
        assert!(pressure.is_conservative());
        pressure.on_deadline(end);
        pressure.on_produced(end, deep(7_000));
        assert!(pressure.is_rerouting() && !pressure.is_conservative());
        pressure.on_load(deep(1_000));
        pressure.on_produced(end, deep(4_000));
        assert!(pressure.is_conservative());
    }

    proptest! {
        /// Loads wander; a state changes only at its thresholds, and conservative mode always
        /// ends.
        #[test]
        fn no_state_changes_between_its_thresholds(
            loads in prop::collection::vec((0..9_000_u64, 0..9_u32, 0..9_u32, 0..40_u64), 1..100),
        ) {
            let (mut pressure, mut now, mut began) = (pressure(), Mono(0), None);
            for (depth, bytes, age, seconds) in loads {
                now = now.plus(Duration::from_secs(seconds));
                let before = pressure.clone();
                pressure.on_deadline(now);
                let bytes_held = limits::OUTBOX_BYTES_MAX / 8 * bytes as usize;
                let waited = OUTBOX_AGE_MAX / 8 * age;
                pressure.on_produced(now, OutboxLoad { depth, bytes: bytes_held, age: waited });
                let low = depth <= 1_000 && bytes <= 1 && age <= 1;
                let dropping =
                    !low && (before.dropping || depth >= 8_000 || bytes >= 8 || age >= 8);
                let rerouting =
                    !low && (before.rerouting || depth >= 4_000 || bytes >= 4 || age >= 4);
                prop_assert_eq!((pressure.dropping, pressure.rerouting), (dropping, rerouting));
                if pressure.is_conservative() {
                    let since = *began.get_or_insert(now);
                    prop_assert!(!low && now.since(since) < CONSERVATIVE_MAX);
                } else {
                    began = None;
                }
            }
        }
    }
}
