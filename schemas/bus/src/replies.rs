//! The one subscription on which everything comes back that concerns our own messages:
//! acknowledgements, echoes, probes. The token at the end of the subject identifies it.
//!
//! DESIGN S7.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::PROBE_EVERY;
use async_nats::{Client, Message, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use plimsoll_clock::Clock;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::transport::{BusEvent, Refusal, Ticket};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::acknowledgement::{self, StreamAcknowledgement};
use crate::link::Link;
use crate::liveness::{self, Liveness};
use crate::publish::FINAL_ECHO;

/// The one task that listens on our inbox and probes the broker.
pub(crate) struct Replies {
    pub(crate) client: Client,
    pub(crate) inbox: String,
    /// What the names of this mesh's streams begin with.
    pub(crate) streams: String,
    pub(crate) link: watch::Receiver<Link>,
    pub(crate) events: mpsc::Sender<BusEvent>,
    /// Counts the answers to messages, for the writer.
    pub(crate) answers: watch::Sender<u64>,
    /// Counts the messages that a stream took, for the supervisor.
    pub(crate) acknowledged: Arc<AtomicU64>,
    /// Notified when a subject turns out to have no stream.
    pub(crate) missing: Arc<Notify>,
    /// Notified when the final echo arrives.
    pub(crate) final_echo: Arc<Notify>,
    pub(crate) clock: Clock,
    pub(crate) liveness: Liveness,
}

impl Replies {
    /// Runs until the client or the link is gone. `subscriber` is on everything under our inbox.
    pub(crate) async fn run(mut self, mut subscriber: Subscriber) {
        let mut ticks = interval(PROBE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);

        loop {
            let event = tokio::select! {
                // After a delay, received messages count before the elapsed time does.
                biased;
                message = subscriber.next() => {
                    let Some(message) = message else { return };
                    self.on_message(&message)
                }
                _ = ticks.tick() => self.on_tick(),
                changed = self.link.changed() => {
                    if changed.is_err() { return }
                    let up = self.link.borrow_and_update().delivery.is_some();
                    self.liveness.on_link(self.clock.now().mono, up);
                    None
                }
            };
            if let Some(event) = event {
                let _ = self.events.send(event).await;
            }
        }
    }

    fn on_tick(&mut self) -> Option<BusEvent> {
        let now = self.clock.now().mono;
        let action = self.liveness.on_tick(now);
        if action.probe {
            let subject = format!("{}.{}", self.inbox, liveness::probe_name(now));
            // A client too full to accept a probe counts as silent: no need to wait for it.
            let _ = self.client.publish(subject, Bytes::new()).now_or_never();
        }
        action.stalled.then_some(BusEvent::Stalled)
    }

    fn on_message(&mut self, message: &Message) -> Option<BusEvent> {
        let now = self.clock.now().mono;
        self.liveness.on_received(now);
        let name = message.subject.strip_prefix(self.inbox.as_str())?.strip_prefix('.')?;
        if let Some(took) = liveness::round_trip(name, now) {
            return Some(BusEvent::RoundTrip(took));
        }

        if name == FINAL_ECHO {
            self.final_echo.notify_one();
            return None;
        }

        let ticket = Ticket(name.parse().ok()?);
        // Whatever it answers, its place in the window is free.
        self.answers.send_modify(|answers| *answers += 1);
        let status = message.status.map(|status| status.as_u16());
        let read = acknowledgement::read(status, &message.payload);
        let read = read.and_then(|stored| self.own(stored));
        if matches!(read, Err(Refusal::NoResponders | Refusal::Foreign(_))) {
            self.missing.notify_one();
        }

        Some(match read {
            Ok(StreamAcknowledgement { duplicate, .. }) => {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                BusEvent::Acknowledged { ticket, duplicate }
            }
            Err(reason) => BusEvent::Refused { ticket, reason },
        })
    }

    /// Refuses an acknowledgement of another mesh's stream: no aggregator of ours reads it.
    fn own<'a>(
        &self,
        stored: StreamAcknowledgement<'a>,
    ) -> Result<StreamAcknowledgement<'a>, Refusal> {
        let is_own = stored.stream.is_empty() || stored.stream.starts_with(&self.streams);
        if is_own { Ok(stored) } else { Err(Refusal::Foreign(one_line(&stored.stream))) }
    }
}
