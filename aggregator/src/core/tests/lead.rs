//! How far the emergency lane may be read ahead of the normal one.

use std::collections::VecDeque;

use plimsoll_schemas::subject::Lane;

use super::*;
use crate::core::ingest::Turns;

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
    let counts = core.fleet.counts();
    assert_eq!((counts.duplicates, counts.merged.values().sum::<u64>()), (0, MESSAGES));
    let urgent = read[..500].iter().filter(|lane| **lane == Lane::Emergency).count();
    assert!(urgent > 450, "what is urgent goes first until there are many gaps: {urgent}");
}
