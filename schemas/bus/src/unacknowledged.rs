//! Messages without an acknowledgement: sent at most once, and not at all once they are older than
//! `limits::UNACKNOWLEDGED_AGE_MAX`. Messages that must arrive go through `publish.rs`.

use std::time::Duration;

use crate::limits::UNACKNOWLEDGED_AGE_MAX;
use async_nats::Client;
use async_nats::header::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::Refusal;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::link::{Link, Signal};
use crate::publish::refusal;

/// A message that is sent at most once, without an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnacknowledgedMessage {
    pub subject: String,
    pub headers: Vec<(&'static str, String)>,
    /// The bytes.
    pub payload: Bytes,
}

/// A message, and when it was handed over.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) aside: UnacknowledgedMessage,
    pub(crate) since: Mono,
}

/// The one task that sends them.
pub(crate) struct UnacknowledgedPublisher {
    pub(crate) client: Client,
    pub(crate) queue: mpsc::Receiver<QueuedMessage>,
    pub(crate) link: watch::Receiver<Link>,
    pub(crate) signal: watch::Receiver<Signal>,
    pub(crate) clock: Clock,
    /// Messages that no broker could take so far.
    pub(crate) refused: u64,
}

impl UnacknowledgedPublisher {
    /// Runs until the queue is closed and empty.
    pub(crate) async fn run(mut self) {
        while let Some(QueuedMessage { aside, since }) = self.queue.recv().await {
            let age = self.clock.now().mono.since(since);
            let left = UNACKNOWLEDGED_AGE_MAX.saturating_sub(age);
            if left.is_zero() || !self.is_up() {
                continue;
            }
            let subject = aside.subject.clone();

            match self.send(aside, left).await {
                Ok(()) => {}
                // What would not pass later either: the 1st, 2nd, 4th, 8th ... is logged.
                Err(reason @ (Refusal::TooLarge | Refusal::Malformed)) => {
                    self.refused += 1;
                    if self.refused.is_power_of_two() {
                        let (count, cause) = (self.refused, reason.explained());
                        tracing::warn!(subject, count, "message not sent: {cause}");
                    }
                }
                Err(reason) => tracing::debug!(%reason, subject, "message not sent"),
            }
        }
    }

    /// Without a connection the client would queue a message and send it on its return. The
    /// client's signal shows a loss before the link does.
    fn is_up(&self) -> bool {
        self.signal.borrow().connected && self.link.borrow().delivery.is_some()
    }

    async fn send(&self, aside: UnacknowledgedMessage, left: Duration) -> Result<(), Refusal> {
        let UnacknowledgedMessage { subject, headers, payload } = aside;
        let headers = read_headers(headers)?;
        let sent = self.client.publish_with_headers(subject, headers, payload);
        timeout(left, sent).await.map_err(|_| Refusal::HandOver)?.map_err(|error| refusal(&error))
    }
}

fn read_headers(headers: Vec<(&'static str, String)>) -> Result<HeaderMap, Refusal> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: HeaderName = name.parse().map_err(|_| Refusal::Malformed)?;
        let value: HeaderValue = value.parse().map_err(|_| Refusal::Malformed)?;
        map.append(name, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_the_protocol_cannot_carry_are_refused_and_not_a_panic() {
        for (name, value) in [("Why", "a\r\nb"), ("W:y", "a"), ("W\ny", "a")] {
            let read = read_headers(vec![(name, value.to_owned())]);
            assert_eq!(read.err(), Some(Refusal::Malformed), "{name:?} {value:?}");
        }
        let read = read_headers(vec![("Why", "too large".to_owned())]).unwrap();
        assert_eq!(read.get("Why").map(HeaderValue::as_str), Some("too large"));
    }
}
