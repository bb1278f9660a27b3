//! A message that has its number and its bytes: from here on it never changes, because from
//! here on it may have been sent.

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;

/// What the broker's answers name a message by. A node gives each once in its life, in the
/// order of sealing; unlike a seq, it also tells apart messages of former incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A sealed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The incarnation it is of.
    pub incarnation: Incarnation,
    /// Its number.
    pub seq: Seq,
    /// The lane that its subject names.
    pub lane: Lane,
    /// Where it goes.
    pub subject: String,
    /// The encoded snapshot.
    pub payload: Bytes,
    /// Samples that it carries.
    pub samples: u64,
    /// True for an incarnation's last message.
    pub last: bool,
    /// When it was sealed.
    pub sealed_at: Wall,
}

/// One message for the broker. Sent again, it is the same bytes under the same seq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// What an acknowledgement names.
    pub ticket: Ticket,
    /// Where it goes.
    pub subject: String,
    /// What the broker recognises a repetition by.
    pub message_id: String,
    /// The encoded snapshot.
    pub payload: Bytes,
}

impl Sealed {
    /// What tells it from every other message of this node.
    #[must_use]
    pub fn key(&self) -> (Incarnation, Seq) {
        (self.incarnation, self.seq)
    }

    /// The message as it is handed to the broker. `resends` counts how often it was sent again
    /// *after* the broker had acknowledged it: a broker that lost a message may still remember
    /// its id, and would take the same one for a repetition.
    #[must_use]
    pub fn publish(&self, ticket: Ticket, resends: u32) -> Publish {
        let node = self.subject.rsplit('.').nth(1).unwrap_or_default();
        let (incarnation, seq) = (self.incarnation, self.seq);
        let message_id = match resends {
            0 => format!("{node}-{incarnation}-{seq}"),
            n => format!("{node}-{incarnation}-{seq}-r{n}"),
        };
        let (subject, payload) = (self.subject.clone(), self.payload.clone());
        Publish { ticket, subject, message_id, payload }
    }
}
