//! OTLP over HTTP: each answer with its status, its headers and its body.

use plimsoll_node::core::intake::otlp::{Encoding, Signal};

use crate::fixture::{Answer, Fixture, LARGEST, gzip, head, post, send};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

async fn answer(fixture: &mut Fixture, bytes: Vec<u8>) -> Answer {
    let address = fixture.http;
    fixture.answering(send(address, bytes)).await.expect("an answer")
}

#[tokio::test]
async fn a_body_is_handed_over_as_it_was_sent_and_answered_in_its_encoding() {
    let mut fixture = Fixture::open().await;
    for (path, content_type, headers, sent, answered) in [
        ("/v1/metrics", PROTOBUF, "", b"m".to_vec(), &b""[..]),
        ("/v1/traces", "Application/X-Protobuf", "content-encoding: identity\r\n", vec![], b""),
        ("/v1/metrics", "application/json; charset=utf-8", "", b"{}".to_vec(), b"{}"),
        ("/v1/traces", JSON, "content-encoding: GZIP\r\n", gzip(b"{\"a\": 1}"), b"{}"),
        ("/v1/metrics", PROTOBUF, "content-encoding: gzip\r\n", gzip(&vec![7; LARGEST]), b""),
    ] {
        let reply = answer(&mut fixture, post(path, content_type, headers, &sent)).await;
        assert_eq!((reply.status, reply.body.as_slice()), (200, answered), "{path} {content_type}");
        let same = reply.header("content-type");
        assert!(content_type.to_ascii_lowercase().starts_with(same), "{content_type}: {same}");
    }
    let came = |n: usize| fixture.came[n].clone();
    assert_eq!(came(0), (Signal::Metrics, Encoding::Protobuf, b"m".to_vec()));
    assert_eq!(came(1), (Signal::Traces, Encoding::Protobuf, vec![]));
    assert_eq!(came(2), (Signal::Metrics, Encoding::Json, b"{}".to_vec()));
    assert_eq!(came(3), (Signal::Traces, Encoding::Json, b"{\"a\": 1}".to_vec()));
    assert!(came(4).2 == vec![7; LARGEST], "inflated as it was");
    assert_eq!((fixture.ended("http metrics taken"), fixture.ended("http traces taken")), (3, 2));
    fixture.emptied().await;
}

#[tokio::test]
async fn refusals_in_a_body_are_a_partial_success() {
    let mut fixture = Fixture::open().await;
    let reply = answer(&mut fixture, post("/v1/metrics", JSON, "", b"partly")).await;
    let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(body["partialSuccess"]["rejectedDataPoints"], "3");
    assert_eq!(body["partialSuccess"]["errorMessage"], "unit of x: set otlp.unit");
    let reply = answer(&mut fixture, post("/v1/traces", PROTOBUF, "", b"partly")).await;
    let partial = [&[0x0a, 28, 0x08, 3, 0x12, 24], &b"unit of x: set otlp.unit"[..]].concat();
    assert_eq!((reply.status, reply.body), (200, partial));
    assert_eq!(
        (fixture.ended("http metrics partial"), fixture.ended("http traces partial")),
        (1, 1)
    );
}

#[tokio::test]
async fn each_refusal_has_its_status_and_states_the_fix() {
    let mut fixture = Fixture::open().await;
    let encoded = |name: &str| format!("content-encoding: {name}\r\n");
    for (bytes, status, words, ending) in [
        (post("/v1/metrics", JSON, "", b"bad"), 400, "is no field", "metrics malformed"),
        (post("/v1/traces", PROTOBUF, "", b"bad"), 400, "is no field", "traces malformed"),
        (post("/v1/metrics", JSON, &encoded("gzip"), b"{}"), 400, "gzip: ", "metrics malformed"),
        (
            post("/v1/metrics", JSON, &encoded("gzip"), &gzip(b"{}")[..9]),
            400,
            "gzip: ",
            "metrics malformed",
        ),
        (
            post("/v1/metrics", JSON, &encoded("gzip"), &[gzip(b"{}"), gzip(b"{}")].concat()),
            400,
            "gzip: ",
            "metrics malformed",
        ),
        (
            post("/v1/metrics", JSON, &encoded("zstd"), b"{}"),
            415,
            "gzip or identity",
            "metrics unsupported",
        ),
        (
            post("/v1/metrics", "text/plain", "", b"{}"),
            415,
            "must be application/x-protobuf or",
            "metrics unsupported",
        ),
        (head("GET /v1/metrics", "").into_bytes(), 405, "POST", "none unknown"),
        (post("/v1/logs", PROTOBUF, "", b""), 404, "metrics and traces", "none unknown"),
        (head("GET /", "").into_bytes(), 404, "metrics and traces", "none unknown"),
    ] {
        let before = fixture.ended(&format!("http {ending}"));
        let reply = answer(&mut fixture, bytes).await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, status, "{text}");
        assert!(text.contains(words), "{words} is not in {text}");
        assert_eq!(fixture.ended(&format!("http {ending}")), before + 1, "{ending}");
        assert_eq!(reply.header("allow"), if status == 405 { "POST" } else { "" });
    }
    let reply = answer(&mut fixture, post("/v1/metrics", JSON, "", b"bad")).await;
    let status: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(status, serde_json::json!({ "code": 3, "message": "metric 7: ä is no field" }));
    fixture.emptied().await;
}

#[tokio::test]
async fn a_post_under_a_foreign_name_is_refused_and_records_nothing() {
    let mut fixture = Fixture::open().await;
    let named = |host: &str| {
        let text = String::from_utf8(post("/v1/metrics", JSON, "", b"{}")).unwrap();
        text.replace("host: h\r\n", &format!("host: {host}\r\n")).into_bytes()
    };
    let evil = answer(&mut fixture, named("evil.example")).await;
    assert_eq!((evil.status, fixture.came.len()), (421, 0));
    assert!(String::from_utf8_lossy(&evil.body).contains("http.hosts"), "{evil:?}");
    // A page whose name leads here, and one of another site that sends a body as its own form.
    let crossed = post("/v1/metrics", JSON, "origin: http://evil.example\r\n", b"{}");
    assert_eq!(answer(&mut fixture, crossed).await.status, 403);
    assert_eq!(answer(&mut fixture, named("127.0.0.1:4318")).await.status, 200);
    let refused = fixture.stats().connections[0].1.refused().map(|(_, n)| n);
    assert_eq!((refused, fixture.came.len()), ([1, 1, 0], 1));
}

#[tokio::test]
async fn a_chunked_body_on_a_kept_connection_is_taken_like_any_other() {
    let mut fixture = Fixture::open().await;
    let chunked = "POST /v1/metrics HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
    let last = post("/v1/metrics", JSON, "", b"partly");
    let reply = answer(&mut fixture, [chunked.repeat(3).as_bytes(), &last].concat()).await;
    assert_eq!(reply.status, 200);
    let texts: Vec<_> = fixture.came.iter().map(|(_, _, body)| body.as_slice()).collect();
    assert_eq!(texts, [&b"{}"[..], b"{}", b"{}", b"partly"]);
}
