//! Groups beside a naive model of them, and roll-ups that samples do not belong to.

use std::collections::BTreeMap;

use crate::limits::{ROLLUP_GROUP_IDLE, ROLLUP_GROUPS_MAX};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::nanos;
use proptest::prelude::*;

use super::*;
use crate::core::fleet::operations::OVERFLOW;
use crate::core::fleet::window::Limits;

fn retention() -> Retention {
    Retention { up_to: Window::FiveMinutes, limits: Limits::default() }
}

fn group(value: &str) -> Group {
    Group { operation: Operation::new("op").unwrap(), values: vec![value.into()] }
}

/// When each value was last placed; no bound is remembered.
#[derive(Default)]
struct Model(BTreeMap<String, u64>);

impl Model {
    fn place(&mut self, value: &str, now: u64) -> Placed {
        let is_full = self.0.len() >= ROLLUP_GROUPS_MAX;
        let mut placed = Placed::Own;
        if value == OVERFLOW {
            return placed;
        }
        if is_full && !self.0.contains_key(value) {
            let longest = self.0.iter().min_by_key(|(_, at)| **at);
            let (longest, at) = longest.map(|(name, at)| (name.clone(), *at)).unwrap();
            if now < at + nanos(ROLLUP_GROUP_IDLE) {
                return Placed::WithOthers;
            }
            self.0.remove(&longest);
            placed = Placed::AfterEviction;
        }
        let at = self.0.entry(value.to_owned()).or_default();
        *at = now.max(*at);
        placed
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn groups_are_placed_as_by_a_model_that_searches_all_of_them_each_time(
        steps in prop::collection::vec((0..400_u64, 0..20_u64), 300..1_500),
    ) {
        let (mut groups, mut model) = (Groups::default(), Model::default());
        let mut now = 1_000;
        for (value, minutes) in steps {
            // Mostly no pause, so that groups can be full of busy ones too.
            now += if minutes < 3 { minutes * 6 * 60_000_000_000 } else { minutes };
            let value = if value == 399 { OVERFLOW.to_owned() } else { value.to_string() };
            let (_, placed) = groups.place(group(&value), Wall(now), &retention());
            prop_assert_eq!(placed, model.place(&value, now), "{} at {}", value, now);
            let own = groups.iter().filter(|(group, _)| &*group.values[0] != OVERFLOW);
            prop_assert_eq!(own.count(), model.0.len());
        }
        prop_assert!(groups.len() <= ROLLUP_GROUPS_MAX + 1);
        groups.turn_back(Wall(0));
        let (_, placed) = groups.place(group("new"), Wall(nanos(ROLLUP_GROUP_IDLE)), &retention());
        prop_assert_ne!(placed, Placed::WithOthers, "the clock was set back behind all of them");
    }
}

#[test]
fn samples_without_the_label_leave_a_roll_up_and_its_copies_untouched() {
    let definitions = ["run", "rank", "role"].map(Definition::of_label);
    let mut rollups = Rollups::default().redefined(&definitions);
    let view = rollups.clone();
    let mut one = Histogram::default();
    one.record(5);
    let (packed, retention) = (Packed::from(&one), retention());
    let times = Times { shown: Wall(9), now: Wall(9), taken: Wall(9) };
    let mut losses = GroupLosses::default();
    let mut add = |rollups: &mut Rollups, of_series: &[(&str, &str)]| {
        let labels = Labels::new(of_series.iter().copied()).unwrap();
        let series = Series { operation: Operation::new("op").unwrap(), labels };
        let of_node = Labels::new([("rack", "r1"), ("role", "")]).unwrap();
        let batch = Batch::new(&packed, &retention.limits);
        rollups.add(&series, &of_node, (&retention, times), &batch, &mut losses);
    };
    let shared = |rollups: &Rollups| -> Vec<bool> {
        rollups.all.iter().zip(&view.all).map(|(now, then)| Arc::ptr_eq(now, then)).collect()
    };
    add(&mut rollups, &[("outcome", "hit"), ("run", "")]);
    rollups.expire(Wall(10_000_000_000));
    assert_eq!(shared(&rollups), [true, true, true]);
    add(&mut rollups, &[("rank", "3")]);
    assert_eq!(shared(&rollups), [true, false, true]);
    assert_eq!(losses, GroupLosses::default());
}
