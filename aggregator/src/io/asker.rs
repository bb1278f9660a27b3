//! Requests to nodes, of their own histories and for captures, over the broker: one message there,
//! one back.
//!
//! A response is found by its number and its subject, which only its node may publish to; anything
//! else is dropped and counted. Bytes without a number that can be read end the node's oldest
//! request, so that its asker learns what is wrong with them. A request without a response in time
//! is sent once more, under another number.
//!
//! DESIGN A88.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_bus::{Messenger, ReceivedMessage, UnacknowledgedMessage};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::limits::wire::HISTORY_OPERATIONS_MAX;
use plimsoll_schemas::subject::{answer_filter, answering_node, ask_subject, capture_subject};
use plimsoll_schemas::wire::WireError;
use plimsoll_schemas::wire::capture::{CaptureId, CaptureRequest, CaptureResponse, CaptureStep};
use plimsoll_schemas::wire::history::{HistoryRequest, HistoryResponse};
use plimsoll_schemas::wire::signature::ConfirmKey;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::core::captures::RequestError;
use crate::core::view::AskCounts;
use crate::limits::captures::CHUNK_WAIT;
use crate::limits::{ASK_ALL_WAIT, ASK_ATTEMPTS, ASK_PENDING_MAX, ASK_WAIT};

/// Why there is no response.
#[derive(Debug, Error, PartialEq)]
pub enum AskError {
    /// None came in time.
    #[error(
        "no answer: the node is away, keeps no history (--history), is of a version before such \
         requests, or the broker denies plimsoll.v1.<mesh>.ask.<node> or plimsoll.v1.<mesh>.answer.<node>.*"
    )]
    Silent,
    /// None came in time, but others did.
    #[error(
        "no answer in time, but {others} to other requests: the node takes more than {ASK_WAIT:?}, \
         or answers with wrong numbers"
    )]
    Unexpected { others: u64 },
    /// The query ended before.
    #[error(
        "out of time: one query may take {ASK_ALL_WAIT:?}; name fewer nodes, or a shorter range"
    )]
    OutOfTime,
    #[error(
        "the answer has more than {points} points of readings: name a sensor, fewer nodes, a \
         longer step or a shorter range"
    )]
    TooMuch {
        /// What one node may add.
        points: usize,
    },
    #[error(
        "more than {HISTORY_OPERATIONS_MAX} operations and classes in the range: name a shorter one"
    )]
    TooManyOperations,
    #[error("too many requests are in progress; retry")]
    Busy,
    #[error("the aggregator is shutting down")]
    Ending,
    #[error("the answer is invalid: {0}")]
    Invalid(WireError),
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
    waiting: BTreeMap<u64, Waiting>,
    counts: AskCounts,
}

#[derive(Debug)]
struct Waiting {
    node: NodeName,
    answer: oneshot::Sender<Bytes>,
    /// Responses of the node to other requests, meanwhile.
    others: u64,
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

impl Registered<'_> {
    /// Responses of its node to other requests, meanwhile.
    fn others(&self) -> u64 {
        self.pending.lock().waiting.get(&self.number).map_or(0, |waiting| waiting.others)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.pending.lock().waiting.remove(&self.number);
    }
}

impl Asker {
    pub fn new(mesh: MeshName, messenger: Messenger) -> Arc<Self> {
        // Distinguishes aggregators; it is no secret.
        let token = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let (pending, receiver) = (Arc::default(), OnceLock::new());
        Arc::new(Self { mesh, messenger, token, pending, receiver })
    }

    /// For those who ask.
    pub fn handle(self: &Arc<Self>) -> AskHandle {
        AskHandle(Arc::downgrade(self))
    }

    /// What became of requests so far.
    pub fn counts(&self) -> AskCounts {
        self.pending.lock().counts
    }

    fn publish(&self, subject: String, payload: Bytes) -> Result<(), AskError> {
        // Before the request is sent, whose answer may come at once.
        self.receiver.get_or_init(|| self.receive());
        let message = UnacknowledgedMessage { subject, headers: Vec::new(), payload };
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
        numbered.waiting.insert(number, Waiting { node: node.clone(), answer, others: 0 });
        Ok((Registered { pending: self, number }, answered))
    }

    fn on_received(&self, received: ReceivedMessage) {
        let node = answering_node(&received.subject);
        let number = HistoryResponse::number_in(&received.payload);
        let mut numbered = self.lock();
        match node.and_then(|node| numbered.take(&node, number)) {
            // The asker may have given up.
            Some(answer) => drop(answer.send(received.payload)),
            None => numbered.counts.unexpected += 1,
        }
    }

    fn count(&self, result: &Result<HistoryResponse, AskError>) {
        let counts = &mut self.lock().counts;
        match result {
            Ok(_) => counts.answered += 1,
            Err(AskError::Refused(_)) => counts.refused += 1,
            Err(AskError::Invalid(_)) => counts.invalid += 1,
            Err(_) => counts.missing += 1,
        }
    }
}

impl Numbered {
    /// The request that a node's response with this number is for.
    fn take(&mut self, node: &NodeName, number: Option<u64>) -> Option<oneshot::Sender<Bytes>> {
        let is_of_node = |(_, waiting): &(&u64, &Waiting)| waiting.node == *node;
        let mut of_node = self.waiting.iter().filter(is_of_node).map(|(of, _)| *of);
        let found = match number {
            Some(number) => of_node.find(|of| *of == number),
            None => of_node.next(),
        };
        if found.is_none() {
            let of_node = self.waiting.values_mut().filter(|waiting| waiting.node == *node);
            of_node.for_each(|waiting| waiting.others += 1);
        }
        self.waiting.remove(&found?).map(|waiting| waiting.answer)
    }
}

impl AskHandle {
    /// A node's response to a request of its history, whose number and asker are filled in here.
    pub async fn ask(
        &self,
        node: &NodeName,
        request: HistoryRequest,
    ) -> Result<HistoryResponse, AskError> {
        let numbered = |number, asker| HistoryRequest { number, asker, ..request.clone() };
        let encode = |asker: &Asker, number| numbered(number, asker.token.clone()).encode();
        let decode = |number, payload: &[u8]| {
            let response = HistoryResponse::decode(&numbered(number, String::new()), payload);
            let response = response.map_err(AskError::Invalid)?;
            match response.refused.is_empty() {
                true => Ok(response),
                false => Err(AskError::Refused(response.refused)),
            }
        };
        let response = self.exchange(node, ask_subject, ASK_WAIT, encode, decode).await;
        if let Some(asker) = self.0.upgrade() {
            asker.pending.count(&response);
        }
        response
    }

    /// A node's response to a step of a capture, which is signed.
    pub async fn capture(
        &self,
        node: &NodeName,
        id: CaptureId,
        step: CaptureStep,
        key: &ConfirmKey,
    ) -> Result<CaptureResponse, RequestError> {
        let wait = match step {
            CaptureStep::Order(_) | CaptureStep::Stop => ASK_WAIT,
            CaptureStep::Chunk(_) => CHUNK_WAIT,
        };
        let encode = |asker: &Asker, number| {
            let (node, step, token) = (node.clone(), step.clone(), asker.token.clone());
            CaptureRequest { number, asker: token, node, id, step }.encode(&asker.mesh, key)
        };
        let decode = |_, payload: &[u8]| Ok(CaptureResponse::decode(payload));
        let response = self.exchange(node, capture_subject, wait, encode, decode).await;
        let response = response.map_err(|_| RequestError::NoResponse)?;
        response.ok().filter(|of| of.id == id).ok_or(RequestError::Invalid)
    }

    /// A node's response to a request that is encoded and decoded with its number.
    async fn exchange<T>(
        &self,
        node: &NodeName,
        subject: fn(&MeshName, &NodeName) -> String,
        wait: Duration,
        encode: impl Fn(&Asker, u64) -> Vec<u8>,
        decode: impl Fn(u64, &[u8]) -> Result<T, AskError>,
    ) -> Result<T, AskError> {
        let pending = Arc::clone(&self.asker()?.pending);
        let mut others = 0;
        for _ in 0..ASK_ATTEMPTS {
            // Under a number of its own, so that a late answer
            // to the first attempt is not taken for one to this.
            let (registered, answered) = pending.register(node)?;
            let number = registered.number;
            {
                // Not held while waiting: the connection closes once its owner lets go of it.
                let asker = self.asker()?;
                let payload = Bytes::from(encode(&asker, number));
                asker.publish(subject(&asker.mesh, node), payload)?;
            }
            if let Ok(Ok(payload)) = timeout(wait, answered).await {
                return decode(number, &payload);
            }
            others += registered.others();
        }
        Err(if others == 0 { AskError::Silent } else { AskError::Unexpected { others } })
    }

    fn asker(&self) -> Result<Arc<Asker>, AskError> {
        self.0.upgrade().ok_or(AskError::Ending)
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
        assert!(answered.try_recv().is_err() && other.try_recv().is_err());
        assert_eq!((first.others(), second.others()), (2, 1));
        pending.on_received(received("n1", 1));
        assert_eq!(answered.try_recv(), Ok(payload(1)));
        assert_eq!(pending.lock().counts.unexpected, 4);
        drop((first, second));
        assert!(pending.lock().waiting.is_empty());
    }

    #[test]
    fn bytes_without_a_number_end_the_oldest_request_of_their_node() {
        let pending = Pending::default();
        let [n1, n2] = ["n1", "n2"].map(|name| NodeName::new(name).unwrap());
        let (_other, mut of_other) = pending.register(&n2).unwrap();
        let (_first, mut first) = pending.register(&n1).unwrap();
        let (_second, mut second) = pending.register(&n1).unwrap();
        let (subject, payload) = ("plimsoll.v1.m.answer.n1.a".to_owned(), Bytes::from("x"));
        pending.on_received(ReceivedMessage { subject, payload: payload.clone() });
        assert_eq!(first.try_recv(), Ok(payload));
        assert!(second.try_recv().is_err() && of_other.try_recv().is_err());
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
