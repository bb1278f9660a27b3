//! What the room asks the driver to do, and how captures end.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::labelled;
use plimsoll_schemas::summary::{ProfileRow, ProfileState};
use plimsoll_schemas::wire::capture::{CaptureId, CaptureStep};

use super::breach::CapturePair;

/// The captures of the two processes of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedPair {
    pub of: CapturePair,
    pub culprit: CaptureId,
    pub peer: CaptureId,
}

/// To be done off the driver's thread; what came of it is reported back.
#[derive(Clone, Debug, PartialEq)]
pub enum CaptureEffect {
    /// To send a request; see [`Captures::on_response`].
    Request { id: CaptureId, node: NodeName, step: CaptureStep },
    /// To store a profile; see [`Captures::on_stored`].
    Store { row: Box<ProfileRow>, bytes: Vec<u8> },
    /// To add a profile to a sum; see [`Captures::on_stored`] of the part.
    Add { sum: CaptureId, part: CaptureId, bytes: Vec<u8> },
    /// To store what was added; see [`Captures::on_stored`].
    StoreSum(Box<ProfileRow>),
    /// To subtract the profile of a peer; what is found belongs to the alert.
    Compare(OrderedPair),
}

labelled! {
    /// Why a request has no response.
    pub enum RequestError {
        /// None came in time, or the request could not be sent.
        NoResponse = "no_response",
        /// Its bytes are none.
        Invalid = "invalid_response",
    }
}

/// How a capture ended, and why, in one word; empty if a profile is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaptureEnd {
    pub state: ProfileState,
    pub reason: &'static str,
}

/// Ordered equals the sum of all ends and those that run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureLedger {
    pub ordered: u64,
    pub ended: BTreeMap<CaptureEnd, u64>,
}

impl CaptureLedger {
    /// Captures without an end.
    pub fn running(&self) -> u64 {
        self.ordered - self.ended.values().sum::<u64>()
    }
}
