//! What follows every connect: find out whether there is JetStream, see to the streams, and
//! only then publish messages. A node leaves the streams to others as long as the broker
//! acknowledges its messages.
//!
//! DESIGN N60.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lanes::Lanes;
use crate::limits::{REQUEST_WAIT, STREAM_CHECK_EVERY, STREAM_MISSING_REST, STREAM_RETRY_EVERY};
use async_nats::{Client, ClientError, Event, ServerError, ServerInfo};
use futures_util::FutureExt;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::transport::{BusEvent, ConnectFault, Delivery};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::api::{self, ApiError, code};
use crate::backoff;
use crate::config::{ConnectionRole, StreamOwner};
use crate::faults::{self, NAME_ERROR};
use crate::streams;

/// Start of the broker's error text for a denied permission, in lower case.
const DENIAL: &str = "permissions violation";
/// The same for a publish, up to its subject.
const DENIED_PUBLISH: &str = "permissions violation for publish to";

/// What the client's own events add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signal {
    /// Connections made so far.
    pub(crate) connects: u64,
    /// Whether the last of them is up.
    pub(crate) connected: bool,
    /// Questions to JetStream that the broker does not permit us.
    pub(crate) denials: u64,
    /// Whether the client has ended.
    pub(crate) closed: bool,
}

impl Signal {
    /// Takes one of the client's events into account.
    pub(crate) fn on_event(&mut self, event: &Event) {
        match event {
            Event::Connected => {
                self.connects += 1;
                self.connected = true;
            }
            Event::Disconnected => self.connected = false,
            Event::Closed => self.closed = true,
            Event::ServerError(ServerError::Other(text)) if text.contains(api::PREFIX) => {
                self.denials += 1;
            }
            _ => {}
        }
    }
}

/// The permission that one of the client's events denies, if its owner needs it: a node needs
/// nothing of JetStream's API, and another process may have created a stream.
pub(crate) fn denied(event: &Event, role: ConnectionRole) -> Option<BusEvent> {
    let Event::ServerError(ServerError::Other(text)) = event else { return None };
    let needless = match role {
        ConnectionRole::Node => api::PREFIX,
        ConnectionRole::Few => "$JS.API.STREAM.CREATE.",
    };
    let denied = text.to_lowercase().starts_with(DENIAL) && !text.contains(needless);
    denied.then(|| BusEvent::Denied { publish: denied_publish(text), text: one_line(text) })
}

/// The subject of a publish that the broker's text denies, such as
/// `Permissions Violation for Publish to "a.b"`.
fn denied_publish(text: &str) -> Option<String> {
    let (kind, subject) = text.split_once('"')?;
    let is_publish = kind.trim_end().to_lowercase() == DENIED_PUBLISH;
    is_publish.then(|| subject.trim_end_matches('"').to_owned())
}

/// The failed attempt that one of the client's events reports, if only events report it: one at a
/// name that cannot be resolved.
pub(crate) fn name_failed(event: &Event) -> Option<BusEvent> {
    let Event::ClientError(ClientError::Other(text)) = event else { return None };
    let text = text.starts_with(NAME_ERROR).then(|| faults::explained(text))?;
    Some(BusEvent::ConnectFailed { fault: ConnectFault::Name, text })
}

/// Whether messages may flow, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// Which connection this is about.
    pub(crate) generation: u64,
    /// `None` while there is no connection, or before it was checked.
    pub(crate) delivery: Option<Delivery>,
}

/// Follows the client's connections.
pub(crate) struct Supervisor {
    pub(crate) client: Client,
    pub(crate) lanes: Lanes,
    pub(crate) signal: watch::Receiver<Signal>,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) events: mpsc::Sender<BusEvent>,
    /// Notified by any task that finds a stream, or all of JetStream, missing.
    pub(crate) missing: Arc<Notify>,
    /// How many messages a stream took.
    pub(crate) acknowledged: Arc<AtomicU64>,
    pub(crate) role: ConnectionRole,
    pub(crate) streams: StreamOwner,
    /// How many servers store each stream that is created.
    pub(crate) replicas: u8,
    /// True once it was logged that a broker has lost JetStream.
    pub(crate) gone: bool,
    /// Whether streams could not be created at the latest check.
    pub(crate) lacks_streams: bool,
}

/// How it is found out how messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inspection {
    /// By what the server announces, without a request; by requests if it announces nothing.
    Announcement,
    /// By requests that also create missing streams.
    Streams,
}

impl Supervisor {
    /// Runs until the client is gone.
    pub(crate) async fn run(mut self) {
        let mut since_check = None;
        let mut acknowledged_before = 0;

        loop {
            let signal = *self.signal.borrow_and_update();
            let link = *self.link.borrow();
            let current = signal.connected && link.generation == signal.connects;
            if link.delivery.is_some() && !current {
                self.on_lost(link).await;
            }

            if signal.connected && !(current && link.delivery.is_some()) {
                acknowledged_before = self.acknowledged.load(Ordering::Relaxed);
                // Streams that were missing on the connection before may exist on this one.
                let _former = self.missing.notified().now_or_never();
                self.on_connected(signal).await;
                since_check = (self.role == ConnectionRole::Few).then(Stopwatch::start);
                continue;
            }

            tokio::select! {
                changed = self.signal.changed() => if changed.is_err() { return },
                () = self.missing.notified() => {
                    // Every task that misses a stream reports it; one look serves all of them.
                    if signal.connected && since_check.is_none_or(is_old) {
                        // DESIGN S26. A change of the connection decides anew.
                        if timeout(STREAM_MISSING_REST, self.signal.changed()).await.is_ok() {
                            continue;
                        }
                        let acknowledged = since_check.is_none().then_some(acknowledged_before);
                        self.check(signal, acknowledged).await;
                        since_check = Some(Stopwatch::start());
                    }
                }
                // A node is one of many: its next message that no stream keeps tries again.
                () = sleep(STREAM_RETRY_EVERY), if self.retries() => {
                    self.check(signal, None).await;
                    since_check = Some(Stopwatch::start());
                }
            }
        }
    }

    fn retries(&self) -> bool {
        self.lacks_streams && self.role == ConnectionRole::Few && self.signal.borrow().connected
    }

    /// Looks for the streams and creates what is missing. `before` is how many messages streams had
    /// taken when this connection was made, if this is its first check: without one more, there may
    /// never have been a stream.
    async fn check(&mut self, signal: Signal, before: Option<u64>) {
        let found = self.settle(signal, Inspection::Streams).await;
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        let is_proven = before.is_none_or(|before| acknowledged > before);
        self.on_checked(signal, found, is_proven).await;
    }

    async fn on_lost(&mut self, link: Link) {
        self.link.send_replace(Link { delivery: None, ..link });
        tracing::debug!("broker connection lost");
        self.send(BusEvent::Disconnected).await;
    }

    /// Messages keep waiting for streams that were there on this connection: without them no
    /// aggregator could read them later. Otherwise the announcement was wrong for this account.
    async fn on_checked(&mut self, signal: Signal, found: Option<Delivery>, is_proven: bool) {
        let link = *self.link.borrow();
        let had = link.delivery == Some(Delivery::JetStream);

        match found {
            Some(Delivery::Core) if had && !is_proven => {
                self.on_lost(link).await;
                self.on_delivery(signal, Delivery::Core).await;
            }
            Some(Delivery::Core) if had && !std::mem::replace(&mut self.gone, true) => {
                tracing::warn!("broker no longer has jetstream; messages wait until it returns");
            }
            Some(Delivery::JetStream) if std::mem::take(&mut self.gone) => {
                tracing::info!("broker has jetstream again");
            }
            Some(_) | None => {}
        }
    }

    async fn on_connected(&mut self, signal: Signal) {
        let inspection = match self.role {
            ConnectionRole::Node => Inspection::Announcement,
            ConnectionRole::Few => Inspection::Streams,
        };
        let Some(delivery) = self.settle(signal, inspection).await else { return };
        self.gone = false;
        self.on_delivery(signal, delivery).await;
    }

    async fn on_delivery(&self, signal: Signal, delivery: Delivery) {
        let ServerInfo { version: server_version, max_payload: payload_bytes_max, .. } =
            self.client.server_info();
        tracing::debug!(server_version, delivery = delivery.as_str(), "broker connected");
        // Before messages may flow: no answer must come ahead of the connection that it is on.
        self.send(BusEvent::Connected { delivery, server_version, payload_bytes_max }).await;
        self.link.send_replace(Link { generation: signal.connects, delivery: Some(delivery) });
    }

    async fn send(&self, event: BusEvent) {
        // The receiver may be gone, which is no reason to stop.
        let _ = self.events.send(event).await;
    }

    /// Finds out how messages travel; `None` when the connection is lost meanwhile.
    async fn settle(&mut self, signal: Signal, inspection: Inspection) -> Option<Delivery> {
        let mut watched = self.signal.clone();
        let lost = watched.wait_for(|now| !now.connected || now.connects != signal.connects);
        tokio::select! {
            _ = lost => None,
            delivery = self.decide(signal, inspection) => Some(delivery),
        }
    }

    async fn decide(&mut self, signal: Signal, inspection: Inspection) -> Delivery {
        let mut attempt = 0_u32;
        loop {
            attempt = attempt.saturating_add(1);
            // The client processes commands only after it has switched to its new server.
            let _ = timeout(REQUEST_WAIT, self.client.flush()).await;

            // A server without JetStream may still reach one that has it, so it is asked.
            if inspection == Inspection::Announcement && self.client.server_info().jetstream {
                return Delivery::JetStream;
            }

            // Also where the server has no JetStream: a leaf node passes messages on to one that
            // has it. DESIGN S74.
            if self.streams == StreamOwner::Operator {
                return Delivery::JetStream;
            }

            let mut watched = self.signal.clone();
            // A request that is not permitted gets no answer: an error of the connection is all
            // that shows it.
            let denied = watched.wait_for(|now| now.denials != signal.denials);

            let outcome = tokio::select! {
                _ = denied => return self.unmanaged(),
                outcome = streams::ensure(&self.client, &self.lanes, self.replicas) => outcome,
            };

            match outcome {
                Ok(()) => {
                    self.on_streams(None).await;
                    return Delivery::JetStream;
                }
                Err(ApiError::Absent) => {
                    self.on_streams(None).await;
                    return Delivery::Core;
                }
                Err(error) => {
                    self.on_streams(Some(streams::explained(&error, self.replicas))).await;
                    if !self.asks_again(&error) {
                        return Delivery::JetStream;
                    }
                    sleep(backoff::pause(attempt)).await;
                }
            }
        }
    }

    /// Whether nothing is known about the streams yet. Otherwise publishing will show whether they
    /// are there all the same. A cluster without a leader answers this to many nodes at once.
    fn asks_again(&self, error: &ApiError) -> bool {
        match error {
            ApiError::Silent => true,
            ApiError::Refused { code: code::TEMPORARILY_UNAVAILABLE, .. } => {
                self.role == ConnectionRole::Few
            }
            _ => false,
        }
    }

    /// Reports that streams cannot be created, and once that they exist after all.
    async fn on_streams(&mut self, fault: Option<String>) {
        let lacks_streams = fault.is_some();
        if lacks_streams || self.lacks_streams {
            self.send(BusEvent::Streams { fault }).await;
        }
        self.lacks_streams = lacks_streams;
    }

    /// This user may not inspect streams, so the server's own announcement decides.
    fn unmanaged(&self) -> Delivery {
        tracing::debug!("streams are managed by others");
        if self.client.server_info().jetstream { Delivery::JetStream } else { Delivery::Core }
    }
}

fn is_old(check: Stopwatch) -> bool {
    check.elapsed() >= STREAM_CHECK_EVERY
}

#[cfg(test)]
mod tests {
    use async_nats::ConnectErrorKind;

    use super::*;

    #[test]
    fn a_denial_names_the_subject_that_may_not_be_published_to() {
        for (text, publish) in [
            ("Permissions Violation for Publish to \"a.b\"", Some("a.b")),
            ("permissions violation for publish to \"a.b\"", Some("a.b")),
            ("Permissions Violation for Subscription to \"a.b\"", None),
            ("Permissions Violation", None),
        ] {
            let event = Event::ServerError(ServerError::Other(text.to_owned()));
            let publish = publish.map(str::to_owned);
            let expected = BusEvent::Denied { publish, text: text.to_owned() };
            assert_eq!(denied(&event, ConnectionRole::Node), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_denied_request_to_jetstream_matters_to_those_who_read() {
        let of = |subject: &str, role| {
            let text = format!("Permissions Violation for Publish to \"$JS.API.{subject}\"");
            denied(&Event::ServerError(ServerError::Other(text)), role).is_some()
        };
        assert!(!of("STREAM.INFO.s", ConnectionRole::Node));
        assert!(of("STREAM.INFO.s", ConnectionRole::Few));
        assert!(of("CONSUMER.CREATE.s", ConnectionRole::Few));
        assert!(!of("STREAM.CREATE.s", ConnectionRole::Few));
    }

    #[test]
    fn a_name_that_cannot_be_resolved_is_reported_by_an_event_alone() {
        let of = |text: &str| name_failed(&Event::ClientError(ClientError::Other(text.to_owned())));
        assert!(of(&ConnectErrorKind::Dns.to_string()).is_some());
        assert_eq!(of(&ConnectErrorKind::Io.to_string()), None);
        assert_eq!(name_failed(&Event::Disconnected), None);
    }
}
