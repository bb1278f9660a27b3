//! Publishing and subscribing without streams, apart from the connection's owner.

use async_nats::Client;
use plimsoll_clock::Clock;
use tokio::sync::{mpsc, watch};

use crate::link::Link;
use crate::listener::Listener;
use crate::unacknowledged::{QueuedMessage, UnacknowledgedMessage};

/// Sends messages that may be lost, and subscribes.
#[derive(Debug)]
pub struct Messenger {
    client: Client,
    link: watch::Receiver<Link>,
    asides: mpsc::Sender<QueuedMessage>,
    clock: Clock,
}

impl Messenger {
    pub(crate) fn new(
        client: Client,
        link: watch::Receiver<Link>,
        asides: mpsc::Sender<QueuedMessage>,
        clock: Clock,
    ) -> Self {
        Self { client, link, asides, clock }
    }

    /// As [`crate::Bus::publish_unacknowledged`].
    ///
    /// # Errors
    /// Returns the message when `limits::bus::UNACKNOWLEDGED_MAX` others wait.
    pub fn publish(&self, aside: UnacknowledgedMessage) -> Result<(), UnacknowledgedMessage> {
        let waiting = QueuedMessage { aside, since: self.clock.now().mono };
        self.asides.try_send(waiting).map_err(|error| error.into_inner().aside)
    }

    /// As [`crate::Bus::listen`].
    #[must_use]
    pub fn listen(&self, subject: String) -> Listener {
        Listener::start(self.client.clone(), self.link.clone(), subject)
    }
}
