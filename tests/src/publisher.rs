//! A client of the broker that is no node and publishes arbitrary messages.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use plimsoll_bus::{Bus, BusConfig, BusEvent, BusEvents, Messenger, Publish, Ticket};
use plimsoll_schemas::ids::MeshName;
use tokio::time::timeout;

const WAIT: Duration = Duration::from_secs(60);

/// A connection to the broker.
pub struct Publisher {
    bus: Bus,
    events: BusEvents,
    sent: u64,
}

impl Publisher {
    /// Connects to the broker of the mesh `local`.
    ///
    /// # Errors
    /// When there is no connection in time.
    pub async fn connect(url: String) -> Result<Self> {
        Self::connect_with(BusConfig::new(url, "publisher".to_owned(), MeshName::new("local")?))
            .await
    }

    /// Connects with this identity.
    ///
    /// # Errors
    /// When there is no connection in time.
    pub async fn connect_with(config: BusConfig) -> Result<Self> {
        let (bus, events) = Bus::connect(config)?;
        let mut publisher = Self { bus, events, sent: 0 };
        publisher.await_event(|event| matches!(event, BusEvent::Connected { .. })).await?;
        Ok(publisher)
    }

    /// Publishes and subscribes without streams.
    pub fn messenger(&self) -> Messenger {
        self.bus.messenger()
    }

    async fn await_event(&mut self, fits: impl Fn(&BusEvent) -> bool) -> Result<BusEvent> {
        let found = timeout(WAIT, async {
            loop {
                let event = self.events.next().await.context("the connection ended")?;
                if fits(&event) {
                    return Ok(event);
                }
            }
        });
        found.await.context("no event from the broker")?
    }

    /// Publishes one message and waits until a stream stores it.
    ///
    /// # Errors
    /// When the broker rejects it.
    pub async fn publish(&mut self, subject: &str, payload: Vec<u8>) -> Result<()> {
        let message_id = format!("publisher-{}", self.sent + 1);
        self.publish_as(subject, message_id, payload).await
    }

    /// The same under an id of the caller's choice.
    ///
    /// # Errors
    /// When the broker rejects it.
    pub async fn publish_as(
        &mut self,
        subject: &str,
        message_id: String,
        payload: Vec<u8>,
    ) -> Result<()> {
        self.sent += 1;
        let token = self.sent;
        let payload = Bytes::from(payload);
        let outgoing = Publish {
            ticket: Ticket(token),
            subject: subject.to_owned(),
            message_id,
            headers: Vec::new(),
            payload,
        };
        if self.bus.try_publish(outgoing).is_err() {
            bail!("the queue is full although each message was acknowledged before the next");
        }
        let answer = self.await_event(|event| match event {
            BusEvent::Acknowledged { ticket: Ticket(acknowledged), .. }
            | BusEvent::Refused { ticket: Ticket(acknowledged), .. } => *acknowledged == token,
            _ => false,
        });
        match answer.await? {
            BusEvent::Acknowledged { .. } => Ok(()),
            other => bail!("{subject}: {other:?}"),
        }
    }
}
