//! A plain subscription without a stream: a message that is published while there is no connection
//! is lost.

use crate::limits::CURSOR_EVENTS_MAX;
use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};

use crate::link::Link;
use crate::task::AbortOnDrop;

/// A message received on a subscribed subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub subject: String,
    /// The bytes.
    pub payload: Bytes,
}

/// A subscription that survives reconnects; a slow owner loses messages.
#[derive(Debug)]
pub struct Listener {
    messages: mpsc::Receiver<ReceivedMessage>,
    _task: AbortOnDrop,
}

impl Listener {
    pub(crate) fn start(client: Client, link: watch::Receiver<Link>, subject: String) -> Self {
        let (out, messages) = mpsc::channel(CURSOR_EVENTS_MAX);
        let task = tokio::spawn(async move {
            let mut link = link;
            let closed = link.wait_for(|_| false);
            tokio::select! {
                _ = closed => {}
                () = forward(client, subject, out) => {}
            }
        });
        Self { messages, _task: AbortOnDrop(task) }
    }

    /// The next message; `None` once the connection is closed, or when the subject is invalid.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<ReceivedMessage> {
        self.messages.recv().await
    }
}

async fn forward(client: Client, subject: String, out: mpsc::Sender<ReceivedMessage>) {
    let mut subscriber = match client.subscribe(subject.clone()).await {
        Ok(subscriber) => subscriber,
        Err(error) => {
            tracing::warn!(subject, %error, "subscription failed");
            return;
        }
    };

    drop(client);

    while let Some(message) = subscriber.next().await {
        let message =
            ReceivedMessage { subject: message.subject.to_string(), payload: message.payload };
        if out.send(message).await.is_err() {
            return;
        }
    }
}
