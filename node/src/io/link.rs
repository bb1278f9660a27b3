//! The node's end of the bus: what is sent, what is heard, and how it ends. Decides nothing.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use plimsoll_bus::{Aside, Bus, BusConfig, BusError, BusEvent, BusEvents, Listener, Outgoing};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::subject::{confirm_subject, dead_subject};
use tokio::task::JoinHandle;

use crate::core::outbox::{DeadLetter, DeadLetterReason};
use crate::core::outbox::{Publish, Ticket};

/// Something that happened on the bus.
#[derive(Debug)]
pub enum LinkEvent {
    /// The connection or the broker says something.
    Bus(BusEvent),
    /// An aggregator says what is stored.
    Confirmation(Bytes),
    /// The connection can bring no more answers.
    CutOff,
    /// It is closed, as it was asked to be.
    Closed,
}

/// A connection to the broker, until it is closed.
#[derive(Debug)]
pub struct Link {
    /// Gone once it is closing.
    bus: Option<Bus>,
    closing: Option<JoinHandle<()>>,
    /// Gone once all was told.
    events: Option<BusEvents>,
    /// What aggregators say is stored.
    confirmations: Option<Listener>,
    dead_subject: String,
}

impl Link {
    /// Starts to connect.
    ///
    /// # Errors
    /// When the configuration cannot hold.
    pub fn open(config: BusConfig, mesh: &MeshName, node: &NodeName) -> Result<Self, BusError> {
        let (bus, events) = Bus::connect(config)?;
        let confirmations = Some(bus.listen(confirm_subject(mesh, node)));
        let dead_subject = dead_subject(mesh, node);
        let (bus, events) = (Some(bus), Some(events));
        Ok(Self { bus, closing: None, events, confirmations, dead_subject })
    }

    /// What happens next. Cancel safe.
    pub async fn next(&mut self) -> LinkEvent {
        let mut closed = pin!(closed(&mut self.closing));
        let mut event = pin!(event(&mut self.events));
        let mut confirmation = pin!(confirmation(&mut self.confirmations));
        poll_fn(|context| {
            if closed.as_mut().poll(context).is_ready() {
                return Poll::Ready(LinkEvent::Closed);
            }
            if let Poll::Ready(event) = event.as_mut().poll(context) {
                return Poll::Ready(event.map_or(LinkEvent::CutOff, LinkEvent::Bus));
            }
            confirmation.as_mut().poll(context).map(LinkEvent::Confirmation)
        })
        .await
    }

    /// Whether messages may still be handed over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.bus.is_some()
    }

    /// Hands a message over.
    ///
    /// # Errors
    /// Names the message when it was not taken.
    pub fn try_publish(&self, publish: Publish) -> Result<(), Ticket> {
        let Publish { ticket, subject, message_id, payload } = publish;
        let outgoing = Outgoing { token: ticket.0, subject, message_id, payload };
        let bus = self.bus.as_ref().ok_or(ticket)?;
        bus.try_publish(outgoing).map_err(|back| Ticket(back.token))
    }

    /// Leaves a message that can never be accepted where someone may look at it. Its loss is
    /// counted already.
    pub fn leave(&self, letter: DeadLetter) {
        let told = self.bus.as_ref().map(|bus| bus.tell(aside(&self.dead_subject, letter)));
        if !matches!(told, Some(Ok(()))) {
            tracing::warn!("dead letter not sent: too many wait");
        }
    }

    /// Begins to close the connection, once.
    pub fn close(&mut self) {
        if let Some(bus) = self.bus.take() {
            self.confirmations = None;
            self.closing = Some(tokio::spawn(bus.close()));
        }
    }
}

/// Waits for the connection to have closed.
async fn closed(closing: &mut Option<JoinHandle<()>>) {
    match closing {
        // That it ended is all that matters.
        Some(task) => drop(task.await),
        None => pending().await,
    }
    *closing = None;
}

/// The connection's next event; `None` once, when all was told.
async fn event(events: &mut Option<BusEvents>) -> Option<BusEvent> {
    let event = match events {
        Some(events) => events.next().await,
        None => pending().await,
    };
    if event.is_none() {
        *events = None;
    }
    event
}

/// The next confirmation.
async fn confirmation(confirmations: &mut Option<Listener>) -> Bytes {
    if let Some(listener) = confirmations
        && let Some(heard) = listener.next().await
    {
        return heard.payload;
    }
    *confirmations = None;
    pending().await
}

/// A dead letter with its reason; the bytes come along unless they are what is wrong with it.
fn aside(subject: &str, DeadLetter { message: sealed, reason }: DeadLetter) -> Aside {
    let payload = match reason {
        DeadLetterReason::TooLarge => Bytes::new(),
        DeadLetterReason::Malformed => sealed.payload.clone(),
    };
    let headers = vec![
        ("Plimsoll-Reason", reason.as_str().to_owned()),
        ("Plimsoll-Subject", sealed.subject),
        ("Plimsoll-Incarnation", sealed.incarnation.to_string()),
        ("Plimsoll-Seq", sealed.seq.to_string()),
        ("Plimsoll-Samples", sealed.samples.to_string()),
        ("Plimsoll-Bytes", sealed.payload.len().to_string()),
    ];
    Aside { subject: subject.to_owned(), headers, payload }
}
