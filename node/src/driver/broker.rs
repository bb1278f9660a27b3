//! The connection to the broker: its events go to the core, messages of the core go out.
//!
//! Owns the link and what is logged about it once per connection. Decides nothing about messages.

use plimsoll_bus::{BusConfig, BusError, BusEvent};
use plimsoll_runtime::absence::Absence;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::time::{Mono, Now};

use crate::core::Core;
use crate::io::link::{Link, LinkEvent};

pub(super) struct Broker {
    link: Link,
    /// Address of the broker without secrets, for logs.
    url: String,
    absence: Absence,
    /// Why the last attempt to connect failed; `None` while connected.
    connect_error: Option<String>,
    /// A refusal was logged on this connection; later ones are only counted.
    refusal_logged: bool,
    /// A permission denial was logged on this connection.
    denial_logged: bool,
}

impl Broker {
    /// Starts to connect.
    pub(super) fn connect(
        config: BusConfig,
        mesh: &MeshName,
        node: &NodeName,
        now: Mono,
    ) -> Result<Self, BusError> {
        let url = config.url_without_secrets();
        let link = Link::open(config, mesh, node)?;
        let absence = Absence::since(now);
        let connect_error = None;
        let (refusal_logged, denial_logged) = (false, false);
        Ok(Self { link, url, absence, connect_error, refusal_logged, denial_logged })
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> LinkEvent {
        self.link.next().await
    }

    /// Logs an event and passes it to the core.
    pub(super) fn on_event(&mut self, core: &mut Core, now: Now, event: &BusEvent) {
        match event {
            BusEvent::Connected { delivery, server_version } => {
                tracing::info!(delivery = delivery.as_str(), server_version, "broker connected");
                self.connect_error = None;
                (self.refusal_logged, self.denial_logged) = (false, false);
            }
            BusEvent::ConnectFailed { cause } => self.connect_error = Some(cause.clone()),
            BusEvent::Disconnected => tracing::warn!("broker disconnected; messages wait"),
            BusEvent::Stalled => tracing::warn!("broker does not answer; messages wait"),
            BusEvent::RoundTrip(_) => {
                if core.is_stalled() {
                    tracing::info!("broker answers again");
                }
            }
            BusEvent::Acknowledged { .. } => {}
            BusEvent::Refused { reason, .. } => {
                if !std::mem::replace(&mut self.refusal_logged, true) {
                    tracing::warn!(%reason, "broker rejected a message");
                }
            }
            BusEvent::Denied { text } => {
                if !std::mem::replace(&mut self.denial_logged, true) {
                    tracing::warn!(
                        text,
                        "broker denies permission; check the permissions of this user"
                    );
                }
            }
        }
        core.on_bus_event(now, event);
    }

    /// Why the broker cannot be reached; `None` while connected, and before the first attempt has
    /// ended.
    pub(super) fn connect_error(&self) -> Option<&str> {
        self.connect_error.as_deref()
    }

    pub(super) fn on_confirmation(core: &mut Core, now: Now, payload: &[u8]) {
        let Err(reason) = core.on_confirmation(now, payload) else {
            return;
        };
        // Any client with publish permission can cause this: the 1st, 2nd, 4th, 8th ... is logged.
        let count: u64 = core.status().confirmations.rejected.values().sum();
        if count.is_power_of_two() {
            tracing::warn!(reason, count, "confirmation rejected; check who may publish it");
        }
    }

    /// Sends what the core has ready.
    pub(super) fn publish(&mut self, core: &mut Core, now: Now) {
        if !self.link.is_open() {
            return;
        }
        while let Some(publish) = core.next_publish(now) {
            if let Err(ticket) = self.link.try_publish(publish) {
                return core.on_handover_failed(now, ticket);
            }
        }
        while let Some(letter) = core.next_dead_letter() {
            self.link.leave(letter);
        }
    }

    /// When [`Self::log_absence`] has a line to log.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.absence.next_deadline()
    }

    /// Logs that the broker is unreachable: soon after it went, then rarely.
    pub(super) fn log_absence(&mut self, is_connected: bool, now: Mono) {
        match is_connected {
            true => self.absence.on_present(),
            false => self.absence.on_absent(now),
        }
        if let Some(span) = self.absence.on_deadline(now) {
            let (url, seconds) = (&self.url, span.as_secs());
            let cause = self.connect_error().unwrap_or("no answer");
            tracing::warn!(
                url,
                seconds,
                "broker unreachable: {cause}; messages wait; check bus.url, its credentials and the \
                 broker"
            );
        }
    }

    /// Begins to close the connection, once.
    pub(super) fn close(&mut self) {
        self.link.close();
    }
}
