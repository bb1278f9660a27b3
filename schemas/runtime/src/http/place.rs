//! One connection's place among all: what happens to it is told to the [`Book`] from here.
//!
//! The request, its body and the socket each know a part of it, so each holds a place.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::Request;
use hyper::body::{Body, Frame, SizeHint};
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Mono;

use super::book::{Book, Id};
use super::figures::Closed;

/// The book and the clock that its entries are dated by.
pub(super) struct Ledger {
    book: Mutex<Book>,
    clock: Clock,
}

impl Ledger {
    pub(super) fn new(book: Book) -> Self {
        Self { book: Mutex::new(book), clock: Clock::start() }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Mono {
        self.clock.now().mono
    }
}

/// A connection's entry in the book, until nobody holds it any more.
#[derive(Clone)]
pub(super) struct Place(Arc<Held>);

struct Held {
    ledger: Arc<Ledger>,
    id: Id,
    has_asked: AtomicBool,
    settled: AtomicBool,
}

impl Place {
    pub(super) fn new(ledger: Arc<Ledger>, id: Id) -> Self {
        let (has_asked, settled) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Held { ledger, id, has_asked, settled }))
    }

    fn tell(&self, tell: impl FnOnce(&mut Book, Mono, Id)) {
        let now = self.0.ledger.now();
        tell(&mut self.0.ledger.book(), now, self.0.id);
    }

    /// The head of a request has come; its body is watched until all of it has.
    pub(super) fn on_request<B: Body + Unpin>(
        &self,
        request: Request<B>,
    ) -> (Asked, Request<Coming<B>>) {
        self.0.has_asked.store(true, Ordering::Relaxed);
        let (place, is_whole) = (self.clone(), Arc::<AtomicBool>::default());
        let asked = Asked { place: place.clone(), is_whole: Arc::clone(&is_whole) };
        let request = request.map(|body| Coming { body, place, is_whole });
        if request.body().is_end_stream() {
            request.body().on_whole();
        }
        (asked, request)
    }

    /// Whether any request has come.
    pub(super) fn has_asked(&self) -> bool {
        self.0.has_asked.load(Ordering::Relaxed)
    }

    pub(super) fn on_written(&self) {
        self.tell(Book::on_written);
    }

    pub(super) fn on_closed(&self, reason: Closed) {
        self.tell(|book, _, id| book.on_closed(id, reason));
    }

    /// Nothing is left to say to the client: what the kernel still holds may be delivered.
    pub(super) fn settle(&self) {
        self.0.settled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.0.settled.load(Ordering::Relaxed)
    }
}

impl Drop for Held {
    /// An end that nobody told of is that of a handler that panicked.
    fn drop(&mut self) {
        self.ledger.book().on_closed(self.id, Closed::Broken);
    }
}

/// A request that waits for its answer; dropped without one, nobody waits any more.
pub(super) struct Asked {
    place: Place,
    /// Shared with its body: whoever sets it first tells the book.
    is_whole: Arc<AtomicBool>,
}

impl Asked {
    /// Gives the answer's body, watched until the writer has all of it.
    pub(super) fn on_answer<B: Body>(self, body: B) -> Watched<B> {
        let (bytes, place) = (body.size_hint().lower(), self.place.clone());
        drop(self);
        place.tell(|book, now, id| book.on_answer(now, id, bytes));
        Watched { body, place }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.is_whole.swap(true, Ordering::Relaxed) {
            self.place.tell(Book::on_request_over);
        }
    }
}

/// A request's body: itself, and a word when all of it has come.
pub(super) struct Coming<B> {
    body: B,
    place: Place,
    is_whole: Arc<AtomicBool>,
}

impl<B> Coming<B> {
    fn on_whole(&self) {
        if !self.is_whole.swap(true, Ordering::Relaxed) {
            self.place.tell(Book::on_request);
        }
    }
}

impl<B: Body + Unpin> Body for Coming<B> {
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

/// An answer's body: itself, and a word when the writer lets go of it.
pub(super) struct Watched<B> {
    body: B,
    place: Place,
}

impl<B: Body + Unpin> Body for Watched<B> {
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

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        self.place.tell(|book, _, id| book.on_all_said(id));
    }
}
