//! Things said once and not repeated: no acknowledgement, no second attempt, and nothing that
//! has gone stale is said at all.
//!
//! For what must arrive there is `publish.rs`.

use std::time::Duration;

use crate::limits::ASIDE_AGE_MAX;
use async_nats::Client;
use async_nats::header::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Mono;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::error::Refusal;
use crate::link::{Link, Signal};

/// One thing to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Where it is said.
    pub subject: String,
    /// What stands above the payload.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes.
    pub payload: Bytes,
}

/// An aside, and when it was handed over.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) aside: Aside,
    pub(crate) since: Mono,
}

/// The one task that says them.
pub(crate) struct Teller {
    pub(crate) client: Client,
    pub(crate) queue: mpsc::Receiver<Waiting>,
    pub(crate) link: watch::Receiver<Link>,
    pub(crate) signal: watch::Receiver<Signal>,
    pub(crate) clock: Clock,
}

impl Teller {
    /// Runs until the queue is closed and empty.
    pub(crate) async fn run(mut self) {
        while let Some(Waiting { aside, since }) = self.queue.recv().await {
            let age = self.clock.now().mono.since(since);
            let left = ASIDE_AGE_MAX.saturating_sub(age);
            if left.is_zero() || !self.is_up() {
                continue;
            }
            if let Err(reason) = self.say(aside, left).await {
                tracing::debug!(%reason, "not said");
            }
        }
    }

    /// What the client takes while it has no connection, it keeps and sends on return. It knows
    /// of a loss before the link does.
    fn is_up(&self) -> bool {
        self.signal.borrow().connected && self.link.borrow().delivery.is_some()
    }

    async fn say(&self, aside: Aside, left: Duration) -> Result<(), Refusal> {
        let Aside { subject, headers, payload } = aside;
        let headers = read_headers(headers)?;
        let said = self.client.publish_with_headers(subject, headers, payload);
        timeout(left, said).await.map_err(|_| Refusal::HandOver)?.map_err(Refusal::from)
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
