//! What was wrong with the connection to the broker: counted by cause for metrics, kept as text for
//! `/readyz`, logged once per connection.
//!
//! DESIGN S37.

use std::collections::BTreeMap;

use plimsoll_bus::advisories;
use plimsoll_bus::{BusEvent, ConnectFault, Delivery, Refusal};
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::transport::small_payload;

/// The cause of a broker or account without JetStream.
const NO_JETSTREAM: &str = "no_jetstream";
/// The cause of a denied permission.
const PERMISSION: &str = "permission";
const GRANT: &str = "grant what `plimsoll nats-config` prints for this user";
/// The cause of streams that cannot be created.
const STREAMS: &str = "streams";
/// The cause of a broker whose `max_payload` is smaller than messages may be.
const MAX_PAYLOAD: &str = "max_payload";

/// The faults of one process's connection.
#[derive(Clone, Debug)]
pub struct BrokerFaults {
    /// How often each cause was found.
    counts: BTreeMap<&'static str, u64>,
    /// Why the last attempt to connect failed; `None` while connected.
    connect_error: Option<String>,
    /// The first permission that was denied on this connection, in the broker's words.
    denied: Option<String>,
    /// Why the mesh's streams cannot be created.
    streams: Option<String>,
    /// Why the latest message was refused on this connection; `None` once one is taken.
    refusal: Option<String>,
    /// A refusal was logged on this connection.
    is_refusal_logged: bool,
    /// What a small `max_payload` of the broker means.
    payload: Option<String>,
    /// Published advisories about the broker's version; `None` before the first connection, or of
    /// a version that is none.
    advisories: Option<usize>,
    /// The version whose advisories were logged.
    logged_version: String,
}

impl Default for BrokerFaults {
    fn default() -> Self {
        let connects = ConnectFault::ALL.map(ConnectFault::as_str);
        let counts = connects.into_iter().chain([PERMISSION, NO_JETSTREAM, STREAMS, MAX_PAYLOAD]);
        Self {
            counts: counts.map(|of| (of, 0)).collect(),
            connect_error: None,
            denied: None,
            streams: None,
            refusal: None,
            is_refusal_logged: false,
            payload: None,
            advisories: None,
            logged_version: String::new(),
        }
    }
}

impl BrokerFaults {
    /// Takes an event of the connection into account, and logs what an operator must know.
    pub fn on_event(&mut self, event: &BusEvent) {
        match event {
            BusEvent::Connected { delivery, server_version, payload_bytes_max } => {
                (self.connect_error, self.denied) = (None, None);
                (self.refusal, self.is_refusal_logged) = (None, false);
                self.payload = small_payload(*payload_bytes_max);

                if let Some(text) = &self.payload {
                    tracing::warn!("{text}");
                    self.count(MAX_PAYLOAD);
                }

                if *delivery == Delivery::Core {
                    self.count(NO_JETSTREAM);
                    tracing::warn!(
                        "broker has no JetStream for this account: what is published while no \
                         aggregator runs is lost; start nats-server with --jetstream"
                    );
                }

                self.check_version(server_version);
            }
            BusEvent::ConnectFailed { fault, text } => {
                self.count(fault.as_str());
                self.connect_error = Some(text.clone());
            }
            BusEvent::Denied { text, .. } => {
                self.count(PERMISSION);
                if self.denied.is_none() {
                    tracing::warn!(text, "broker denies permission; {GRANT}");
                    self.denied = Some(format!("{text}; {GRANT}"));
                }
            }
            BusEvent::Streams { fault } => self.on_streams(fault.as_deref()),
            BusEvent::Refused { reason, .. } => self.on_refused(reason),
            // A stream of this mesh keeps it, so another process has created them.
            BusEvent::Acknowledged { .. } => (self.streams, self.refusal) = (None, None),
            _ => {}
        }
    }

    fn on_streams(&mut self, fault: Option<&str>) {
        match fault {
            Some(text) => {
                self.count(STREAMS);
                if self.streams.as_deref() != Some(text) {
                    tracing::warn!(text, "streams not created");
                }
            }
            None => tracing::info!("streams exist"),
        }
        self.streams = fault.map(str::to_owned);
    }

    /// Only what the broker itself answers is kept: a message that never left is no news of it.
    fn on_refused(&mut self, reason: &Refusal) {
        if matches!(reason, Refusal::HandOver | Refusal::Closed) {
            return;
        }
        if matches!(reason, Refusal::Foreign(_)) && self.streams.is_none() {
            self.on_streams(Some(&reason.to_string()));
        }
        let text = reason.explained();
        if !std::mem::replace(&mut self.is_refusal_logged, true) {
            tracing::warn!("broker rejected a message: {text}");
        }
        self.refusal = Some(text);
    }

    fn count(&mut self, cause: &'static str) {
        *self.counts.entry(cause).or_default() += 1;
    }

    fn check_version(&mut self, version: &str) {
        self.advisories = advisories::of(version).map(|found| found.len());
        if let Some(count @ 1..) = self.advisories
            && self.logged_version != version
        {
            version.clone_into(&mut self.logged_version);
            let (fixed, newest) = (advisories::SOUND, advisories::NEWEST);
            let count = counted(count as u64, "published advisory");
            tracing::warn!(
                "broker nats-server {version} has {count} (as of {newest}); install {fixed} or \
                 newer; `plimsoll doctor` lists them"
            );
        }
    }

    /// Why the broker cannot be reached; `None` while connected, and before the first attempt has
    /// ended.
    pub fn connect_error(&self) -> Option<&str> {
        self.connect_error.as_deref()
    }

    /// The first permission that was denied on this connection.
    pub fn denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }

    /// Why the mesh's streams cannot be created where they are missing.
    pub fn streams(&self) -> Option<&str> {
        self.streams.as_deref()
    }

    /// Why messages are not taken: a permission, the streams, or the latest refusal.
    pub fn rejection(&self) -> Option<&str> {
        self.denied().or(self.streams()).or(self.refusal.as_deref())
    }

    /// What the broker's `max_payload` means, if it is smaller than messages may be.
    pub fn payload(&self) -> Option<&str> {
        self.payload.as_deref()
    }

    /// How often each cause was found.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(cause, count)| (*cause, *count))
    }

    /// Published advisories about the version of the broker, if it is known.
    pub fn advisories(&self) -> Option<usize> {
        self.advisories
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_bus::Ticket;

    use super::*;

    fn connected(delivery: Delivery, version: &str) -> BusEvent {
        let (server_version, payload_bytes_max) = (version.to_owned(), 1 << 20);
        BusEvent::Connected { delivery, server_version, payload_bytes_max }
    }

    fn count(faults: &BrokerFaults, cause: &str) -> Option<u64> {
        faults.counts().find(|(of, _)| *of == cause).map(|(_, count)| count)
    }

    #[test]
    fn a_fault_is_counted_by_cause_and_a_connection_ends_its_text() {
        let mut faults = BrokerFaults::default();
        assert_eq!(count(&faults, "tls"), Some(0), "every cause has its row");
        let text = "invalid peer certificate: Expired".to_owned();
        faults.on_event(&BusEvent::ConnectFailed { fault: ConnectFault::Tls, text: text.clone() });
        assert_eq!(faults.connect_error(), Some(text.as_str()));
        let denied = |text: &str| BusEvent::Denied { publish: None, text: text.to_owned() };
        faults.on_event(&denied("first"));
        faults.on_event(&denied("second"));
        let first = "first; grant what `plimsoll nats-config` prints for this user";
        assert_eq!(faults.denied(), Some(first));
        faults.on_event(&connected(Delivery::Core, "2.9.10"));
        assert_eq!((faults.connect_error(), faults.denied()), (None, None));
        let counts = ["tls", "permission", "no_jetstream", "refused"].map(|of| count(&faults, of));
        assert_eq!(counts, [Some(1), Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn streams_that_cannot_be_created_are_a_fault_until_they_exist() {
        let mut faults = BrokerFaults::default();
        let streams = |fault: Option<&str>| BusEvent::Streams { fault: fault.map(str::to_owned) };
        faults.on_event(&streams(Some("bus.replicas = 3, but the broker has no cluster")));
        faults.on_event(&connected(Delivery::JetStream, "2.14.3"));
        let text = Some("bus.replicas = 3, but the broker has no cluster");
        assert_eq!((faults.streams(), count(&faults, "streams")), (text, Some(1)));
        faults.on_event(&streams(None));
        assert_eq!((faults.streams(), count(&faults, "streams")), (None, Some(1)));
        let reason = Refusal::Foreign("EVERYTHING".to_owned());
        faults.on_event(&BusEvent::Refused { ticket: Ticket(0), reason });
        assert!(faults.streams().is_some_and(|text| text.contains("stream EVERYTHING")));
        faults.on_event(&streams(Some("fewer servers")));
        faults.on_event(&BusEvent::Acknowledged { ticket: Ticket(1), duplicate: false });
        assert_eq!((faults.streams(), count(&faults, "streams")), (None, Some(3)));
    }

    #[test]
    fn a_refusal_is_named_with_its_setting_until_a_message_is_taken() {
        let mut faults = BrokerFaults::default();
        let refused = |reason| BusEvent::Refused { ticket: Ticket(0), reason };
        faults.on_event(&refused(Refusal::HandOver));
        assert_eq!(faults.rejection(), None, "it never left");
        let description = "insufficient storage resources available".to_owned();
        faults.on_event(&refused(Refusal::Rejected { code: 10_047, description }));
        assert_eq!(
            faults.rejection(),
            Some(
                "stream refused the message: insufficient storage resources available (10047); \
                 raise max_file_store in nats.conf, or its account's limit"
            )
        );
        faults.on_event(&BusEvent::Acknowledged { ticket: Ticket(1), duplicate: false });
        assert_eq!(faults.rejection(), None);
    }

    #[test]
    fn a_small_max_payload_is_named_before_any_message_is_lost() {
        let mut faults = BrokerFaults::default();
        let connected = |payload_bytes_max| BusEvent::Connected {
            delivery: Delivery::JetStream,
            server_version: "2.14.3".to_owned(),
            payload_bytes_max,
        };
        faults.on_event(&connected(65_536));
        let text = faults.payload().unwrap();
        assert!(text.contains("max_payload is 65536 bytes"), "{text}");
        assert_eq!(count(&faults, "max_payload"), Some(1));
        faults.on_event(&connected(1 << 20));
        assert_eq!((faults.payload(), count(&faults, "max_payload")), (None, Some(1)));
    }

    #[test]
    fn the_advisories_of_the_connected_broker_are_known() {
        let mut faults = BrokerFaults::default();
        let mut connect = |version: &str| {
            faults.on_event(&connected(Delivery::JetStream, version));
            faults.advisories()
        };
        assert!(connect("2.9.10") > Some(20));
        assert_eq!(connect("2.14.3"), Some(0));
        assert_eq!(connect("unknown"), None);
    }
}
