//! Both lanes as one source: the emergency lane first, the normal one never starved.
//!
//! DESIGN A16.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::core::ingest::{LaneOrder, Turns};
use plimsoll_bus::Cursor;
use plimsoll_schemas::subject::Lane;

use super::decoders::{DecodedLane, Decoders, LaneEvent};

/// Both lanes, whose messages come decoded.
#[derive(Debug)]
pub struct Lanes {
    emergency: DecodedLane,
    normal: DecodedLane,
    turns: Turns,
}

impl Lanes {
    /// Reads both lanes with the cursors that `open` returns.
    pub fn open(open: impl Fn(Lane) -> Cursor, decoders: &Decoders) -> Self {
        Self {
            emergency: DecodedLane::start(open(Lane::Emergency), decoders),
            normal: DecodedLane::start(open(Lane::Normal), decoders),
            turns: Turns::default(),
        }
    }

    /// The next event of either lane; `None` once either is closed. Cancel safe.
    pub async fn next(&mut self, order: LaneOrder) -> Option<(Lane, LaneEvent)> {
        let order = self.turns.order(order);
        let mut emergency = pin!(self.emergency.next());
        let mut normal = pin!(self.normal.next());

        let event = poll_fn(|context| {
            for lane in order.clone() {
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
    pub fn ready(&mut self, order: LaneOrder) -> Option<(Lane, LaneEvent)> {
        let taken = self.turns.order(order).find_map(|lane| {
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
