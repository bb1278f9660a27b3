//! Reads the broker's answer to one publish: pure, total on any bytes.

use std::borrow::Cow;

use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::transport::Refusal;
use serde::Deserialize;

/// The status of a broker that has no subscriber for a subject.
const NO_RESPONDERS: u16 = 503;

/// The fields of an acknowledgement that matter here.
#[derive(Deserialize)]
struct Body<'a> {
    error: Option<Fault>,
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
    #[serde(borrow, default)]
    stream: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    code: u64,
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// What a stream, or our own echo, states about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamAcknowledgement<'a> {
    /// Its number in the stream; 0 in an echo.
    pub(crate) seq: u64,
    /// The stream had it already.
    pub(crate) duplicate: bool,
    /// The stream's name; empty in an echo.
    pub(crate) stream: Cow<'a, str>,
}

/// Whether a publish arrived.
///
/// A message without payload and status is our own echo, which the broker can only have sent
/// after it had read what went before it.
pub(crate) fn read(
    status: Option<u16>,
    payload: &[u8],
) -> Result<StreamAcknowledgement<'_>, Refusal> {
    match status {
        Some(NO_RESPONDERS) => return Err(Refusal::NoResponders),
        Some(_) => return Err(Refusal::Unreadable),
        None if payload.is_empty() => {
            return Ok(StreamAcknowledgement { seq: 0, duplicate: false, stream: "".into() });
        }
        None => {}
    }

    let body: Body<'_> = serde_json::from_slice(payload).map_err(|_| Refusal::Unreadable)?;
    match body {
        Body { error: Some(fault), .. } => Err(Refusal::Rejected {
            code: if fault.err_code == 0 { fault.code } else { fault.err_code },
            description: one_line(&fault.description),
        }),
        Body { seq: Some(seq), duplicate, stream, .. } => {
            Ok(StreamAcknowledgement { seq, duplicate, stream })
        }
        Body { .. } => Err(Refusal::Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_known_answer_is_understood() {
        let stored = |seq, duplicate, stream: &'static str| {
            Ok(StreamAcknowledgement { seq, duplicate, stream: stream.into() })
        };
        let rejected = |code, text: &str| Refusal::Rejected { code, description: text.to_owned() };
        for (status, payload, expected) in [
            (None, r#"{"stream":"S","seq":7}"#, stored(7, false, "S")),
            (None, r#"{"stream":"S","domain":"d","seq":7,"duplicate":true}"#, stored(7, true, "S")),
            (None, "", stored(0, false, "")),
            (Some(503), "", Err(Refusal::NoResponders)),
            (Some(409), "", Err(Refusal::Unreadable)),
            (
                None,
                r#"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},
                    "stream":"S","seq":0}"#,
                Err(rejected(10_077, "maximum bytes exceeded")),
            ),
            (None, r#"{"error":{"code":400}}"#, Err(rejected(400, ""))),
            (None, "{}", Err(Refusal::Unreadable)),
            (None, "+ACK", Err(Refusal::Unreadable)),
        ] {
            assert_eq!(read(status, payload.as_bytes()), expected, "{status:?} {payload}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_pass_for_an_acknowledgement_without_a_sequence_number(
            status in prop::option::of(any::<u16>()),
            payload in prop::collection::vec(any::<u8>(), 1..64),
        ) {
            prop_assert!(read(status, &payload).is_err());
        }

        #[test]
        fn what_the_broker_writes_is_read_back(seq: u64, duplicate: bool) {
            let payload = format!(r#"{{"stream":"S","seq":{seq},"duplicate":{duplicate}}}"#);
            let stored = StreamAcknowledgement { seq, duplicate, stream: "S".into() };
            prop_assert_eq!(read(None, payload.as_bytes()), Ok(stored));
        }
    }
}
