//! Decodes a message's subject and payload. A message that cannot be decoded costs itself alone.
//!
//! What is decoded depends on the message alone, so any thread may do it, in any order.
//!
//! DESIGN A66, A151.

use crate::limits::INCARNATION_AHEAD_MAX;
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::subject::{SnapshotSubject, SubjectError};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::transport::Delivered;
use plimsoll_schemas::wire::{self, Header, Snapshot};

/// A message that could not be decoded, or cannot be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Why, as a label.
    pub reason: &'static str,
    pub text: String,
    /// How many there have been for this reason.
    pub count: u64,
}

impl Unreadable {
    /// A snapshot whose number its incarnation cannot have reached yet.
    pub fn far_ahead(Header { node, seq, .. }: &Header) -> Self {
        let text = format!("node {node} cannot have sent number {} yet: it is forged", seq.0);
        Self { reason: "sequence", text, count: 0 }
    }
}

/// A message with what it holds: all that the core takes of it.
#[derive(Debug)]
pub struct Decoded {
    /// The message, without its payload.
    pub message: Delivered,
    /// The snapshot, or why there is none.
    pub snapshot: Result<Snapshot<Packed>, Unreadable>,
}

impl Decoded {
    /// Decodes and checks a message.
    pub fn of(mut message: Delivered) -> Self {
        let snapshot = decode(&message);
        message.payload.clear();
        Self { message, snapshot }
    }
}

fn decode(message: &Delivered) -> Result<Snapshot<Packed>, Unreadable> {
    let refuse = |reason, text| Unreadable { reason, text, count: 0 };
    let subject: SnapshotSubject = message
        .subject
        .parse()
        .map_err(|error: SubjectError| refuse("subject", error.to_string()))?;
    wire::decode_packed(&subject, &message.payload)
        .map_err(|error| refuse(error.reason(), error.to_string()))
}

/// Refuses a snapshot of an incarnation that begins far in the future: no older one is merged once
/// its name has been folded, and each later one of its node is older.
pub(super) fn plausible(
    latest: Wall,
    snapshot: Snapshot<Packed>,
) -> Result<Snapshot<Packed>, Unreadable> {
    let (node, began) = (&snapshot.header.node, Wall(snapshot.header.incarnation.0));
    if began <= latest.plus(INCARNATION_AHEAD_MAX) {
        return Ok(snapshot);
    }
    let text = format!("node {node} started more than a day in the future: check its clock");
    Err(Unreadable { reason: "incarnation", text, count: 0 })
}
