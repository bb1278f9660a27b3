//! The queue between the handlers of both ports and the driver, which records each body.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::body::CompleteBody;
use super::budget::BodyBudget;
use super::refusal::Refusal;
use super::stats::{RequestOutcome, RequestSource};
use crate::core::departure::SocketPoll;
use crate::core::intake::otlp::{Encoding, Malformed, Outcome, Signal};
use crate::core::spool::NoteNumber;

/// A complete body, to be recorded.
pub(super) struct Post {
    signal: Signal,
    encoding: Encoding,
    body: CompleteBody,
    answer: oneshot::Sender<Result<Outcome, Refusal>>,
}

/// What the driver made of a body, and the note that the answer to it waits for.
pub struct RecordedBody {
    pub outcome: Result<Outcome, Malformed>,
    pub note: NoteNumber,
}

/// What became of a body, to be sent once it is noted.
pub(super) struct WaitingAnswer {
    outcome: Result<Outcome, Refusal>,
    client: oneshot::Sender<Result<Outcome, Refusal>>,
}

impl WaitingAnswer {
    pub(super) fn send(self) {
        // The client may have hung up.
        let _sent = self.client.send(self.outcome);
    }
}

impl Post {
    /// Records the body, whose memory is free from then on.
    pub(super) fn record(
        self,
        record: impl FnOnce(Signal, Encoding, &[u8]) -> RecordedBody,
    ) -> (SocketPoll, NoteNumber, WaitingAnswer) {
        let RecordedBody { outcome, note } = record(self.signal, self.encoding, &self.body.bytes);
        let outcome = outcome.map_err(|Malformed(words)| Refusal::Malformed(words));
        let taken = SocketPoll { datagrams: 1, bytes: self.body.bytes.len() };
        (taken, note, WaitingAnswer { outcome, client: self.answer })
    }

    pub(super) fn refuse(self, refusal: Refusal) {
        WaitingAnswer { outcome: Err(refusal), client: self.answer }.send();
    }
}

/// The sending end, shared by the handlers of both ports.
#[derive(Clone)]
pub(super) struct Inbox {
    pub(super) budget: Arc<BodyBudget>,
    pub(super) posts: mpsc::Sender<Post>,
}

impl Inbox {
    pub(super) fn on_stray(&self, protocol: &'static str, refusal: &Refusal) {
        let mut record = self.budget.begin(RequestSource::of(protocol, None));
        record.on_end(RequestOutcome::Refused(refusal.as_str()));
    }

    /// Sends a body to the driver, if there is one, and waits for the outcome.
    pub(super) async fn post(
        &self,
        signal: Signal,
        encoding: Encoding,
        body: Result<CompleteBody, Refusal>,
    ) -> Result<Outcome, Refusal> {
        let body = body?;
        let (answer, answered) = oneshot::channel();
        let post = Post { signal, encoding, body, answer };
        self.posts.send(post).await.map_err(|_| Refusal::Leaving)?;
        answered.await.map_err(|_| Refusal::Leaving)?
    }
}
