//! What comes from the broker and goes to it: events to the core, its messages to the connection.

use plimsoll_bus::{BusEvent, Refusal};
use plimsoll_schemas::time::Now;

use super::Driver;
use crate::core::BrokerEvent;
use crate::core::outbox::DeadLetterReason;
use crate::core::outbox::Ticket;
use crate::io::link::LinkEvent;

impl Driver {
    pub(super) fn on_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Bus(event) => self.on_bus(event),
            LinkEvent::Confirmation(payload) => self.on_confirmation(&payload),
            LinkEvent::CutOff => self.departure.on_connection_lost(self.clock.now().mono),
            LinkEvent::Closed => self.departure.on_closed(),
        }
    }

    fn on_bus(&mut self, event: BusEvent) {
        let now = self.clock.now();
        let signal = match event {
            BusEvent::Connected { delivery, server_version } => {
                tracing::info!(delivery = delivery.as_str(), server_version, "broker connected");
                (self.complained, self.denial_told) = (false, false);
                BrokerEvent::Connected
            }
            BusEvent::Disconnected => {
                tracing::warn!("broker disconnected; messages wait");
                BrokerEvent::Disconnected
            }
            BusEvent::Stalled => {
                tracing::warn!("broker is silent; messages wait");
                BrokerEvent::Stalled
            }
            BusEvent::RoundTrip(span) => {
                self.own_text.on_round_trip();
                if self.core.is_stalled() {
                    tracing::info!("broker answers again");
                }
                BrokerEvent::RoundTrip(span)
            }
            BusEvent::Acknowledged { token, .. } => BrokerEvent::Acknowledged(Ticket(token)),
            BusEvent::Refused { token, reason } => self.on_refused(Ticket(token), &reason),
            BusEvent::Denied { text } => self.on_denied(&text),
        };
        self.core.on_broker_event(now, signal);
    }

    fn on_confirmation(&mut self, payload: &[u8]) {
        let Err(reason) = self.core.on_confirmation(self.clock.now(), payload) else {
            return;
        };
        // Anyone who may publish can cause this: the 1st, 2nd, 4th, 8th ... is logged.
        let count: u64 = self.core.status().confirmations.rejected.values().sum();
        if count.is_power_of_two() {
            tracing::warn!(reason, count, "confirmation not believed; who may publish it?");
        }
    }

    fn on_denied(&mut self, text: &str) -> BrokerEvent {
        if !std::mem::replace(&mut self.denial_told, true) {
            tracing::warn!(text, "broker denies; check its permissions for this user");
        }
        BrokerEvent::Denied
    }

    /// What no broker can take is given up; anything else may pass. Only what the broker itself
    /// said counts against it: a message that never left us says nothing about it.
    fn on_refused(&mut self, ticket: Ticket, reason: &Refusal) -> BrokerEvent {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(%reason, "broker did not take a message");
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

    pub(super) fn publish(&mut self, now: Now) {
        if !self.link.is_open() {
            return;
        }
        while let Some(publish) = self.core.next_publish(now) {
            if let Err(ticket) = self.link.try_publish(publish) {
                return self.core.on_handover_failed(now, ticket);
            }
        }
        while let Some(letter) = self.core.next_dead_letter() {
            self.link.leave(letter);
        }
    }
}
