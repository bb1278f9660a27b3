//! One connection's slot: reports the events of the connection to the [`ConnectionTable`].
//!
//! The request, its body and the socket each see a part of the events, so each holds the slot.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::Request;
use hyper::body::{Body, Frame, SizeHint};
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Mono;

use super::stats::CloseReason;
use super::table::{ConnectionId, ConnectionTable};

/// The table and the clock of its timestamps.
pub(super) struct SharedTable {
    table: Mutex<ConnectionTable>,
    clock: Clock,
}

impl SharedTable {
    pub(super) fn new(table: ConnectionTable) -> Self {
        Self { table: Mutex::new(table), clock: Clock::start() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Mono {
        self.clock.now().mono
    }
}

/// A connection's entry in the table, shared by its parts; the last one dropped closes it.
#[derive(Clone)]
pub(super) struct ConnectionSlot(Arc<SlotState>);

struct SlotState {
    table: Arc<SharedTable>,
    id: ConnectionId,
    has_request: AtomicBool,
    settled: AtomicBool,
}

impl ConnectionSlot {
    pub(super) fn new(table: Arc<SharedTable>, id: ConnectionId) -> Self {
        let (has_request, settled) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(SlotState { table, id, has_request, settled }))
    }

    fn update(&self, change: impl FnOnce(&mut ConnectionTable, Mono, ConnectionId)) {
        let now = self.0.table.now();
        change(&mut self.0.table.lock(), now, self.0.id);
    }

    /// The head of a request was received; its body is wrapped, to see when it is complete.
    pub(super) fn on_request<B: Body + Unpin>(
        &self,
        request: Request<B>,
    ) -> (PendingRequest, Request<RequestBody<B>>) {
        self.0.has_request.store(true, Ordering::Relaxed);
        let (slot, is_whole) = (self.clone(), Arc::<AtomicBool>::default());
        let pending = PendingRequest { slot: slot.clone(), is_whole: Arc::clone(&is_whole) };
        let request = request.map(|body| RequestBody { body, slot, is_whole });
        // A request without a body is whole now: nothing polls an empty body.
        if request.body().is_end_stream() {
            request.body().on_whole();
        }
        (pending, request)
    }

    /// Whether any request was received.
    pub(super) fn has_request(&self) -> bool {
        self.0.has_request.load(Ordering::Relaxed)
    }

    pub(super) fn on_written(&self) {
        self.update(ConnectionTable::on_written);
    }

    pub(super) fn on_closed(&self, reason: CloseReason) {
        self.update(|table, _, id| table.on_closed(id, reason));
    }

    /// The connection ends in order: the kernel may deliver the bytes that it still holds.
    pub(super) fn settle(&self) {
        self.0.settled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.0.settled.load(Ordering::Relaxed)
    }
}

impl Drop for SlotState {
    /// A connection that was not closed before is that of a panicked handler.
    fn drop(&mut self) {
        self.table.lock().on_closed(self.id, CloseReason::Broken);
    }
}

/// A request without answer yet; dropping it ends the wait.
pub(super) struct PendingRequest {
    slot: ConnectionSlot,
    /// Shared with its body: the first of both to set it updates the table.
    is_whole: Arc<AtomicBool>,
}

impl PendingRequest {
    /// Wraps the body of the answer, to see when the writer has all of it.
    pub(super) fn on_answer<B: Body>(self, body: B) -> ResponseBody<B> {
        let (bytes, slot) = (body.size_hint().lower(), self.slot.clone());
        // The request first: it must not count as being answered beside its own answer.
        drop(self);
        slot.update(|table, now, id| table.on_answer(now, id, bytes));
        ResponseBody { body, slot }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if self.is_whole.swap(true, Ordering::Relaxed) {
            self.slot.update(ConnectionTable::on_request_over);
        }
    }
}

/// A request body that reports when it is complete.
pub(super) struct RequestBody<B> {
    body: B,
    slot: ConnectionSlot,
    is_whole: Arc<AtomicBool>,
}

impl<B> RequestBody<B> {
    fn on_whole(&self) {
        if !self.is_whole.swap(true, Ordering::Relaxed) {
            self.slot.update(ConnectionTable::on_request);
        }
    }
}

impl<B: Body + Unpin> Body for RequestBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.on_whole();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body that reports when the writer drops it.
pub(super) struct ResponseBody<B> {
    body: B,
    slot: ConnectionSlot,
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        self.slot.update(|table, _, id| table.on_body_buffered(id));
    }
}
