//! Decodes a message's subject and payload. A message that cannot be decoded costs itself alone.

use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::subject::{SnapshotSubject, SubjectError};
use plimsoll_schemas::transport::Delivered;
use plimsoll_schemas::wire::{self, Snapshot};

/// A message that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Why, as a label.
    pub reason: &'static str,
    /// Why, as a text.
    pub text: String,
    /// How many there have been for this reason.
    pub count: u64,
}

pub(super) fn decode(message: &Delivered) -> Result<Snapshot<Packed>, Unreadable> {
    let refuse = |reason, text| Unreadable { reason, text, count: 0 };
    let subject: SnapshotSubject = message
        .subject
        .parse()
        .map_err(|error: SubjectError| refuse("subject", error.to_string()))?;
    wire::decode_packed(&subject, &message.payload)
        .map_err(|error| refuse(error.reason(), error.to_string()))
}
