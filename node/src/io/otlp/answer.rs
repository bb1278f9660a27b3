//! The two messages that an answer is made of, in the encoding of the request: what became of an
//! export, and why there was none. Both are so small that they are written here by hand.

use serde_json::json;

use super::refusal::Refusal;
use crate::core::intake::otlp::{Encoding, Outcome, Signal, push_varint};

/// A field of bytes, as its number and type.
const MESSAGE_1: u8 = 0x0a;
const BYTES_2: u8 = 0x12;
/// A field of a number.
const NUMBER_1: u8 = 0x08;

/// `ExportMetricsServiceResponse` or `ExportTraceServiceResponse`; an empty one means that all
/// was taken.
pub(super) fn exported(signal: Signal, encoding: Encoding, outcome: &Outcome) -> Vec<u8> {
    let is_silent = outcome.refused == 0 && outcome.message.is_none();
    let words = outcome.message.as_deref().unwrap_or_default();

    match encoding {
        Encoding::Protobuf if is_silent => Vec::new(),
        Encoding::Protobuf => field(MESSAGE_1, &numbered(outcome.refused, words)),
        Encoding::Json if is_silent => b"{}".to_vec(),
        Encoding::Json => {
            let refused = match signal {
                Signal::Metrics => "rejectedDataPoints",
                Signal::Traces => "rejectedSpans",
            };
            // Numbers of 64 bits are strings in the JSON of protobuf.
            let partial = json!({ refused: outcome.refused.to_string(), "errorMessage": words });
            json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
    }
}

/// `google.rpc.Status`.
pub(super) fn refused(encoding: Encoding, refusal: &Refusal) -> Vec<u8> {
    let (code, words) = (refusal.code(), refusal.words());
    match encoding {
        Encoding::Protobuf => numbered(code.into(), &words),
        Encoding::Json => json!({ "code": code, "message": words }).to_string().into_bytes(),
    }
}

/// A number as field 1 and words as field 2, which is how both messages begin.
fn numbered(number: u64, words: &str) -> Vec<u8> {
    let mut message = vec![NUMBER_1];
    push_varint(&mut message, number);
    message.extend(field(BYTES_2, words.as_bytes()));
    message
}

fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag];
    push_varint(&mut field, bytes.len() as u64);
    field.extend_from_slice(bytes);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(refused: u64, message: &str) -> Outcome {
        Outcome { refused, message: Some(message.to_owned()) }
    }

    #[test]
    fn an_export_that_was_taken_whole_is_answered_by_an_empty_message() {
        let taken = Outcome::default();
        assert_eq!(exported(Signal::Metrics, Encoding::Protobuf, &taken), b"");
        assert_eq!(exported(Signal::Traces, Encoding::Json, &taken), b"{}");
    }

    #[test]
    fn refusals_are_reported_with_the_reason() {
        let partial = exported(Signal::Metrics, Encoding::Protobuf, &outcome(300, "no"));
        assert_eq!(partial, [0x0a, 7, 0x08, 0xac, 0x02, 0x12, 2, b'n', b'o']);
        let partial = exported(Signal::Metrics, Encoding::Json, &outcome(300, "\"no\""));
        let got: serde_json::Value = serde_json::from_slice(&partial).unwrap();
        let rows = json!({ "rejectedDataPoints": "300", "errorMessage": "\"no\"" });
        assert_eq!(got, json!({ "partialSuccess": rows }));
        let spans = exported(Signal::Traces, Encoding::Json, &outcome(1, ""));
        assert!(String::from_utf8(spans).unwrap().contains("\"rejectedSpans\":\"1\""));
    }

    #[test]
    fn a_refusal_has_code_and_text() {
        let refusal = Refusal::Malformed("x".to_owned());
        assert_eq!(refused(Encoding::Protobuf, &refusal), [0x08, 3, 0x12, 1, b'x']);
        assert_eq!(refused(Encoding::Json, &refusal), br#"{"code":3,"message":"x"}"#);
    }
}
