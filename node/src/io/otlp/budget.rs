//! The memory budget of all request bodies, and the outcome of each request.
//!
//! A body that finds no memory is refused rather than queued: a body that holds memory and waits
//! for more could wait for another one that does the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{OTLP_BUFFERS_BYTES_MAX, OTLP_REQUEST_BYTES};

use super::refusal::Refusal;
use super::stats::{RequestOutcome, RequestSource, RequestStats};

/// Shared by all requests.
#[derive(Default)]
pub(super) struct BodyBudget(Mutex<State>);

#[derive(Default)]
struct State {
    leaving: bool,
    /// Requests that hold a part of it.
    holders: usize,
    requests: RequestStats,
}

impl BodyBudget {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses new requests from now on.
    pub(super) fn leave(&self) {
        self.state().leaving = true;
    }

    /// Whether a request holds memory.
    pub(super) fn is_occupied(&self) -> bool {
        self.state().holders > 0
    }

    pub(super) fn requests(&self) -> RequestStats {
        self.state().requests.clone()
    }

    /// Begins a request, which is counted when it ends.
    pub(super) fn begin(self: &Arc<Self>, source: RequestSource) -> RequestRecord {
        RequestRecord {
            budget: Arc::clone(self),
            source,
            ending: RequestOutcome::Refused(Refusal::HungUp.as_str()),
        }
    }
}

/// One request, counted when it is dropped. Its outcome is a disconnect until it is set.
pub(super) struct RequestRecord {
    budget: Arc<BodyBudget>,
    source: RequestSource,
    ending: RequestOutcome,
}

impl RequestRecord {
    pub(super) fn reserve(&self) -> Result<BodyReservation, Refusal> {
        let mut state = self.budget.state();
        if state.leaving {
            return Err(Refusal::Leaving);
        }
        state.holders += 1;
        // Released first: growing locks it again.
        drop(state);
        let mut reserve =
            BodyReservation { budget: Arc::clone(&self.budget), source: self.source, bytes: 0 };
        reserve.grow(OTLP_REQUEST_BYTES)?;
        Ok(reserve)
    }

    pub(super) fn on_end(&mut self, ending: RequestOutcome) {
        self.ending = ending;
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        *self.budget.state().requests.endings.entry((self.source, self.ending)).or_default() += 1;
    }
}

/// A part of the budget, released on drop.
pub(super) struct BodyReservation {
    budget: Arc<BodyBudget>,
    source: RequestSource,
    bytes: usize,
}

impl BodyReservation {
    /// This many bytes more.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let taken = &mut self.budget.state().requests.buffered_bytes;
        if *taken + bytes > OTLP_BUFFERS_BYTES_MAX {
            return Err(Refusal::Busy);
        }
        (*taken, self.bytes) = (*taken + bytes, self.bytes + bytes);
        Ok(())
    }

    /// A body has come to its end: this many bytes were sent, and this many they are now.
    pub(super) fn on_whole(&self, sent: usize, bytes: usize) {
        let mut state = self.budget.state();
        let volume = state.requests.volumes.entry(self.source).or_default();
        volume.sent += sent as u64;
        volume.inflated += bytes as u64;
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.holders -= 1;
        state.requests.buffered_bytes -= self.bytes;
    }
}
