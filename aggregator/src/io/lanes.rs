//! Both lanes as one source: the emergency lane first, the normal one never starved.
//!
//! DESIGN A16.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::limits::EMERGENCY_IN_A_ROW_MAX;
use plimsoll_bus::Cursor;
use plimsoll_schemas::subject::Lane;

use super::decoders::{DecodedLane, Decoders, LaneEvent};

/// Which lane is read next: the emergency lane, until it has had so many messages in a row that one
/// of the normal lane comes between. An empty lane delays nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    in_a_row: u32,
}

impl Turns {
    /// The order in which lanes are polled; `preferred` is first if there is one.
    #[must_use]
    pub fn order(self, preferred: Option<Lane>) -> [Lane; 2] {
        let normal = match preferred {
            Some(lane) => lane == Lane::Normal,
            None => self.in_a_row >= EMERGENCY_IN_A_ROW_MAX,
        };
        if normal { [Lane::Normal, Lane::Emergency] } else { [Lane::Emergency, Lane::Normal] }
    }

    /// A message of this lane was read.
    pub fn on_read(&mut self, lane: Lane) {
        self.in_a_row = match lane {
            Lane::Normal => 0,
            Lane::Emergency => self.in_a_row.saturating_add(1),
        };
    }
}

/// Both lanes, whose messages come decoded.
#[derive(Debug)]
pub struct Lanes {
    emergency: DecodedLane,
    normal: DecodedLane,
    turns: Turns,
}

impl Lanes {
    /// Reads both lanes with the cursors that `open` returns.
    #[must_use]
    pub fn open(open: impl Fn(Lane) -> Cursor, decoders: &Decoders) -> Self {
        Self {
            emergency: DecodedLane::start(open(Lane::Emergency), decoders),
            normal: DecodedLane::start(open(Lane::Normal), decoders),
            turns: Turns::default(),
        }
    }

    /// The next event of either lane, of `preferred` if it has one; `None` once either is closed.
    /// Cancel safe.
    pub async fn next(&mut self, preferred: Option<Lane>) -> Option<(Lane, LaneEvent)> {
        let order = self.turns.order(preferred);
        let mut emergency = pin!(self.emergency.next());
        let mut normal = pin!(self.normal.next());
        let event = poll_fn(|context| {
            for lane in order {
                let polled = match lane {
                    Lane::Emergency => emergency.as_mut().poll(context),
                    Lane::Normal => normal.as_mut().poll(context),
                };
                if let Poll::Ready(event) = polled {
                    return Poll::Ready(event.map(|event| (lane, event)));
                }
            }
            Poll::Pending
        })
        .await;
        if let Some((lane, _)) = &event {
            self.turns.on_read(*lane);
        }
        event
    }

    /// An event that has already arrived, in the same order.
    pub fn ready(&mut self, preferred: Option<Lane>) -> Option<(Lane, LaneEvent)> {
        let taken = self.turns.order(preferred).into_iter().find_map(|lane| {
            let cursor = match lane {
                Lane::Emergency => &mut self.emergency,
                Lane::Normal => &mut self.normal,
            };
            Some((lane, cursor.ready()?))
        })?;
        self.turns.on_read(taken.0);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes one message, as `Lanes::next` does; `None` when neither lane has one.
    fn take(turns: &mut Turns, waiting: &mut [u32; 2]) -> Option<Lane> {
        let lane = turns.order(None).into_iter().find(|lane| waiting[*lane as usize] > 0)?;
        waiting[lane as usize] -= 1;
        turns.on_read(lane);
        Some(lane)
    }

    #[test]
    fn the_emergency_lane_is_first_but_for_every_seventeenth_message() {
        let (mut turns, mut waiting) = (Turns::default(), [2, 34]);
        let taken: Vec<Lane> = std::iter::from_fn(|| take(&mut turns, &mut waiting)).collect();
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
                    let Some(lane) = take(&mut turns, &mut waiting) else { break };
                    let other = 1 - lane as usize;
                    passed_by[lane as usize] = 0;
                    passed_by[other] = if before[other] > 0 { passed_by[other] + 1 } else { 0 };
                    prop_assert!(passed_by[0] <= EMERGENCY_IN_A_ROW_MAX, "normal starves");
                    prop_assert!(passed_by[1] <= 1, "emergency waits for more than one");
                }
            }
        }
    }
}
