//! The broker's end of a cursor: an ephemeral consumer that is pulled in batches. It ends with its
//! subscription; `reader.rs` checks what it delivers.

use crate::limits::{CONSUMER_IDLE_MAX, REQUEST_WAIT, STALL_AFTER};
use async_nats::{Client, Message, SubscribeError, Subscriber};
use futures_util::{FutureExt, StreamExt};
use plimsoll_schemas::time::nanos;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::time::timeout;

use crate::api::{self, ApiError};
use crate::pull::{self, PullSize};

/// Why reading was interrupted.
#[derive(Debug, Error)]
pub(crate) enum Interruption {
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("client refused the subscription: {0}")]
    Subscription(#[from] SubscribeError),
    #[error("client did not take the request in time")]
    Stuck,
    #[error("broker fell silent")]
    Silent,
    #[error("consumer is gone: {0}")]
    Gone(String),
    #[error("a message was missed")]
    Gap,
    #[error("the consumer's server lacks messages that the stream has")]
    Behind,
    #[error("the reader is gone")]
    ReaderGone,
}

/// The broker's end of a cursor, and ours.
pub(crate) struct Consumer {
    /// Where requests for messages go.
    pulls: String,
    /// Where messages come in; the request's number is the last token.
    inbox: String,
    subscriber: Subscriber,
    requests: u64,
    /// Number of the last message that this consumer sent.
    pub(crate) last_seq: u64,
}

impl Consumer {
    /// Opens one that begins at message `start_seq` of a stream.
    pub(crate) async fn open(
        client: &Client,
        stream: &str,
        start_seq: u64,
    ) -> Result<Self, Interruption> {
        let inbox = client.new_inbox();
        let subscriber = subscribe(client, format!("{inbox}.*")).await?;
        let operation = format!("CONSUMER.CREATE.{stream}");

        let config = json!({
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start_seq,
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "inactive_threshold": nanos(CONSUMER_IDLE_MAX),
            // Nothing is lost with it: the reader has its position, and opens another (S22, S72).
            "num_replicas": 1,
            "mem_storage": true,
        });

        let body = json!({ "stream_name": stream, "config": config });
        let Created { name } = api::call(client, &operation, &body).await?;
        let pulls = format!("{}.CONSUMER.MSG.NEXT.{stream}.{name}", api::PREFIX);
        Ok(Self { pulls, inbox, subscriber, requests: 0, last_seq: 0 })
    }

    /// Requests messages; the request before must have ended.
    pub(crate) async fn request(
        &mut self,
        client: &Client,
        size: PullSize,
    ) -> Result<(), Interruption> {
        self.requests += 1;
        let answers = format!("{}.{}", self.inbox, self.requests);
        let body = pull::request(size).to_string().into();
        let sent = client.publish_with_reply(self.pulls.clone(), answers, body);
        match timeout(STALL_AFTER, sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Interruption::Stuck),
        }
    }

    /// The next message from the broker. A timeout costs a timer, so a message that is there
    /// already is taken without one.
    pub(crate) async fn next(&mut self) -> Result<Message, Interruption> {
        let received = match self.subscriber.next().now_or_never() {
            Some(received) => received,
            None => timeout(STALL_AFTER, self.subscriber.next())
                .await
                .map_err(|_| Interruption::Silent)?,
        };
        received.ok_or(Interruption::ReaderGone)
    }

    /// Whether a message without content is about the latest request.
    pub(crate) fn is_latest_request(&self, message: &Message) -> bool {
        let number = message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
        number == Some(self.requests)
    }
}

/// Subscribes, unless the client is too busy to.
pub(crate) async fn subscribe(
    client: &Client,
    subject: String,
) -> Result<Subscriber, Interruption> {
    let subscribed = timeout(REQUEST_WAIT, client.subscribe(subject)).await;
    Ok(subscribed.map_err(|_| Interruption::Stuck)??)
}

/// The part of the answer to a consumer's creation that matters here.
#[derive(Deserialize)]
struct Created {
    name: String,
}
