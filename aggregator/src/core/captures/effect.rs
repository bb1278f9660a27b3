//! What captures need done: requests to nodes, files, and differences of two profiles.

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::ids::{Labels, NodeName};
use plimsoll_schemas::labelled;
use plimsoll_schemas::summary::ProfileRow;
use plimsoll_schemas::wire::capture::{CaptureId, CaptureStep};

/// To be done off the driver's thread; what came of it is reported back.
#[derive(Clone, Debug, PartialEq)]
pub enum CaptureEffect {
    /// To send a request; see `Captures::on_response`.
    Request { id: CaptureId, node: NodeName, step: CaptureStep },
    /// To store a profile; see `Captures::on_stored`.
    Store { id: CaptureId, row: Box<ProfileRow>, bytes: Vec<u8> },
    /// To subtract the profile of a peer; what is found belongs to the alert.
    Compare(ComparedPair),
}

/// The process of a node that sends an operation with these labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureTarget {
    pub node: NodeName,
    pub labels: Labels,
}

/// The profiles of a node at fault and of its peer, both stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedPair {
    pub alert: AlertKey,
    pub culprit: CaptureId,
    pub peer: CaptureId,
    pub culprit_labels: Labels,
    pub peer_target: CaptureTarget,
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
