//! What passes between the bus and the cores: messages out, messages in, events of the connection.
//!
//! The bus produces and takes these types, drivers pass them on unchanged, and the simulation
//! builds the same ones. Payloads share their buffer: passing on or cloning a message copies no
//! payload bytes.
//!
//! DESIGN S24.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::limits::wire::{MESSAGE_BYTES_MAX, RECONNECTS_PER_SECOND};
use crate::subject::Lane;
use crate::time::Wall;

/// The span over which nodes of a mesh spread their attempts to reconnect, unless their longest
/// pause is shorter (S30).
#[must_use]
pub fn reconnect_span(mesh_nodes: u32) -> Duration {
    Duration::from_secs(1) * mesh_nodes / RECONNECTS_PER_SECOND
}

/// Bytes that headers take of `max_payload` at most: a message id, a time, and what a dead letter
/// states of its message.
pub const HEADERS_BYTES_MAX: usize = 1_024;

/// What a broker's `max_payload` means for a mesh, and the fix; `None` when the largest message of
/// a node fits, or nothing is stated.
///
/// DESIGN S37.
#[must_use]
pub fn small_payload(payload_bytes_max: usize) -> Option<String> {
    let needed = MESSAGE_BYTES_MAX + HEADERS_BYTES_MAX;
    let is_small = payload_bytes_max > 0 && payload_bytes_max < needed;
    is_small.then(|| {
        format!(
            "the broker's max_payload is {payload_bytes_max} bytes and messages have up to \
             {needed}: nodes divide them, and lose a series or an event that is longer by itself; \
             set max_payload: 1MB in nats.conf and restart nats-server"
        )
    })
}

/// Identifies a message in the broker's answers; the sender assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One message for the broker. A retry has the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// Comes back with the answer.
    pub ticket: Ticket,
    /// The subject it is published to.
    pub subject: String,
    /// The same for every attempt to send the same bytes: a stream keeps one message of each id
    /// within its span of deduplication.
    pub message_id: String,
    /// Headers beside those that the bus itself sets; few.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes.
    pub payload: Bytes,
}

/// One message of a lane, as its reader receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The lane it came in.
    pub lane: Lane,
    /// Its number in the lane's stream; 0 without a stream.
    pub stream_seq: u64,
    /// Messages behind it in the stream when the broker delivered it.
    pub pending: u64,
    /// When the broker stored it, by the broker's clock; `None` without a stream.
    pub at: Option<Wall>,
    /// When its node last sent it, by the node's clock; `None` when the node does not report it.
    pub sent: Option<Wall>,
    /// The subject it was published to.
    pub subject: String,
    /// The bytes.
    pub payload: Bytes,
}

/// How messages travel on the current connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Through streams: the broker keeps a message and acknowledges that it does.
    JetStream,
    /// Without streams: the broker forwards a message to those subscribed when it arrives.
    Core,
}

impl Delivery {
    /// The way as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JetStream => "jetstream",
            Self::Core => "core",
        }
    }
}

/// Why an attempt to connect failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectFault {
    /// Nobody listens there.
    Refused,
    /// The host name cannot be resolved.
    Name,
    /// A certificate of either side was rejected, or one of them does not use TLS.
    Tls,
    /// The broker rejected the credentials, or they cannot be read.
    Credentials,
    /// No answer in time.
    Timeout,
    /// Anything else.
    Other,
}

impl ConnectFault {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Refused, Self::Name, Self::Tls, Self::Credentials, Self::Timeout, Self::Other];

    /// The kind as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Name => "name",
            Self::Tls => "tls",
            Self::Credentials => "credentials",
            Self::Timeout => "timeout",
            Self::Other => "other",
        }
    }
}

/// Something that happened to the connection or to a message handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// There is a connection, and messages can be published.
    Connected {
        /// How they travel.
        delivery: Delivery,
        /// The broker's version, such as `2.10.26`.
        server_version: String,
        /// Its `max_payload`: bytes of a message with its headers that it takes; 0 if it states
        /// none.
        payload_bytes_max: usize,
    },
    /// An attempt to connect failed; others follow. While events wait for their owner, some of
    /// these are left out.
    ConnectFailed {
        /// The kind of failure.
        fault: ConnectFault,
        /// The same as one short line, in the words of the component that found it.
        text: String,
    },
    /// Streams of the mesh are missing and cannot be created, or exist after all.
    Streams {
        /// Why they cannot, as one line; `None` once all exist. Sent at each attempt.
        fault: Option<String>,
    },
    /// There no longer is a connection. Messages without an answer may or may not have arrived.
    Disconnected,
    /// The connection is up, but nothing was received for some seconds. Sent once; the next
    /// [`BusEvent::RoundTrip`] ends it.
    Stalled,
    /// One probe's way to the broker and back.
    RoundTrip(Duration),
    /// The broker has a message: its stream keeps it, or, in core mode, it has read it.
    Acknowledged {
        /// The message.
        ticket: Ticket,
        /// The stream had it already, under the same message id.
        duplicate: bool,
    },
    /// A message was not taken.
    Refused {
        /// The message.
        ticket: Ticket,
        /// Why not.
        reason: Refusal,
    },
    /// The broker does not let this user publish or subscribe as it just tried to. A denied
    /// message has no other answer. While events wait for their owner, some of these are left
    /// out.
    Denied {
        /// The subject that it may not publish to; `None` for a subscription.
        publish: Option<String>,
        /// The broker's own words, with the subject at fault in them.
        text: String,
    },
}

/// Why a message was rejected. It is not lost: the caller still has it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// No connection, or the client's queue stayed full, for too long.
    #[error("no connection accepted the message in time")]
    HandOver,
    /// The broker has no stream for the subject.
    #[error("no stream keeps this subject")]
    NoResponders,
    /// A stream of another name takes the subject: nothing of this mesh would read the message.
    #[error(
        "stream {0} is not of this mesh and takes its subjects; delete it, or take them out of it"
    )]
    Foreign(String),
    /// Larger than the broker's `max_payload`.
    #[error("message is larger than the broker's max_payload")]
    TooLarge,
    /// The subject or the message id holds what the protocol cannot carry.
    #[error("subject or message id holds a blank or a line break")]
    Malformed,
    /// The stream rejected it.
    #[error("stream refused the message: {description} ({code})")]
    Rejected {
        /// JetStream's own error number.
        code: u64,
        /// JetStream's own text.
        description: String,
    },
    /// The answer was no acknowledgement.
    #[error("broker's answer cannot be read")]
    Unreadable,
    /// The connection is being closed.
    #[error("connection is closed")]
    Closed,
}

/// JetStream's numbers of refusals that mean something to senders.
pub mod refusal_code {
    /// A message above the stream's `max_msg_size`.
    pub const MESSAGE_TOO_LARGE: u64 = 10_054;
    /// A stream at one of its limits that refuses what is new.
    pub const STREAM_FULL: u64 = 10_077;
    /// Storage, account and server limits, in this order.
    pub const TOO_LITTLE_ROOM: [u64; 3] = [10_047, 10_002, 10_023];
}

impl Refusal {
    /// The setting or the step that ends such refusals, if one is known.
    #[must_use]
    pub fn fix(&self) -> Option<&'static str> {
        match self {
            Self::NoResponders => Some("start the aggregator, which creates the streams"),
            Self::TooLarge => Some("raise max_payload in nats.conf and restart nats-server"),
            Self::Rejected { code, .. } => match *code {
                refusal_code::MESSAGE_TOO_LARGE => Some("raise the stream's max_msg_size"),
                refusal_code::STREAM_FULL => {
                    Some("raise the stream's max_bytes or max_msgs, or set its discard to old")
                }
                code if refusal_code::TOO_LITTLE_ROOM.contains(&code) => {
                    Some("raise max_file_store in nats.conf, or its account's limit")
                }
                _ => None,
            },
            Self::HandOver
            | Self::Foreign(_)
            | Self::Malformed
            | Self::Unreadable
            | Self::Closed => None,
        }
    }

    /// The refusal and its fix, in the words of every log and page.
    #[must_use]
    pub fn explained(&self) -> String {
        match self.fix() {
            Some(fix) => format!("{self}; {fix}"),
            None => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_max_payload_is_explained_with_its_setting() {
        assert_eq!(small_payload(0), None, "it states none");
        assert_eq!(small_payload(MESSAGE_BYTES_MAX + HEADERS_BYTES_MAX), None);
        let text = small_payload(65_536).unwrap();
        assert!(text.starts_with("the broker's max_payload is 65536 bytes"), "{text}");
        assert!(text.ends_with("; set max_payload: 1MB in nats.conf and restart nats-server"));
    }

    #[test]
    fn a_refusal_names_the_brokers_code_and_the_setting() {
        let rejected = |code, text: &str| Refusal::Rejected { code, description: text.to_owned() };
        for (refusal, expected) in [
            (
                rejected(10_054, "message size exceeds maximum allowed"),
                "stream refused the message: message size exceeds maximum allowed (10054); raise the \
                 stream's max_msg_size",
            ),
            (
                rejected(10_047, "insufficient storage resources available"),
                "stream refused the message: insufficient storage resources available (10047); raise \
                 max_file_store in nats.conf, or its account's limit",
            ),
            (rejected(7, "x"), "stream refused the message: x (7)"),
            (
                Refusal::TooLarge,
                "message is larger than the broker's max_payload; raise max_payload in nats.conf and \
                 restart nats-server",
            ),
        ] {
            assert_eq!(refusal.explained(), expected);
        }
    }
}
