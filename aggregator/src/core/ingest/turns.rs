//! Which lane is read next: the emergency lane first, the normal one never starved.
//!
//! DESIGN A16.

use plimsoll_schemas::subject::Lane;

use crate::limits::LANE_IN_A_ROW_MAX;

/// Which lane is read next of two that have messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneOrder {
    /// This one, and the other if it has none.
    First(Lane),
    /// This one, until it had 16 in a row, and then one of the other.
    Mostly(Lane),
    /// This one, also if it has none yet.
    Only(Lane),
}

/// Whose turn it is: how many messages of one lane were read in a row. An empty lane delays
/// nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    latest: Option<Lane>,
    in_a_row: u32,
}

impl Turns {
    /// The order in which lanes are polled.
    pub fn order(self, order: LaneOrder) -> impl Iterator<Item = Lane> + Clone {
        let (LaneOrder::First(first) | LaneOrder::Mostly(first) | LaneOrder::Only(first)) = order;
        let is_long = self.latest == Some(first) && self.in_a_row >= LANE_IN_A_ROW_MAX;
        let other = match first {
            Lane::Normal => Lane::Emergency,
            Lane::Emergency => Lane::Normal,
        };

        let polled = match order {
            LaneOrder::Mostly(_) if is_long => [Some(other), Some(first)],
            LaneOrder::Only(_) => [Some(first), None],
            LaneOrder::First(_) | LaneOrder::Mostly(_) => [Some(first), Some(other)],
        };
        polled.into_iter().flatten()
    }

    pub fn on_read(&mut self, lane: Lane) {
        let is_same = self.latest.replace(lane) == Some(lane);
        self.in_a_row = if is_same { self.in_a_row.saturating_add(1) } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes one message, as `Lanes::next` does; `None` when neither lane has one.
    fn take(turns: &mut Turns, first: Lane, waiting: &mut [u32; 2]) -> Option<Lane> {
        let lane =
            turns.order(LaneOrder::Mostly(first)).find(|lane| waiting[*lane as usize] > 0)?;
        waiting[lane as usize] -= 1;
        turns.on_read(lane);
        Some(lane)
    }

    #[test]
    fn the_emergency_lane_is_first_but_for_every_seventeenth_message() {
        let (mut turns, mut waiting) = (Turns::default(), [2, 34]);
        let taken: Vec<Lane> =
            std::iter::from_fn(|| take(&mut turns, Lane::Emergency, &mut waiting)).collect();
        let sixteen = [Lane::Emergency; 16];
        let one = [Lane::Normal];
        let two = [Lane::Emergency; 2];
        assert_eq!(taken, [&sixteen[..], &one, &sixteen, &one, &two].concat());
    }

    proptest! {
        #[test]
        fn neither_lane_is_starved(
            arrivals in prop::collection::vec((0..3_u32, 0..40_u32), 1..60),
        ) {
            let (mut turns, mut waiting, mut passed_by) = (Turns::default(), [0, 0], [0, 0]);
            for (normal, emergency) in arrivals {
                waiting[0] += normal;
                waiting[1] += emergency;
                for _ in 0..20 {
                    let before = waiting;
                    let Some(lane) = take(&mut turns, Lane::Emergency, &mut waiting) else { break };
                    let other = 1 - lane as usize;
                    passed_by[lane as usize] = 0;
                    passed_by[other] = if before[other] > 0 { passed_by[other] + 1 } else { 0 };
                    prop_assert!(passed_by[0] <= LANE_IN_A_ROW_MAX, "normal starves");
                    prop_assert!(passed_by[1] <= 1, "emergency waits for more than one");
                }
            }
        }
    }
}
