//! Hands messages to the NATS client, one after the other, without ever waiting for long.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{CLOSE_WAIT, HAND_OVER_WAIT};
use async_nats::header::{HeaderMap, HeaderName, HeaderValue, NATS_MESSAGE_ID};
use async_nats::{Client, PublishError, PublishErrorKind};
use bytes::Bytes;
use plimsoll_clock::Clock;
use plimsoll_schemas::transport::{BusEvent, Delivery, Publish, Refusal};
use plimsoll_schemas::wire::SENT_HEADER;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;

use crate::link::Link;
use crate::window::Window;

/// The name of the last echo before a connection is closed.
pub(crate) const FINAL_ECHO: &str = "final-echo";

/// The one task that publishes.
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) inbox: String,
    pub(crate) queue: mpsc::Receiver<Publish>,
    pub(crate) link: watch::Receiver<Link>,
    pub(crate) events: mpsc::Sender<BusEvent>,
    /// Notified when the final echo arrives.
    pub(crate) final_echo: Arc<Notify>,
    /// How many answers have come in.
    pub(crate) answers: watch::Receiver<u64>,
    pub(crate) clock: Clock,
    pub(crate) window: Window,
    /// How long the next message may wait: all of the time until one has waited in vain, none
    /// from then on, so that a broker's absence costs one wait and not one for each message.
    pub(crate) hand_over_wait: Duration,
}

impl Writer {
    /// Runs until the queue is closed and everything in it was handed over or refused.
    pub(crate) async fn run(&mut self) {
        while let Some(message) = self.queue.recv().await {
            let ticket = message.ticket;
            let handed_over = timeout(self.hand_over_wait, self.hand_over(message)).await;
            self.hand_over_wait = if handed_over.is_ok() { HAND_OVER_WAIT } else { Duration::ZERO };
            if let Err(reason) = handed_over.unwrap_or(Err(Refusal::HandOver)) {
                let _ = self.events.send(BusEvent::Refused { ticket, reason }).await;
            }
        }
    }

    /// Waits until the broker has confirmed that it read all that was sent. Does not wait for an
    /// absent broker.
    pub(crate) async fn wait_until_read(&self) {
        if self.link.borrow().delivery.is_some() {
            let _ = timeout(CLOSE_WAIT, self.send_final_echo()).await;
        }
    }

    async fn hand_over(&mut self, message: Publish) -> Result<(), Refusal> {
        let delivery = self.delivery().await?;
        self.wait_for_room().await?;
        let answer = format!("{}.{}", self.inbox, message.ticket.0);
        let id: HeaderValue = message.message_id.parse().map_err(|_| Refusal::Malformed)?;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, id);
        // As late as possible: an aggregator compares it with the broker's time of storing, and a
        // wait in this queue would look like a wrong clock.
        headers.insert(SENT_HEADER, HeaderValue::from(self.clock.now().wall.0));

        for (name, value) in &message.headers {
            let name: HeaderName = name.parse().map_err(|_| Refusal::Malformed)?;
            let value: HeaderValue = value.parse().map_err(|_| Refusal::Malformed)?;
            headers.insert(name, value);
        }

        let Publish { subject, payload, .. } = message;

        match delivery {
            Delivery::JetStream => {
                let client = &self.client;
                client.publish_with_reply_and_headers(subject, answer, headers, payload).await
            }
            Delivery::Core => {
                self.client
                    .publish_with_headers(subject, headers, payload)
                    .await
                    .map_err(|error| refusal(&error))?;
                // A broker handles one connection's messages in order.
                self.client.publish(answer, Bytes::new()).await
            }
        }
        .map_err(|error| refusal(&error))?;

        self.window.on_sent(self.clock.now().mono);
        Ok(())
    }

    /// Waits until there is room for one more answer.
    async fn wait_for_room(&mut self) -> Result<(), Refusal> {
        loop {
            let answers = *self.answers.borrow_and_update();
            let generation = self.link.borrow().generation;
            self.window.on_replies(self.clock.now().mono, generation, answers);
            if self.window.has_room() {
                return Ok(());
            }
            self.answers.changed().await.map_err(|_| Refusal::Closed)?;
        }
    }

    async fn delivery(&mut self) -> Result<Delivery, Refusal> {
        let link = self.link.wait_for(|link| link.delivery.is_some()).await;
        link.ok().and_then(|link| link.delivery).ok_or(Refusal::Closed)
    }

    async fn send_final_echo(&self) {
        let final_echo = format!("{}.{FINAL_ECHO}", self.inbox);
        if self.client.publish(final_echo, Bytes::new()).await.is_ok() {
            self.final_echo.notified().await;
        }
    }
}

/// Why the client did not take a message.
pub(crate) fn refusal(error: &PublishError) -> Refusal {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Refusal::TooLarge,
        PublishErrorKind::InvalidSubject => Refusal::Malformed,
        PublishErrorKind::Send => Refusal::Closed,
    }
}
