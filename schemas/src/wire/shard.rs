//! A shard's report: what an aggregator has merged of its nodes since its message before, for the
//! aggregator above it, and up to where it has read. Both are one message, so that a process that
//! goes on reading after another one knows what was reported.
//!
//! DESIGN S85.

use serde::{Deserialize, Serialize};

use super::error::WireError;
use super::latency::LatencyBody;
use super::snapshot::{ReadPosition, ShardReport, ShardSlot};
use crate::histogram::Distribution;
use crate::ids::Labels;
use crate::limits::wire::{SHARD_SLOTS_MAX, STREAM_ID_BYTES_MAX};
use crate::time::Wall;

/// The body as encoded in the message.
#[derive(Serialize, Deserialize)]
pub(super) struct ShardBody<'a> {
    read: Vec<ReadPosition>,
    #[serde(borrow)]
    slots: Vec<SlotBody<'a>>,
}

#[derive(Serialize, Deserialize)]
struct SlotBody<'a> {
    taken_ns: u64,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    labels: Labels,
    #[serde(borrow)]
    latency: LatencyBody<'a>,
}

impl<'a> ShardBody<'a> {
    pub(super) fn of(report: &'a ShardReport) -> Self {
        let slot = |slot: &'a ShardSlot| SlotBody {
            taken_ns: slot.taken.0,
            labels: slot.labels.clone(),
            latency: LatencyBody::of(&slot.latency),
        };
        Self { read: report.read.clone(), slots: report.slots.iter().map(slot).collect() }
    }

    pub(super) fn check<H: Distribution>(self) -> Result<ShardReport<H>, WireError> {
        let is_sound = |(place, of): (usize, &ReadPosition)| {
            let is_first = self.read[..place].iter().all(|other| other.lane != of.lane);
            let text = &of.stream_id;
            is_first
                && text.len() <= STREAM_ID_BYTES_MAX
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };

        if !self.read.iter().enumerate().all(is_sound) {
            return Err(WireError::Bounds { field: "read" });
        }
        if self.slots.len() > SHARD_SLOTS_MAX
            || self.slots.iter().any(|slot| slot.taken_ns >= u64::MAX / 2)
        {
            return Err(WireError::Bounds { field: "slots" });
        }

        let slot = |slot: SlotBody<'_>| {
            let SlotBody { taken_ns, labels, latency } = slot;
            Ok(ShardSlot { taken: Wall(taken_ns), labels, latency: latency.check()? })
        };

        Ok(ShardReport {
            slots: self.slots.into_iter().map(slot).collect::<Result<_, WireError>>()?,
            read: self.read,
        })
    }
}
