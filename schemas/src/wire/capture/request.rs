//! A request to a node: an order, or a chunk of what an order brought.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteArray;

use super::id::CaptureId;
use super::kind::{CaptureKind, PastRange};
use super::versioned::{decode, encode};
use crate::ids::{Labels, MeshName, NodeName, Operation, RuleName};
use crate::limits::wire::{
    CAPTURE_HZ_MAX, CAPTURE_REQUEST_BYTES_MAX, CAPTURE_SECONDS_MAX, CONTINUOUS_INTERVAL_SECONDS,
    CONTINUOUS_SECONDS, SIGNATURE_BYTES,
};
use crate::time::Wall;
use crate::wire::error::WireError;
use crate::wire::history::is_asker;
use crate::wire::signature::{ConfirmKey, Purpose};

/// Time in which an order may start, from its instant on.
const LATEST_AFTER: Duration = Duration::from_secs(600);

/// A request to one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// Chosen by the aggregator; the response repeats it.
    pub number: u64,
    /// Last token of the subject of the response.
    pub asker: String,
    /// The only node that it is for.
    pub node: NodeName,
    /// The capture that it is about.
    pub id: CaptureId,
    /// What is requested.
    pub step: CaptureStep,
}

/// What is requested of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureStep {
    /// Capture, or report the state if it is known already.
    Order(CaptureOrder),
    /// A part of the profile's bytes; empty beyond its end.
    Chunk(u32),
    /// End it now and keep what was taken, and report the state. An earlier version does not
    /// respond.
    Stop,
}

/// What to capture, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureOrder {
    /// What is measured.
    #[serde(default, skip_serializing_if = "CaptureKind::is_cpu")]
    pub kind: CaptureKind,
    /// Whether stacks have native frames too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub native: bool,
    /// The stretch that is asked for; only with [`CaptureKind::Past`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<PastRange>,
    /// Of which process; of the past all, unless it is named. [`CaptureKind::Continuous`] names
    /// none: it records what the node watches.
    pub process: ProcessSelector,
    /// Its length.
    pub seconds: u32,
    /// From the start of one profile of 10 s to the next; only with [`CaptureKind::Continuous`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u32>,
    /// Samples a second.
    pub hz: u32,
    /// By the node's clock: one instant for all nodes that are compared.
    #[serde(rename = "start_at_ns")]
    pub start_at: Wall,
    /// From when on a node no longer starts it.
    #[serde(rename = "expires_at_ns")]
    pub expires_at: Wall,
    /// The rule whose alert caused it; `None` when an operator did.
    #[serde(default)]
    pub rule: Option<RuleName>,
}

/// The process with this number, or the one that sends this operation with these labels; one of
/// the two is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSelector {
    /// Its number on the node.
    #[serde(default)]
    pub pid: Option<u32>,
    /// What it sends.
    #[serde(default)]
    pub operation: Option<Operation>,
    /// Labels that its samples have, perhaps among others.
    #[serde(default)]
    pub labels: Labels,
}

impl CaptureRequest {
    /// The signed bytes of the request.
    #[must_use]
    pub fn encode(&self, mesh: &MeshName, key: &ConfirmKey) -> Vec<u8> {
        let mut bytes = encode(self, Some(ByteArray::new([0; SIGNATURE_BYTES])));
        key.sign(Purpose::Capture, mesh, &mut bytes);
        bytes
    }

    /// Reads a request; its signature is checked by [`ConfirmKey::verify`].
    ///
    /// # Errors
    /// On anything that is not exactly one well-formed request.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let request: Self = decode(bytes, CAPTURE_REQUEST_BYTES_MAX)?;
        if !is_asker(&request.asker) {
            return Err(WireError::Bounds { field: "asker" });
        }
        if let CaptureStep::Order(order) = &request.step {
            order.check()?;
        }
        Ok(request)
    }
}

impl CaptureOrder {
    /// Whether this is the same order again. That of an alert may have another instant: each
    /// aggregator of a pair chooses one when it finds the breach.
    #[must_use]
    pub fn is_repeated_by(&self, other: &Self) -> bool {
        let (start_at, expires_at) = (self.start_at, self.expires_at);
        let at_own_instant = || Self { start_at, expires_at, ..other.clone() };
        self == other || (self.rule.is_some() && *self == at_own_instant())
    }

    /// Checks what an aggregator sends and a node receives.
    ///
    /// # Errors
    /// When a value is out of its bounds.
    pub fn check(&self) -> Result<(), WireError> {
        const HZ: RangeInclusive<u32> = 1..=CAPTURE_HZ_MAX;
        let ProcessSelector { pid, operation, labels } = &self.process;
        let latest = self.start_at.plus(LATEST_AFTER);

        // Numbers of processes are positive `i32`.
        let is_pid = pid.is_none_or(|pid| (1..=i32::MAX.cast_unsigned()).contains(&pid));
        let is_one = pid.is_some() != operation.is_some() && (pid.is_none() || labels.is_empty());
        let is_all = self.process == ProcessSelector::default();
        let is_range = self.past.is_some_and(|PastRange { from, to }| from < to);
        let is_continuous = self.kind == CaptureKind::Continuous;
        let (is_process, is_past) = match self.kind {
            CaptureKind::Past => (is_one || is_all, is_range),
            CaptureKind::Continuous => (is_all, self.past.is_none()),
            CaptureKind::Cpu | CaptureKind::Memory | CaptureKind::Trace => {
                (is_one, self.past.is_none())
            }
        };
        let seconds = if is_continuous { CONTINUOUS_SECONDS } else { 1..=CAPTURE_SECONDS_MAX };
        let is_interval =
            |every: u32| is_continuous && CONTINUOUS_INTERVAL_SECONDS.contains(&every);

        for (is_within, field) in [
            (is_pid, "pid"),
            (is_process, "process"),
            (is_past, "past"),
            (seconds.contains(&self.seconds), "seconds"),
            (self.interval_seconds.is_none_or(is_interval), "interval_seconds"),
            (HZ.contains(&self.hz), "hz"),
            (self.expires_at > self.start_at && self.expires_at <= latest, "expires_at_ns"),
        ] {
            if !is_within {
                return Err(WireError::Bounds { field });
            }
        }
        Ok(())
    }
}
