//! Requests of nodes' own histories, over the broker: one message there, one back.
//!
//! A response is found by its number and its subject, which only its node may publish to; anything
//! else is dropped. A request without a response in time is sent once more, under another number.
//!
//! DESIGN A88.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use plimsoll_bus::{Messenger, ReceivedMessage, UnacknowledgedMessage};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::subject::{answer_filter, answering_node, ask_subject};
use plimsoll_schemas::wire::WireError;
use plimsoll_schemas::wire::history::{HistoryRequest, HistoryResponse};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::limits::{ASK_ATTEMPTS, ASK_PENDING_MAX, ASK_WAIT};

/// Why there is no response.
#[derive(Debug, Error, PartialEq)]
pub enum AskError {
    /// None came in time.
    #[error(
        "no answer: the node is away, keeps no history (--history), or the broker denies \
         plimsoll.v1.<mesh>.ask.<node> or plimsoll.v1.<mesh>.answer.<node>.*"
    )]
    Silent,
    /// Too many requests are under way.
    #[error("too many requests are under way; try again")]
    Busy,
    /// The process is ending.
    #[error("the aggregator is ending")]
    Ending,
    /// The response is none.
    #[error("the answer is invalid: {0}")]
    Invalid(WireError),
    /// The node refuses.
    #[error("the node refuses: {0}")]
    Refused(String),
}

/// Sends requests and receives responses, from the first request on. Held by the owner of the
/// connection alone; [`Asker::handle`] is for others.
#[derive(Debug)]
pub struct Asker {
    mesh: MeshName,
    messenger: Messenger,
    /// Last token of the subject of responses.
    token: String,
    pending: Arc<Pending>,
    receiver: OnceLock<Receiver>,
}

/// Asks as long as the connection's owner does.
#[derive(Clone, Debug)]
pub struct AskHandle(Weak<Asker>);

/// Requests without a response, by number.
#[derive(Debug, Default)]
struct Pending(Mutex<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    last: u64,
    waiting: BTreeMap<u64, (NodeName, oneshot::Sender<Bytes>)>,
}

/// The task that receives responses; it ends with its owner.
#[derive(Debug)]
struct Receiver(JoinHandle<()>);

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Forgets a request when its asker is gone.
struct Registered<'p> {
    pending: &'p Pending,
    number: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.pending.lock().waiting.remove(&self.number);
    }
}

impl Asker {
    /// Sends nothing yet.
    #[must_use]
    pub fn new(mesh: MeshName, messenger: Messenger) -> Arc<Self> {
        // Distinguishes aggregators; it is no secret.
        let token = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let (pending, receiver) = (Arc::default(), OnceLock::new());
        Arc::new(Self { mesh, messenger, token, pending, receiver })
    }

    /// For those who ask.
    #[must_use]
    pub fn handle(self: &Arc<Self>) -> AskHandle {
        AskHandle(Arc::downgrade(self))
    }

    fn publish(&self, node: &NodeName, request: &HistoryRequest) -> Result<(), AskError> {
        self.receiver.get_or_init(|| self.receive());
        let message = UnacknowledgedMessage {
            subject: ask_subject(&self.mesh, node),
            headers: Vec::new(),
            payload: Bytes::from(request.encode()),
        };
        self.messenger.publish(message).map_err(|_| AskError::Busy)
    }

    fn receive(&self) -> Receiver {
        let mut listener = self.messenger.listen(answer_filter(&self.mesh, &self.token));
        let pending = Arc::clone(&self.pending);
        Receiver(tokio::spawn(async move {
            while let Some(received) = listener.next().await {
                pending.on_received(received);
            }
        }))
    }
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Numbered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(
        &self,
        node: &NodeName,
    ) -> Result<(Registered<'_>, oneshot::Receiver<Bytes>), AskError> {
        let mut numbered = self.lock();
        if numbered.waiting.len() >= ASK_PENDING_MAX {
            return Err(AskError::Busy);
        }
        let (answer, answered) = oneshot::channel();
        numbered.last += 1;
        let number = numbered.last;
        numbered.waiting.insert(number, (node.clone(), answer));
        Ok((Registered { pending: self, number }, answered))
    }

    fn on_received(&self, received: ReceivedMessage) {
        let Some(number) = HistoryResponse::number_in(&received.payload) else { return };
        let Some(node) = answering_node(&received.subject) else { return };
        let mut numbered = self.lock();
        if numbered.waiting.get(&number).is_some_and(|(asked, _)| *asked == node)
            && let Some((_, answer)) = numbered.waiting.remove(&number)
        {
            // The asker may have given up.
            let _sent = answer.send(received.payload);
        }
    }
}

impl AskHandle {
    /// A node's response to a request, whose number and asker are filled in here.
    ///
    /// # Errors
    /// When there is none that can be used.
    pub async fn ask(
        &self,
        node: &NodeName,
        request: HistoryRequest,
    ) -> Result<HistoryResponse, AskError> {
        let asker = self.0.upgrade().ok_or(AskError::Ending)?;
        let (pending, token) = (Arc::clone(&asker.pending), asker.token.clone());
        drop(asker);
        let mut request = HistoryRequest { asker: token, ..request };
        for _ in 0..ASK_ATTEMPTS {
            let (registered, answered) = pending.register(node)?;
            request.number = registered.number;
            // Not held while waiting: the connection closes once its owner lets go of it.
            self.0.upgrade().ok_or(AskError::Ending)?.publish(node, &request)?;
            if let Ok(Ok(payload)) = timeout(ASK_WAIT, answered).await {
                let response = HistoryResponse::decode(&request, &payload);
                let response = response.map_err(AskError::Invalid)?;
                return match response.refused.is_empty() {
                    true => Ok(response),
                    false => Err(AskError::Refused(response.refused)),
                };
            }
        }
        Err(AskError::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_that_of_its_node_under_its_number() {
        let pending = Pending::default();
        let [n1, n2] = ["n1", "n2"].map(|name| NodeName::new(name).unwrap());
        let (first, mut answered) = pending.register(&n1).unwrap();
        let (second, mut other) = pending.register(&n2).unwrap();
        assert_eq!((first.number, second.number), (1, 2));
        let payload = |number| Bytes::from(HistoryResponse::refusal(number, "x").encode());
        let received = |node: &str, number: u64| ReceivedMessage {
            subject: format!("plimsoll.v1.m.answer.{node}.a"),
            payload: payload(number),
        };
        for (node, number) in [("n2", 1), ("n1", 2), ("n1", 3), ("*", 1)] {
            pending.on_received(received(node, number));
        }
        pending.on_received(ReceivedMessage { payload: Bytes::from("x"), ..received("n1", 1) });
        assert!(answered.try_recv().is_err() && other.try_recv().is_err());
        pending.on_received(received("n1", 1));
        assert_eq!(answered.try_recv(), Ok(payload(1)));
        drop((first, second));
        assert!(pending.lock().waiting.is_empty());
    }

    #[test]
    fn requests_are_bounded_and_those_given_up_make_room() {
        let (pending, node) = (Pending::default(), NodeName::new("n1").unwrap());
        let mut all: Vec<_> =
            (0..ASK_PENDING_MAX).map(|_| pending.register(&node).unwrap()).collect();
        assert_eq!(pending.register(&node).err(), Some(AskError::Busy));
        all.pop();
        assert!(pending.register(&node).is_ok());
    }
}
