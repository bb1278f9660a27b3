//! What was wrong with the connection to the broker: counted by cause for metrics, kept as text for
//! `/readyz`, logged once per connection.
//!
//! DESIGN S37.

use std::collections::BTreeMap;

use plimsoll_bus::advisories;
use plimsoll_bus::{BusEvent, ConnectFault, Delivery, Refusal};

/// The cause of a broker or account without JetStream.
const NO_JETSTREAM: &str = "no_jetstream";
/// The cause of a denied permission.
const PERMISSION: &str = "permission";
/// The cause of streams that cannot be created.
const STREAMS: &str = "streams";

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
    /// Published advisories about the broker's version; `None` before the first connection, or of
    /// a version that is none.
    advisories: Option<usize>,
    /// The version whose advisories were logged.
    logged_version: String,
}

impl Default for BrokerFaults {
    fn default() -> Self {
        let connects = ConnectFault::ALL.map(ConnectFault::as_str);
        let counts =
            connects.into_iter().chain([PERMISSION, NO_JETSTREAM, STREAMS]).map(|of| (of, 0));
        Self {
            counts: counts.collect(),
            connect_error: None,
            denied: None,
            streams: None,
            advisories: None,
            logged_version: String::new(),
        }
    }
}

impl BrokerFaults {
    /// Takes an event of the connection into account, and logs what an operator must know.
    pub fn on_event(&mut self, event: &BusEvent) {
        match event {
            BusEvent::Connected { delivery, server_version } => {
                (self.connect_error, self.denied) = (None, None);
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
                    tracing::warn!(
                        text,
                        "broker denies permission; `plimsoll nats-config` prints what this user \
                         needs"
                    );
                    self.denied = Some(text.clone());
                }
            }
            BusEvent::Streams { fault } => self.on_streams(fault.as_deref()),
            BusEvent::Refused { reason: reason @ Refusal::Foreign(_), .. }
                if self.streams.is_none() =>
            {
                self.on_streams(Some(&reason.to_string()));
            }
            // A stream of this mesh keeps it, so another process has created them.
            BusEvent::Acknowledged { .. } => self.streams = None,
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
            tracing::warn!(
                "broker nats-server {version} has {count} published advisories (as of {newest}); \
                 install {fixed} or newer; `plimsoll doctor` lists them"
            );
        }
    }

    /// Why the broker cannot be reached; `None` while connected, and before the first attempt has
    /// ended.
    #[must_use]
    pub fn connect_error(&self) -> Option<&str> {
        self.connect_error.as_deref()
    }

    /// The first permission that was denied on this connection.
    #[must_use]
    pub fn denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }

    /// Why the mesh's streams cannot be created where they are missing.
    #[must_use]
    pub fn streams(&self) -> Option<&str> {
        self.streams.as_deref()
    }

    /// How often each cause was found.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(cause, count)| (*cause, *count))
    }

    /// Published advisories about the version of the broker, if it is known.
    #[must_use]
    pub fn advisories(&self) -> Option<usize> {
        self.advisories
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_bus::Ticket;

    use super::*;

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
        assert_eq!(faults.denied(), Some("first"));
        let server_version = "2.9.10".to_owned();
        faults.on_event(&BusEvent::Connected { delivery: Delivery::Core, server_version });
        assert_eq!((faults.connect_error(), faults.denied()), (None, None));
        let counts = ["tls", "permission", "no_jetstream", "refused"].map(|of| count(&faults, of));
        assert_eq!(counts, [Some(1), Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn streams_that_cannot_be_created_are_a_fault_until_they_exist() {
        let mut faults = BrokerFaults::default();
        let streams = |fault: Option<&str>| BusEvent::Streams { fault: fault.map(str::to_owned) };
        faults.on_event(&streams(Some("bus.replicas = 3, but the broker has no cluster")));
        let server_version = "2.14.3".to_owned();
        faults.on_event(&BusEvent::Connected { delivery: Delivery::JetStream, server_version });
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
    fn the_advisories_of_the_connected_broker_are_known() {
        let mut faults = BrokerFaults::default();
        let mut connect = |version: &str| {
            let (delivery, server_version) = (Delivery::JetStream, version.to_owned());
            faults.on_event(&BusEvent::Connected { delivery, server_version });
            faults.advisories()
        };
        assert!(connect("2.9.10") > Some(20));
        assert_eq!(connect("2.14.3"), Some(0));
        assert_eq!(connect("unknown"), None);
    }
}
