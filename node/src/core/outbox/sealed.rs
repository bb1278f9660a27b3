//! A message with its number and its bytes. It never changes, because it may have been sent.

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::transport::{Publish, Ticket};

use super::message_id::{IdOf, MessageNonce, message_id};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedMessage {
    pub incarnation: Incarnation,
    pub seq: Seq,
    /// The lane in its subject.
    pub lane: Lane,
    pub subject: String,
    pub payload: Bytes,
    pub samples: u64,
    /// Those of them that the node took of itself.
    pub own_samples: u64,
    /// How many messages it stands for, as they were produced.
    pub produced: u64,
    /// True for an incarnation's last message.
    pub last: bool,
    pub sealed_at: Wall,
    /// What makes its ids unpredictable.
    pub nonce: MessageNonce,
}

impl SealedMessage {
    /// Unique among all messages of this node.
    pub fn key(&self) -> (Incarnation, Seq) {
        (self.incarnation, self.seq)
    }

    /// The message for the broker, under its id as `of`.
    pub fn publish(&self, ticket: Ticket, of: IdOf) -> Publish {
        let node = self.subject.rsplit('.').nth(1).unwrap_or_default();
        let message_id = message_id(node, self.incarnation, self.seq, of, self.nonce);
        let (subject, payload) = (self.subject.clone(), self.payload.clone());
        Publish { ticket, subject, message_id, headers: Vec::new(), payload }
    }
}
