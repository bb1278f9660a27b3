//! The connection to the broker: its events go to the core, messages of the core go out.
//!
//! Owns the link and what is logged about it once per connection. Decides nothing about messages.

use plimsoll_bus::{BusConfig, BusError, BusEvent, Refusal};
use plimsoll_runtime::absence::Absence;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::time::{Mono, Now};

use crate::core::outbox::DeadLetterReason;
use crate::core::outbox::Ticket;
use crate::core::{BrokerEvent, Core};
use crate::io::link::{Link, LinkEvent};

pub(super) struct Broker {
    link: Link,
    /// Address of the broker without secrets, for logs.
    url: String,
    absence: Absence,
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
        Ok(Self { link, url, absence, refusal_logged: false, denial_logged: false })
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> LinkEvent {
        self.link.next().await
    }

    pub(super) fn on_event(&mut self, core: &mut Core, now: Now, event: BusEvent) {
        let signal = match event {
            BusEvent::Connected { delivery, server_version } => {
                tracing::info!(delivery = delivery.as_str(), server_version, "broker connected");
                (self.refusal_logged, self.denial_logged) = (false, false);
                BrokerEvent::Connected
            }
            BusEvent::Disconnected => {
                tracing::warn!("broker disconnected; messages wait");
                BrokerEvent::Disconnected
            }
            BusEvent::Stalled => {
                tracing::warn!("broker does not answer; messages wait");
                BrokerEvent::Stalled
            }
            BusEvent::RoundTrip(span) => {
                if core.is_stalled() {
                    tracing::info!("broker answers again");
                }
                BrokerEvent::RoundTrip(span)
            }
            BusEvent::Acknowledged { token, .. } => BrokerEvent::Acknowledged(Ticket(token)),
            BusEvent::Refused { token, reason } => self.on_refused(Ticket(token), &reason),
            BusEvent::Denied { text } => self.on_denied(&text),
        };
        core.on_broker_event(now, signal);
    }

    fn on_denied(&mut self, text: &str) -> BrokerEvent {
        if !std::mem::replace(&mut self.denial_logged, true) {
            tracing::warn!(text, "broker denies permission; check the permissions of this user");
        }
        BrokerEvent::Denied
    }

    /// A message that no broker accepts is lost; any other is sent again. Only an answer of the
    /// broker counts against the broker: a message that never left this process proves nothing.
    fn on_refused(&mut self, ticket: Ticket, reason: &Refusal) -> BrokerEvent {
        if !std::mem::replace(&mut self.refusal_logged, true) {
            tracing::warn!(%reason, "broker rejected a message");
        }
        match reason {
            Refusal::TooLarge => BrokerEvent::Rejected(ticket, DeadLetterReason::TooLarge),
            Refusal::Malformed => BrokerEvent::Rejected(ticket, DeadLetterReason::Malformed),
            Refusal::NoResponders | Refusal::Rejected { .. } | Refusal::Unreadable => {
                BrokerEvent::Declined(ticket)
            }
            Refusal::HandOver | Refusal::Closed => BrokerEvent::Deferred(ticket),
        }
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
            tracing::warn!(
                url,
                seconds,
                "broker unreachable; messages wait; check bus.url, its credentials and the broker"
            );
        }
    }

    /// Begins to close the connection, once.
    pub(super) fn close(&mut self) {
        self.link.close();
    }
}
