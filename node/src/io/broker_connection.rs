//! The node's connection to the broker: sends messages, returns events, closes. Decides nothing.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use plimsoll_bus::{
    Bus, BusConfig, BusError, BusEvent, BusEvents, Listener, Publish, Ticket, UnacknowledgedMessage,
};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::subject::{ask_subject, capture_subject, confirm_subject};
use tokio::task::JoinHandle;

/// Something that happened on the bus.
#[derive(Debug)]
pub enum LinkEvent {
    Bus(BusEvent),
    Confirmation(Bytes),
    HistoryRequest(Bytes),
    CaptureRequest(Bytes),
    /// The connection, or its subscription, ended; no more answers will arrive.
    CutOff,
    /// The connection is closed, as requested.
    Closed,
}

/// A connection to the broker, until it is closed.
#[derive(Debug)]
pub struct BrokerConnection {
    /// `None` once it is closing.
    bus: Option<Bus>,
    closing: Option<JoinHandle<()>>,
    /// `None` after the last event.
    events: Option<BusEvents>,
    confirmations: Option<Listener>,
    /// Requests of aggregators; `None` when no history is kept.
    requests: Option<Listener>,
    /// The same of captures; `None` unless they are enabled.
    captures: Option<Listener>,
}

/// Which requests of aggregators are received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedRequests {
    pub history: bool,
    pub captures: bool,
}

impl BrokerConnection {
    /// Starts to connect.
    pub fn open(
        config: BusConfig,
        mesh: &MeshName,
        node: &NodeName,
        received: ReceivedRequests,
    ) -> Result<Self, BusError> {
        let (bus, events) = Bus::connect(config)?;
        let confirmations = Some(bus.listen(confirm_subject(mesh, node)));
        let requests = received.history.then(|| bus.listen(ask_subject(mesh, node)));
        let captures = received.captures.then(|| bus.listen(capture_subject(mesh, node)));
        let (bus, events) = (Some(bus), Some(events));
        Ok(Self { bus, closing: None, events, confirmations, requests, captures })
    }

    /// What happens next. Cancel safe.
    pub async fn next(&mut self) -> LinkEvent {
        let mut closed = pin!(closed(&mut self.closing));
        let mut event = pin!(event(&mut self.events));
        let mut confirmation = pin!(received(&mut self.confirmations));
        let mut request = pin!(received(&mut self.requests));
        let mut capture = pin!(received(&mut self.captures));

        poll_fn(|context| {
            if closed.as_mut().poll(context).is_ready() {
                return Poll::Ready(LinkEvent::Closed);
            }
            if let Poll::Ready(event) = event.as_mut().poll(context) {
                return Poll::Ready(event.map_or(LinkEvent::CutOff, LinkEvent::Bus));
            }
            if let Poll::Ready(payload) = confirmation.as_mut().poll(context) {
                return Poll::Ready(payload.map_or(LinkEvent::CutOff, LinkEvent::Confirmation));
            }
            if let Poll::Ready(payload) = request.as_mut().poll(context) {
                return Poll::Ready(payload.map_or(LinkEvent::CutOff, LinkEvent::HistoryRequest));
            }
            let capture = capture.as_mut().poll(context);
            capture.map(|payload| payload.map_or(LinkEvent::CutOff, LinkEvent::CaptureRequest))
        })
        .await
    }

    /// Whether messages may still be handed over.
    pub fn is_open(&self) -> bool {
        self.bus.is_some()
    }

    /// Hands a message over.
    pub fn try_publish(&self, publish: Publish) -> Result<(), Ticket> {
        let ticket = publish.ticket;
        let bus = self.bus.as_ref().ok_or(ticket)?;
        bus.try_publish(publish).map_err(|_| ticket)
    }

    /// Publishes a message that may be lost.
    pub fn publish_unacknowledged(&self, subject: String, payload: Bytes) {
        let headers = Vec::new();
        if let Some(bus) = &self.bus {
            // An aggregator that gets no answer asks again.
            let _queued =
                bus.publish_unacknowledged(UnacknowledgedMessage { subject, headers, payload });
        }
    }

    /// States how many nodes the mesh has.
    pub fn spread_reconnects(&self, mesh_nodes: u32) {
        if let Some(bus) = &self.bus {
            bus.spread_reconnects(mesh_nodes);
        }
    }

    /// Begins to close the connection, once.
    pub fn close(&mut self) {
        if let Some(bus) = self.bus.take() {
            (self.confirmations, self.requests, self.captures) = (None, None, None);
            self.closing = Some(tokio::spawn(bus.close()));
        }
    }
}

async fn closed(closing: &mut Option<JoinHandle<()>>) {
    match closing {
        // That it ended is all that matters.
        Some(task) => drop(task.await),
        None => pending().await,
    }
    *closing = None;
}

/// The connection's next event; `None` once, after the last event.
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

/// The next message of a subscription; `None` once, after the last.
async fn received(listener: &mut Option<Listener>) -> Option<Bytes> {
    let received = match listener {
        Some(listener) => listener.next().await,
        None => pending().await,
    };
    if received.is_none() {
        *listener = None;
    }
    received.map(|received| received.payload)
}
