//! Groups beside a naive model of them, and roll-ups that samples do not belong to.

use std::collections::BTreeMap;

use crate::limits::{IDLE_AFTER_MAX, IDLE_AFTER_MIN, ROLLUP_GROUPS_MAX};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::nanos;
use proptest::prelude::*;

use super::*;
use crate::core::fleet::operations::OVERFLOW;
use crate::core::fleet::window::Limits;

fn retention() -> Retention {
    Retention { up_to: Window::FiveMinutes, limits: Limits::default() }.of_fleet()
}

fn group(value: &str) -> Group {
    Group { operation: Operation::new("op").unwrap(), values: vec![value.into()] }
}

/// When samples of each value first and last arrived.
#[derive(Default)]
struct Model(BTreeMap<String, (u64, u64)>);

impl Model {
    fn place(&mut self, value: &str, now: u64) -> bool {
        if value == OVERFLOW {
            return true;
        }
        if self.0.len() >= ROLLUP_GROUPS_MAX && !self.0.contains_key(value) {
            return false;
        }
        self.0.entry(value.to_owned()).or_insert((now, now)).1 = now;
        true
    }

    fn expire(&mut self, now: u64) -> u64 {
        let before = self.0.len();
        while self.0.len() > ROLLUP_GROUPS_MAX * 4 / 5 {
            let is_idle = |(began, touched): &(u64, u64)| {
                let patience = (touched - began).max(nanos(IDLE_AFTER_MIN));
                now - touched >= patience.min(nanos(IDLE_AFTER_MAX))
            };
            let idle = self.0.iter().filter(|(_, times)| is_idle(times));
            let Some((longest, _)) = idle.min_by_key(|(_, (_, touched))| *touched) else { break };
            let longest = longest.clone();
            self.0.remove(&longest);
        }
        (before - self.0.len()) as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn groups_are_placed_as_by_a_model_of_their_times(
        steps in prop::collection::vec((0..400_u64, 0..20_u64), 300..1_500),
    ) {
        let (mut groups, mut model) = (Groups::default(), Model::default());
        let (node, mut shares) = (NodeName::new("a").unwrap(), Shares::default());
        let (mut now, packed, retention) = (1_000, Packed::default(), retention());
        let batch = Batch::new(&packed, &retention.limits);
        for (value, tens) in steps {
            // Mostly no pause, so that groups can be full of busy ones too.
            now += if tens < 3 { tens * 10_000_000_000 } else { tens };
            let value = if value == 399 { OVERFLOW.to_owned() } else { value.to_string() };
            let Place { windows, is_own, .. } =
                groups.place(group(&value), &retention, &node, &mut shares);
            let at = Wall(now);
            windows.add(Times { shown: at, now: at, taken: at }, &batch);
            prop_assert_eq!(is_own, model.place(&value, now), "{} at {}", value, now);
            prop_assert_eq!(groups.expire(at, at, &mut shares), model.expire(now));
            prop_assert_eq!(groups.own_len(), model.0.len());
        }
        prop_assert!(groups.len() <= ROLLUP_GROUPS_MAX + 1);
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
    let add = |rollups: &mut Rollups, of_series: &[(&str, &str)]| {
        let labels = Labels::new(of_series.iter().copied()).unwrap();
        let series = Series { operation: Operation::new("op").unwrap(), labels };
        let of_node = Labels::new([("rack", "r1"), ("role", "")]).unwrap();
        let batch = Batch::new(&packed, &retention.limits);
        let from = Bringer { node: &NodeName::new("a").unwrap(), labels: &of_node };
        rollups.add(&series, from, &mut GroupShares::default(), &retention, times, &batch)
    };
    let shared = |rollups: &Rollups| -> Vec<bool> {
        rollups.all.iter().zip(&view.all).map(|(now, then)| Arc::ptr_eq(now, then)).collect()
    };
    let mut lost = add(&mut rollups, &[("outcome", "hit"), ("run", "")]);
    rollups.expire(Wall(10_000_000_000), Wall(0), &mut GroupShares::default());
    assert_eq!(shared(&rollups), [true, true, true]);
    lost += add(&mut rollups, &[("rank", "3")]);
    assert_eq!(shared(&rollups), [true, false, true]);
    assert_eq!(lost, RollupLimits::default());
}

#[test]
fn a_node_with_all_groups_gives_up_its_oldest_for_another_nodes_new_ones() {
    let (mut groups, mut shares) = (Groups::default(), Shares::default());
    let (packed, retention) = (Packed::default(), retention());
    let batch = Batch::new(&packed, &retention.limits);
    let mut place = |node: &str, value: &str, now: u64| {
        let node = NodeName::new(node).unwrap();
        let Place { windows, is_own, evicted } =
            groups.place(group(value), &retention, &node, &mut shares);
        windows.add(Times { shown: Wall(now), now: Wall(now), taken: Wall(now) }, &batch);
        (is_own, evicted)
    };
    for n in 0..300 {
        assert_eq!(place("loud", &format!("l{n}"), n), (n < 256, 0));
    }

    assert_eq!(place("a", "a0", 1_000), (true, 1), "the place of l0");
    assert_eq!(place("loud", "l0", 1_001), (false, 0), "it has more than others");
    assert_eq!(place("loud", "l1", 1_002), (true, 0), "what it keeps goes on");
    for n in 1..128 {
        assert_eq!(place("a", &format!("a{n}"), 2_000), (true, 1));
    }
    assert_eq!(place("a", "a128", 2_000), (false, 0), "both have as many");
    assert_eq!(place("b", "b0", 2_000), (true, 1), "each of both has more than the third");
}
