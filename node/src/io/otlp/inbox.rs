//! The queue between the handlers of both ports and the driver, which records each body.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::body::CompleteBody;
use super::budget::BodyBudget;
use super::refusal::Refusal;
use crate::core::departure::SocketPoll;
use crate::core::intake::otlp::{Encoding, Malformed, Outcome, Signal};

/// A complete body, to be recorded.
pub struct Post {
    signal: Signal,
    encoding: Encoding,
    body: CompleteBody,
    answer: oneshot::Sender<Result<Outcome, Malformed>>,
}

impl Post {
    /// Records the body and sends the outcome to its client.
    pub fn answer(
        self,
        record: impl FnOnce(Signal, Encoding, &[u8]) -> Result<Outcome, Malformed>,
    ) -> SocketPoll {
        let outcome = record(self.signal, self.encoding, self.body.bytes());
        // The client may have hung up.
        let _sent = self.answer.send(outcome);
        SocketPoll { datagrams: 1, bytes: self.body.bytes().len() }
    }
}

/// The sending end, shared by the handlers of both ports.
#[derive(Clone)]
pub(super) struct Inbox {
    pub(super) budget: Arc<BodyBudget>,
    pub(super) posts: mpsc::Sender<Post>,
}

impl Inbox {
    /// Sends a body to the driver and waits for the outcome.
    pub(super) async fn post(
        &self,
        signal: Signal,
        encoding: Encoding,
        body: CompleteBody,
    ) -> Result<Outcome, Refusal> {
        let (answer, answered) = oneshot::channel();
        let post = Post { signal, encoding, body, answer };
        self.posts.send(post).await.map_err(|_| Refusal::Leaving)?;
        let outcome = answered.await.map_err(|_| Refusal::Leaving)?;
        outcome.map_err(|Malformed(words)| Refusal::Malformed(words))
    }
}
