//! Events of a connection, in the order in which they happened.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::error::Refusal;

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

/// Something that happened to the connection or to a message handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// There is a connection, and messages can be published.
    Connected {
        /// How they travel.
        delivery: Delivery,
        /// The broker's version, such as `2.10.26`.
        server_version: String,
    },
    /// There no longer is. Messages without an answer may or may not have arrived.
    Disconnected,
    /// The connection is up, but nothing was received for `limits::STALL_AFTER`. Sent once;
    /// the next [`BusEvent::RoundTrip`] ends it.
    Stalled,
    /// One probe's way to the broker and back.
    RoundTrip(Duration),
    /// The broker has a message: its stream keeps it, or, in core mode, it has read it.
    Acknowledged {
        /// The caller's name for the message.
        token: u64,
        /// The stream had it already, under the same message id.
        duplicate: bool,
    },
    /// A message was not taken.
    Refused {
        /// The caller's name for the message.
        token: u64,
        /// Why not.
        reason: Refusal,
    },
    /// The broker does not let this user publish or subscribe as it just tried to. A denied
    /// message has no other answer. While events wait for their owner, some of these are left
    /// out.
    Denied {
        /// The broker's own words, with the subject at fault in them.
        text: String,
    },
}

/// Where a connection's events come out.
#[derive(Debug)]
pub struct BusEvents(pub(crate) mpsc::Receiver<BusEvent>);

impl BusEvents {
    /// The next event; `None` once the connection is closed and every event was returned.
    ///
    /// Cancel safe. It must be polled: while `limits::bus::EVENTS_MAX` events wait, no answer
    /// is read, and an answer that the client cannot keep is lost.
    pub async fn next(&mut self) -> Option<BusEvent> {
        self.0.recv().await
    }
}
