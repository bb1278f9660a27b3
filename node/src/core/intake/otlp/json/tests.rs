//! JSON beside the Protocol Buffers that it encodes.

use proptest::prelude::*;

use super::*;
use crate::core::intake::otlp::protobuf::{Wire, check, fields};
use crate::core::intake::otlp::schema::{METRICS, TRACES};

fn metrics(json: &str) -> Result<Vec<u8>, Malformed> {
    to_protobuf(&METRICS, json.as_bytes())
}

/// A request with one point.
fn point(kind: &str, point: &str) -> String {
    format!(
        "{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{{\"{kind}\":\
         {{\"dataPoints\":[{point}]}}}}]}}]}}]}}"
    )
}

/// The fields of the first point.
fn read(kind: &str, json: &str) -> Vec<(u32, String)> {
    let bytes = metrics(&point(kind, json)).unwrap();
    check(&METRICS, &bytes).unwrap();
    let mut inner = &bytes[..];
    for _ in 0..5 {
        let Some((_, Wire::Bytes(bytes))) = fields(inner).next() else { panic!("{json}") };
        inner = bytes;
    }
    fields(inner).map(|(number, wire)| (number, format!("{wire:?}"))).collect()
}

#[test]
fn numbers_are_read_as_numbers_and_as_text() {
    let big = u64::MAX.to_string();
    for (json, expected) in [
        ("\"timeUnixNano\":7", (3, "Fixed64(7)".to_owned())),
        (&format!("\"timeUnixNano\":\"{big}\""), (3, format!("Fixed64({big})"))),
        (&format!("\"timeUnixNano\":{big}"), (3, format!("Fixed64({big})"))),
        ("\"asInt\":\"-1\"", (6, format!("Fixed64({big})"))),
        ("\"asInt\":1.0", (6, "Fixed64(1)".to_owned())),
        ("\"asDouble\":\"NaN\"", (4, format!("Fixed64({})", f64::NAN.to_bits()))),
        ("\"asDouble\":\"-Infinity\"", (4, format!("Fixed64({})", (-f64::INFINITY).to_bits()))),
        ("\"asDouble\":2", (4, format!("Fixed64({})", 2_f64.to_bits()))),
        ("\"flags\":\"1\"", (8, "Varint(1)".to_owned())),
    ] {
        assert_eq!(read("gauge", &format!("{{{json}}}")), [expected], "{json}");
    }
    assert_eq!(read("exponentialHistogram", "{\"scale\":-3}"), [(6, "Varint(5)".to_owned())]);
}

#[test]
fn what_is_unknown_or_null_is_passed_over() {
    let json = "{\"x\":{\"y\":[[1,{\"timeUnixNano\":2}]]},\"timeUnixNano\":null,\
        \"attributes\":null,\"exemplars\":[{\"asInt\":{}}],\"t\\u0069meUnixNano\":\"9\"}";
    assert_eq!(read("sum", json), [(3, "Fixed64(9)".to_owned())]);
    assert_eq!(metrics("{}"), Ok(vec![]));
}

#[test]
fn what_does_not_fit_is_named() {
    for (json, part) in [
        ("", "EOF while parsing"),
        ("[]", "metrics request as an object"),
        ("{} x", "trailing characters"),
        ("{\"resourceMetrics\":{}}", "resourceMetrics: a list"),
        ("{\"resourceMetrics\":[[]]}", "resourceMetrics: resource metrics as an object"),
        ("{\"resourceMetrics\":[7]}", "resourceMetrics: resource metrics as an object"),
        (&point("gauge", "{\"timeUnixNano\":-1}"), "timeUnixNano: a whole number"),
        (&point("gauge", "{\"timeUnixNano\":1.5}"), "timeUnixNano: a whole number"),
        (&point("gauge", "{\"timeUnixNano\":[1]}"), "timeUnixNano: a whole number"),
        (&point("gauge", "{\"asDouble\":\"x\"}"), "asDouble: a number"),
        (&point("gauge", "{\"asDouble\":true}"), "asDouble: a number"),
        (&point("histogram", "{\"bucketCounts\":1}"), "bucketCounts: a list"),
        (&point("histogram", "{\"bucketCounts\":[[1]]}"), "bucketCounts: a whole number"),
        (&point("histogram", "{\"count\":\"x\"}"), "count: a whole number"),
        (&point("gauge", "{\"attributes\":[{\"key\":7}]}"), "key: text"),
        (
            &point("gauge", "{\"attributes\":[{\"value\":{\"bytesValue\":\"*\"}}]}"),
            "bytesValue: base64",
        ),
    ] {
        let Malformed(text) = metrics(json).unwrap_err();
        assert!(text.contains(part), "{json}: {text}");
    }
    let enums = "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"sum\":\
        {\"aggregationTemporality\":\"AGGREGATION_TEMPORALITY_DELTA\"}}]}]}]}";
    assert!(metrics(enums).unwrap_err().0.contains("as all enums in OTLP"));
    let id = "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"spanId\":\"zz\"}]}]}]}";
    let Malformed(text) = to_protobuf(&TRACES, id.as_bytes()).unwrap_err();
    assert!(text.contains("spanId: hexadecimal"), "{text}");
}

#[test]
fn depth_and_size_are_bounded_by_the_text() {
    let deep = "{\"resourceMetrics\":[".repeat(10_000);
    assert!(metrics(&deep).unwrap_err().0.contains("EOF while parsing"));
    let values = "{\"arrayValue\":{\"values\":[".repeat(200);
    let deep = point("gauge", &format!("{{\"attributes\":[{{\"value\":{values}"));
    assert!(metrics(&deep).unwrap_err().0.contains("recursion limit"));
    let long = format!("{{\"resourceMetrics\":\"{}\"}}", "x".repeat(10_000));
    assert!(metrics(&long).unwrap_err().0.len() <= 512);
    for item in ["{}", "{\"attributes\":[{},{}]}", "{\"bucketCounts\":[1,1,1,1,1,1,1,1,1,1]}"] {
        let many = point("histogram", &vec![item; 1_000].join(","));
        let written = metrics(&many).unwrap();
        assert!(written.len() <= 6 * many.len(), "{} of {}", written.len(), many.len());
    }
}

proptest! {
    #[test]
    fn any_text_near_json_is_read_or_refused(
        text in "[\\[\\]{},:\"a-z0-9.\\-]{0,60}",
        at in 0..100_usize,
    ) {
        let whole = point("histogram", "{\"count\":\"1\",\"explicitBounds\":[0.5],\"attributes\":\
            [{\"key\":\"k\",\"value\":{\"intValue\":\"1\"}}]}");
        let at = at % whole.len();
        let planted = [&whole[..at], &text, &whole[at..]].concat();
        for text in [&text, &planted] {
            if let Ok(bytes) = metrics(text) {
                prop_assert!(bytes.len() <= 6 * text.len());
                prop_assert!(check(&METRICS, &bytes).is_ok());
            }
        }
    }
}
