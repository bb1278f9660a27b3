//! What the broker and the aggregators say of messages that were sent.

use crate::limits::RETRY_PAUSE;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::confirmation::{Confirmation, Confirmed};

use super::{Outbox, Sealed, Ticket};
use crate::core::flight::Sent;

/// A confirmation of what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged;

impl Outbox {
    /// The message could not be handed over: it waits again, as if never sent.
    pub fn on_not_taken(&mut self, now: Mono, ticket: Ticket) {
        self.account.retried -= u64::from(self.flight.take_back(ticket));
        self.release(ticket);
        self.resume_at = Some(now.plus(RETRY_PAUSE / 10));
    }

    /// The message did not reach the broker now: it waits again, and everything pauses.
    pub fn on_deferred(&mut self, now: Mono, ticket: Ticket) {
        self.release(ticket);
        self.resume_at = Some(now.plus(RETRY_PAUSE));
    }

    /// The broker did not take it now, which is a failure of the broker's.
    pub fn on_declined(&mut self, now: Mono, ticket: Ticket) {
        self.fail(now, ticket);
        self.resume_at = Some(now.plus(RETRY_PAUSE));
    }

    pub(super) fn release(&mut self, ticket: Ticket) {
        if self.flight.release(ticket) || self.entrusted.on_answered(ticket) {
            self.breaker.on_released(ticket);
        }
    }

    pub(super) fn fail(&mut self, now: Mono, ticket: Ticket) {
        let until = now.plus(self.bounds.breaker_open);
        if self.flight.fail(ticket, until) || self.entrusted.on_answered(ticket) {
            self.breaker.on_failure(now, ticket);
        }
    }

    /// The broker has it; tells when it was enqueued. `None` when that was known already.
    pub fn on_acknowledged(&mut self, now: Mono, ticket: Ticket) -> Option<Mono> {
        if self.entrusted.on_answered(ticket) {
            self.breaker.on_success(ticket);
        }
        let sent = self.remove(ticket)?;
        self.breaker.on_success(ticket);
        self.account.published += 1;
        self.entrusted.keep(now, ticket, sent.sealed);
        Some(sent.enqueued)
    }

    /// The broker will never take it, for what it is; gives it back.
    pub fn on_refused(&mut self, ticket: Ticket) -> Option<Sealed> {
        if self.entrusted.on_answered(ticket) {
            self.breaker.on_released(ticket);
        }
        let sent = self.remove(ticket)?;
        self.breaker.on_released(ticket);
        self.account.refused += 1;
        Some(sent.sealed)
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Sent> {
        let sent = self.flight.remove(ticket)?;
        self.pressure.on_depth(self.own().0);
        Some(sent)
    }

    /// An aggregator tells what is stored: copies of it are let go, and what it misses is sent
    /// again.
    ///
    /// # Errors
    /// When it claims to have what was never sent; then nothing of it is believed.
    pub fn on_confirmation(
        &mut self,
        now: Mono,
        confirmation: &Confirmation,
    ) -> Result<(), Forged> {
        let invented = |run: &Confirmed| {
            let sent = self.newest_sent.get(&run.incarnation);
            sent.is_some_and(|sent| run.newest() > Some(*sent))
        };
        if confirmation.runs.iter().any(invented) {
            return Err(Forged);
        }
        for ticket in self.entrusted.on_confirmation(now, confirmation) {
            // It may be on its way once more, and its acknowledgement will mean nothing then.
            self.breaker.on_released(ticket);
            self.account.confirmed += 1;
        }
        for ticket in self.flight.covered_by(confirmation) {
            // Its acknowledgement was lost on the way.
            if self.remove(ticket).is_some() {
                self.breaker.on_success(ticket);
                self.account.published += 1;
                self.account.confirmed += 1;
            }
        }
        Ok(())
    }
}
