//! Publishing and subscribing without streams, apart from the connection's owner.

use async_nats::Client;
use plimsoll_clock::Clock;
use tokio::sync::{mpsc, watch};

use crate::link::Link;
use crate::listener::Listener;
use crate::optimistic::{self, ConditionalError, ConditionalMessage, StreamMessage};
use crate::unacknowledged::{QueuedMessage, UnacknowledgedMessage};

/// Sends messages that may be lost, and subscribes.
#[derive(Clone, Debug)]
pub struct Messenger {
    client: Client,
    link: watch::Receiver<Link>,
    asides: mpsc::Sender<QueuedMessage>,
    clock: Clock,
    /// How many servers store what is created.
    replicas: u8,
}

impl Messenger {
    pub(crate) fn new(
        client: Client,
        link: watch::Receiver<Link>,
        asides: mpsc::Sender<QueuedMessage>,
        clock: Clock,
        replicas: u8,
    ) -> Self {
        Self { client, link, asides, clock, replicas }
    }

    /// As [`crate::Bus::publish_unacknowledged`].
    ///
    /// # Errors
    /// Returns the message when `limits::bus::UNACKNOWLEDGED_MAX` others wait.
    pub fn publish(&self, aside: UnacknowledgedMessage) -> Result<(), UnacknowledgedMessage> {
        let waiting = QueuedMessage { aside, since: self.clock.now().mono };
        self.asides.try_send(waiting).map_err(|error| error.into_inner().aside)
    }

    /// Publishes a message so that the stream takes it only if the newest one of its subject has
    /// the number `after`, 0 if there must be none. Returns its number in the stream, also if the
    /// stream had it already under the same id. Takes at most twice `limits::REQUEST_WAIT`.
    ///
    /// # Errors
    /// When another message came before, when it is not known what became of this one, or when it
    /// was refused.
    pub async fn publish_after(
        &self,
        message: ConditionalMessage,
        after: u64,
    ) -> Result<u64, ConditionalError> {
        optimistic::publish_after(&self.client, &self.link, self.clock, message, after).await
    }

    /// The newest message of a subject in a stream.
    ///
    /// # Errors
    /// States, for people, why there is no answer: there is no such stream, for one.
    pub async fn newest(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StreamMessage>, String> {
        let found = optimistic::newest(&self.client, stream, subject).await;
        found.map_err(|error| error.to_string())
    }

    /// The first message of a subject with at least this number in a stream.
    ///
    /// # Errors
    /// As [`Self::newest`].
    pub async fn first_from(
        &self,
        stream: &str,
        subject: &str,
        seq: u64,
    ) -> Result<Option<StreamMessage>, String> {
        let found = optimistic::first_from(&self.client, stream, subject, seq).await;
        found.map_err(|error| error.to_string())
    }

    /// The client, for requests to JetStream.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn replicas(&self) -> u8 {
        self.replicas
    }

    /// As [`crate::Bus::listen`].
    pub fn listen(&self, subject: String) -> Listener {
        Listener::start(self.client.clone(), self.link.clone(), subject)
    }
}
