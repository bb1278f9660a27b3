//! A publish that a stream takes only if its newest message of the same subject has the expected
//! number: of several processes that publish the same subject, those that have not seen the newest
//! message publish nothing.
//!
//! nats-server 2.9 recognises a repeated message id before it compares the number, 2.15 after that:
//! it refuses a message that is sent again because its answer was lost. So a sender that was
//! overtaken looks whether the newest message is its own.
//!
//! DESIGN S81.

use async_nats::header::{
    HeaderMap, HeaderName, HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID,
};
use async_nats::{Client, Request, RequestErrorKind};
use bytes::Bytes;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::transport::Refusal;
use plimsoll_schemas::wire::SENT_HEADER;
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::acknowledgement;
use crate::api::{ApiError, code};
use crate::direct_get::{self, StoredMessage};
use crate::limits::REQUEST_WAIT;
use crate::link::Link;
use crate::streams;

/// A message for a stream that may have a newer one already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalMessage {
    pub subject: String,
    /// The same for every attempt to send the same bytes.
    pub message_id: String,
    /// Headers beside those that the bus itself sets; few.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes.
    pub payload: Bytes,
}

/// Why a message was not taken, as far as is known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConditionalError {
    /// The newest message of the subject has another number, and it is not this one: another
    /// process published before, or after an earlier attempt.
    #[error("another message of this subject came first")]
    Overtaken,
    /// No connection, or no answer in time, or the broker is still at another attempt: the message
    /// may have been taken. Send it again under the same id.
    #[error("no answer in time")]
    Silent,
    /// It was not taken.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMessage {
    /// Its number in the stream.
    pub seq: u64,
    /// When the broker stored it, by the broker's clock.
    pub at: Option<Wall>,
    /// Its sender's id of it.
    pub message_id: Option<String>,
    /// The bytes.
    pub payload: Bytes,
}

/// Publishes `message` if the newest of its subject has the number `after`. Returns its own.
pub(crate) async fn publish_after(
    client: &Client,
    link: &watch::Receiver<Link>,
    clock: Clock,
    message: ConditionalMessage,
    after: u64,
) -> Result<u64, ConditionalError> {
    let (subject, message_id) = (message.subject.clone(), message.message_id.clone());
    let outcome = send(client, link, clock, message, after).await;

    let Err(Outcome::Overtaken { stream }) = outcome else {
        return outcome.map_err(|outcome| match outcome {
            Outcome::Overtaken { .. } => ConditionalError::Overtaken,
            Outcome::Silent => ConditionalError::Silent,
            Outcome::Refused(refusal) => refusal.into(),
        });
    };

    match direct_get::newest(client, &stream, &subject).await {
        Ok(Some(newest)) if newest.message_id.as_ref() == Some(&message_id) => Ok(newest.seq),
        Ok(_) => Err(ConditionalError::Overtaken),
        Err(_) => Err(ConditionalError::Silent),
    }
}

/// How one attempt failed.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Overtaken { stream: String },
    Silent,
    Refused(Refusal),
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

async fn send(
    client: &Client,
    link: &watch::Receiver<Link>,
    clock: Clock,
    message: ConditionalMessage,
    after: u64,
) -> Result<u64, Outcome> {
    let ConditionalMessage { subject, message_id, headers, payload } = message;

    let sent = async {
        // Without a connection the client would queue the message and send it at some later time.
        let mut link = link.clone();
        let up = link.wait_for(|link| link.delivery.is_some()).await.map(|_| ());
        up.map_err(|_| Refusal::Closed)?;

        let request = Request::new()
            .headers(written(&message_id, headers, after, clock)?)
            .payload(payload)
            .inbox(client.new_inbox())
            .timeout(Some(REQUEST_WAIT));

        match client.send_request(subject, request).await {
            Ok(answer) => read(answer.status.map(|status| status.as_u16()), &answer.payload),
            Err(error) => Err(match error.kind() {
                RequestErrorKind::NoResponders => Refusal::NoResponders.into(),
                RequestErrorKind::MaxPayloadExceeded => Refusal::TooLarge.into(),
                RequestErrorKind::InvalidSubject => Refusal::Malformed.into(),
                _ => Outcome::Silent,
            }),
        }
    };

    timeout(REQUEST_WAIT, sent).await.unwrap_or(Err(Outcome::Silent))
}

fn written(
    message_id: &str,
    headers: Vec<(&'static str, String)>,
    after: u64,
    clock: Clock,
) -> Result<HeaderMap, Refusal> {
    let value = |text: &str| text.parse::<HeaderValue>().map_err(|_| Refusal::Malformed);
    let mut map = HeaderMap::new();
    map.insert(NATS_MESSAGE_ID, value(message_id)?);
    map.insert(SENT_HEADER, HeaderValue::from(clock.now().wall.0));
    map.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(after));
    for (name, text) in headers {
        let name: HeaderName = name.parse().map_err(|_| Refusal::Malformed)?;
        map.insert(name, value(&text)?);
    }
    Ok(map)
}

fn read(status: Option<u16>, payload: &[u8]) -> Result<u64, Outcome> {
    match acknowledgement::read(status, payload) {
        Ok(stored) if stored.seq > 0 => Ok(stored.seq),
        // Not from a stream.
        Ok(_) => Err(Refusal::Unreadable.into()),
        Err(Refusal::Rejected { code: code::WRONG_LAST_SEQUENCE, .. }) => {
            let at = serde_json::from_slice::<Place>(payload);
            Err(at.map_or(Refusal::Unreadable.into(), |Place { stream }| Outcome::Overtaken {
                stream,
            }))
        }
        Err(Refusal::Rejected { code, .. }) if code::IN_PROCESS.contains(&code) => {
            Err(Outcome::Silent)
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// The stream that an answer is of.
#[derive(Deserialize)]
struct Place {
    stream: String,
}

/// The newest message of a subject in a stream, by the server that leads it.
pub(crate) async fn newest(
    client: &Client,
    stream: &str,
    subject: &str,
) -> Result<Option<StreamMessage>, ApiError> {
    streams::info(client, stream).await?;
    Ok(direct_get::newest(client, stream, subject).await?.map(StreamMessage::from))
}

/// The first message of a subject with at least this number in a stream, by the server that leads
/// it.
pub(crate) async fn first_from(
    client: &Client,
    stream: &str,
    subject: &str,
    seq: u64,
) -> Result<Option<StreamMessage>, ApiError> {
    Ok(direct_get::first_from(client, stream, subject, seq).await?.map(StreamMessage::from))
}

impl From<StoredMessage> for StreamMessage {
    fn from(stored: StoredMessage) -> Self {
        let StoredMessage { seq, at, message_id, payload, .. } = stored;
        Self { seq, at, message_id, payload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_number_an_overtaking_or_neither() {
        let fault =
            |code: u64| format!(r#"{{"error":{{"err_code":{code}}},"stream":"S","seq":0}}"#);
        let overtaken = Outcome::Overtaken { stream: "S".to_owned() };
        let full = Refusal::Rejected { code: 10_077, description: String::new() };
        for (status, payload, expected) in [
            (None, r#"{"stream":"S","seq":7}"#.to_owned(), Ok(7)),
            (None, r#"{"stream":"S","seq":7,"duplicate":true}"#.to_owned(), Ok(7)),
            (None, fault(10_071), Err(overtaken)),
            (None, fault(10_158), Err(Outcome::Silent)),
            (None, fault(10_163), Err(Outcome::Silent)),
            (None, fault(10_164), Err(Outcome::Silent)),
            (None, fault(10_077), Err(full.into())),
            (Some(503), String::new(), Err(Refusal::NoResponders.into())),
            (None, String::new(), Err(Refusal::Unreadable.into())),
            (None, r#"{"stream":"S","seq":0}"#.to_owned(), Err(Refusal::Unreadable.into())),
        ] {
            assert_eq!(read(status, payload.as_bytes()), expected, "{payload}");
        }
    }
}
