//! What every test sends to a bus and waits to receive from it.

use std::fmt::Debug;
use std::time::Duration;

use plimsoll_bus::{
    Bus, BusConfig, BusEvent, BusEvents, Cursor, CursorEvent, Delivered, Publish, Ticket,
};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::Lane;
use tokio::time::timeout;

/// Longest wait for anything that should happen at once; only a hang reaches it.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Pause between two looks.
pub(crate) const POLL: Duration = Duration::from_millis(50);

pub(crate) fn config(url: String) -> BusConfig {
    BusConfig::new(url, "test".to_owned(), MeshName::new("m").unwrap())
}

/// A bus and its events.
pub(crate) struct Talk {
    pub(crate) bus: Bus,
    pub(crate) events: BusEvents,
}

impl Talk {
    pub(crate) fn begin(config: BusConfig) -> Self {
        let (bus, events) = Bus::connect(config).unwrap();
        Self { bus, events }
    }

    /// Connected to the broker at `url`.
    pub(crate) async fn connected(url: String) -> Self {
        let mut talk = Self::begin(config(url));
        talk.until_connected().await;
        talk
    }

    pub(crate) async fn until_connected(&mut self) -> BusEvent {
        self.until(|event| matches!(event, BusEvent::Connected { .. })).await
    }

    /// The next event that `fits`; the others are passed over.
    pub(crate) async fn until(&mut self, fits: impl Fn(&BusEvent) -> bool) -> BusEvent {
        let mut passed_over = Vec::new();
        let found = timeout(SOON, async {
            while let Some(event) = self.events.next().await {
                if fits(&event) {
                    return event;
                }
                passed_over.push(event);
            }
            panic!("the events ended");
        })
        .await;
        found.unwrap_or_else(|_| panic!("not in time; received only {passed_over:?}"))
    }

    /// What becomes of `message`.
    pub(crate) async fn outcome(&mut self, message: Publish) -> BusEvent {
        let token = message.ticket.0;
        self.bus.try_publish(message).unwrap();
        self.until(|event| token_of(event) == Some(token)).await
    }

    /// Publishes messages 1 to `count` and waits until all are acknowledged.
    pub(crate) async fn publish(&mut self, lane: Lane, tokens: std::ops::RangeInclusive<u64>) {
        for token in tokens {
            let outcome = self.outcome(message(lane, token)).await;
            assert_eq!(outcome, BusEvent::Acknowledged { ticket: Ticket(token), duplicate: false });
        }
    }
}

pub(crate) fn token_of(event: &BusEvent) -> Option<u64> {
    match event {
        BusEvent::Acknowledged { ticket: Ticket(token), .. }
        | BusEvent::Refused { ticket: Ticket(token), .. } => Some(*token),
        _ => None,
    }
}

/// A message that holds its token in every part.
pub(crate) fn message(lane: Lane, token: u64) -> Publish {
    Publish {
        headers: Vec::new(),
        ticket: Ticket(token),
        subject: format!("plimsoll.v1.m.{}.n1.latency", lane.as_str()),
        message_id: format!("n1-{token}"),
        payload: format!("payload {token}").into(),
    }
}

/// Waits for anything, for a bounded time.
pub(crate) async fn soon<T: Debug>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("in time")
}

pub(crate) async fn next(cursor: &mut Cursor) -> CursorEvent {
    soon(cursor.next()).await.expect("the cursor goes on")
}

/// The next message of `cursor`, and whatever came before it.
pub(crate) async fn next_message(cursor: &mut Cursor) -> (Delivered, Vec<CursorEvent>) {
    let mut before = Vec::new();
    loop {
        match next(cursor).await {
            CursorEvent::Message(message) => return (message, before),
            event => before.push(event),
        }
    }
}

/// The payloads of the next `count` messages.
pub(crate) async fn payloads(cursor: &mut Cursor, count: usize) -> Vec<String> {
    let mut payloads = Vec::with_capacity(count);
    while payloads.len() < count {
        payloads.push(text(&next_message(cursor).await.0));
    }
    payloads
}

/// First and last number of the stream that a cursor was positioned in.
pub(crate) fn extent(event: &CursorEvent) -> Option<(u64, u64)> {
    match event {
        CursorEvent::Positioned { first_seq, last_seq, .. } => Some((*first_seq, *last_seq)),
        CursorEvent::Reset { .. } | CursorEvent::Used { .. } | CursorEvent::Message(_) => None,
    }
}

pub(crate) fn text(message: &Delivered) -> String {
    String::from_utf8(message.payload.to_vec()).unwrap()
}

/// The payloads of messages 1 to `count`.
pub(crate) fn expected(tokens: std::ops::RangeInclusive<u64>) -> Vec<String> {
    tokens.map(|token| format!("payload {token}")).collect()
}
