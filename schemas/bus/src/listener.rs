//! A plain subscription, for what is only of interest at the moment it is said.

use crate::limits::CURSOR_EVENTS_MAX;
use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};

use crate::connection::Ended;
use crate::link::Link;

/// Something said on a subject that we listen to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The subject.
    pub subject: String,
    /// The bytes.
    pub payload: Bytes,
}

/// A subscription that survives reconnects; what a slow owner does not take is lost.
#[derive(Debug)]
pub struct Listener {
    heard: mpsc::Receiver<Heard>,
    _task: Ended,
}

impl Listener {
    pub(crate) fn start(client: Client, link: watch::Receiver<Link>, subject: String) -> Self {
        let (out, heard) = mpsc::channel(CURSOR_EVENTS_MAX);
        let task = tokio::spawn(async move {
            let mut link = link;
            let closed = link.wait_for(|_| false);
            tokio::select! {
                _ = closed => {}
                () = pass_on(client, subject, out) => {}
            }
        });
        Self { heard, _task: Ended(task) }
    }

    /// What is said next; `None` once the connection is closed, or when the subject is none.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }
}

async fn pass_on(client: Client, subject: String, out: mpsc::Sender<Heard>) {
    let mut subscriber = match client.subscribe(subject.clone()).await {
        Ok(subscriber) => subscriber,
        Err(error) => {
            tracing::warn!(subject, %error, "subject cannot be listened to");
            return;
        }
    };
    drop(client);
    while let Some(message) = subscriber.next().await {
        let heard = Heard { subject: message.subject.to_string(), payload: message.payload };
        if out.send(heard).await.is_err() {
            return;
        }
    }
}
