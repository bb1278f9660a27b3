//! Reads messages of a stream one by one through the JetStream API, which returns their headers and
//! payload encoded.
//!
//! The NATS client ends its connection at a header that it cannot parse, and any user who may
//! publish to a lane can send one. A message that is read here reaches only our own parser.
//!
//! DESIGN S27.

use std::str::FromStr;
use std::time::UNIX_EPOCH;

use async_nats::{Client, HeaderName};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::wire::SENT_HEADER;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{self, ApiError, code};

/// What deletes a key of a key-value store.
pub(crate) const KV_OPERATION_HEADER: &str = "KV-Operation";
const MESSAGE_ID_HEADER: &str = "Nats-Msg-Id";

/// One message of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) seq: u64,
    pub(crate) subject: String,
    /// When the broker stored it.
    pub(crate) at: Option<Wall>,
    /// When its node sent it.
    pub(crate) sent: Option<Wall>,
    /// Its sender's id of it.
    pub(crate) message_id: Option<String>,
    /// Whether it states that the key of a key-value store was deleted.
    pub(crate) is_deletion: bool,
    pub(crate) payload: Bytes,
    /// Whether the client cannot parse its headers.
    pub(crate) is_malformed: bool,
}

#[derive(Deserialize)]
struct Answer {
    message: Encoded,
}

#[derive(Deserialize)]
struct Encoded {
    seq: u64,
    subject: String,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    #[serde(default)]
    time: String,
}

impl Encoded {
    fn read(self) -> StoredMessage {
        // The broker encodes both: what it cannot encode is no message of a node either.
        let bytes = |text: &str| BASE64_STANDARD.decode(text).unwrap_or_default();
        let at = humantime::parse_rfc3339(&self.time).ok();
        let at = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let headers = bytes(&self.hdrs);

        StoredMessage {
            seq: self.seq,
            subject: self.subject,
            at: at.map(|since| Wall(nanos(since))),
            sent: header(&headers, SENT_HEADER).and_then(|text| text.parse().ok()).map(Wall),
            message_id: header(&headers, MESSAGE_ID_HEADER).map(str::to_owned),
            is_deletion: header(&headers, KV_OPERATION_HEADER).is_some(),
            payload: bytes(&self.data).into(),
            is_malformed: headers.split(|byte| *byte == b'\n').skip(1).any(is_malformed),
        }
    }
}

fn line(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().map(|line| line.trim_end_matches('\r'))
}

/// The value of a header, from the bytes of all.
fn header<'h>(headers: &'h [u8], wanted: &str) -> Option<&'h str> {
    let mut lines = headers.split(|byte| *byte == b'\n').filter_map(line);
    lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then(|| value.trim())
    })
}

/// Whether a line of headers, without the first one, has no name that the client accepts, or no
/// text.
fn is_malformed(bytes: &[u8]) -> bool {
    let Some(line) = line(bytes) else { return true };
    let is_header = |(name, _): (&str, &str)| HeaderName::from_str(name).is_ok();
    !line.is_empty()
        && !line.starts_with([' ', '\t'])
        && !line.split_once(':').is_some_and(is_header)
}

/// The message with this number; `None` when the stream has none.
pub(crate) async fn get(
    client: &Client,
    stream: &str,
    seq: u64,
) -> Result<Option<StoredMessage>, ApiError> {
    get_by(client, stream, &json!({ "seq": seq })).await
}

/// The newest message of a subject; `None` when the stream has none.
pub(crate) async fn newest(
    client: &Client,
    stream: &str,
    subject: &str,
) -> Result<Option<StoredMessage>, ApiError> {
    get_by(client, stream, &json!({ "last_by_subj": subject })).await
}

/// The first message of a subject with at least this number; `None` when the stream has none.
pub(crate) async fn first_from(
    client: &Client,
    stream: &str,
    subject: &str,
    seq: u64,
) -> Result<Option<StoredMessage>, ApiError> {
    get_by(client, stream, &json!({ "seq": seq, "next_by_subj": subject })).await
}

async fn get_by(
    client: &Client,
    stream: &str,
    which: &Value,
) -> Result<Option<StoredMessage>, ApiError> {
    let operation = format!("STREAM.MSG.GET.{stream}");
    match api::call::<Answer>(client, &operation, which).await {
        Ok(answer) => Ok(Some(answer.message.read())),
        Err(ApiError::Refused { code: code::NO_MESSAGE, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(headers: &[u8]) -> Encoded {
        Encoded {
            seq: 7,
            subject: "plimsoll.v1.m.normal.a.bus".into(),
            hdrs: BASE64_STANDARD.encode(headers),
            data: BASE64_STANDARD.encode("body"),
            time: "1970-01-01T00:00:02.5Z".into(),
        }
    }

    #[test]
    fn a_message_is_read_with_its_times() {
        let headers = b"NATS/1.0\r\nNats-Msg-Id: x\r\nPlimsoll-Sent: 12\r\n\r\n";
        let expected = StoredMessage {
            seq: 7,
            subject: "plimsoll.v1.m.normal.a.bus".into(),
            at: Some(Wall(2_500_000_000)),
            sent: Some(Wall(12)),
            message_id: Some("x".to_owned()),
            is_deletion: false,
            payload: Bytes::from_static(b"body"),
            is_malformed: false,
        };
        assert_eq!(encoded(headers).read(), expected);
    }

    #[test]
    fn headers_that_end_a_connection_are_malformed() {
        for line in [&b"nocolon"[..], b"X: \xff\xfe", b"X Y: z", b"\xff: z"] {
            let headers = [b"NATS/1.0\r\n", line, b"\r\n\r\n"].concat();
            assert!(encoded(&headers).read().is_malformed, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_headers_are_survived(headers in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(encoded(&headers).read().payload, Bytes::from_static(b"body"));
        }
    }
}
