//! How far the emergency lane may be read ahead of the normal one.

use std::collections::VecDeque;

use plimsoll_schemas::subject::Lane;

use super::*;
use crate::core::ingest::{LaneOrder, Turns};
use crate::limits::{LANE_AWAITED, SEQ_HOLES_MAX};

/// Two hours of a node that sends every third message by the emergency lane.
const MESSAGES: u64 = 3 * 3_600;

#[test]
fn a_core_without_a_past_merges_every_message_of_a_node_that_uses_both_lanes_for_hours() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let mut waiting = [VecDeque::new(), VecDeque::new()];
    for n in 0..MESSAGES {
        let lane = if n % 3 == 0 { Lane::Emergency } else { Lane::Normal };
        waiting[lane as usize].push_back(speaker.send(start(), MS, 1));
    }

    let mut turns = Turns::default();
    let mut read = Vec::new();
    loop {
        let order = turns.order(core.lane_order());
        let Some(lane) = order.into_iter().find(|lane| !waiting[*lane as usize].is_empty()) else {
            break;
        };
        turns.on_read(lane);
        read.push(lane);
        deliver_in(&mut core, start(), lane, &waiting[lane as usize].pop_front().unwrap());
    }
    let counts = &core.fleet.counts;
    assert_eq!((counts.duplicates, counts.merged.values().sum::<u64>()), (0, MESSAGES));
    let urgent = read[..500].iter().filter(|lane| **lane == Lane::Emergency).count();
    assert!(urgent > 450, "what is urgent goes first until there are many gaps: {urgent}");
}

#[test]
fn the_emergency_lane_waits_for_a_normal_one_that_opens_late_and_not_for_long() {
    let mut core = Core::new(MeshName::new("m").unwrap(), Rules::default(), start());
    core.on_bus_event(start().mono, &connected());
    core.on_positioned(Lane::Emergency, 1, MESSAGES, "s1");

    let mut speaker = Speaker::new("a");
    let mut read = 0;
    while core.lane_order() == LaneOrder::Mostly(Lane::Emergency) {
        let _goes_by_the_normal_lane = speaker.send(start(), MS, 1);
        deliver_in(&mut core, start(), Lane::Emergency, &speaker.send(start(), MS, 1));
        read += 1;
    }
    assert_eq!(core.lane_order(), LaneOrder::Only(Lane::Normal));
    assert!(read < SEQ_HOLES_MAX, "no gap is given up: {read}");

    core.on_deadline(start().after(LANE_AWAITED));
    assert_eq!(core.lane_order(), LaneOrder::Mostly(Lane::Normal));
}
