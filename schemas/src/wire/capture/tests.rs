//! Requests and responses as bytes: what comes back, and what is refused.

use proptest::prelude::*;

use super::*;
use crate::ids::{Labels, MeshName, NodeName, Operation, RuleName};
use crate::limits::wire::{CAPTURE_CHUNK_BYTES_MAX, CAPTURE_PROFILE_BYTES_MAX};
use crate::time::Wall;
use crate::wire::error::WireError;
use crate::wire::signature::{ConfirmKey, Purpose, SignatureError};

const GOLDEN_ORDER: &str = "\
    87a6736368656d6101a66e756d62657207a561736b6572a23066a46e6f6465a3612e62a26964d92035386562\
    66333863363530353933613364356330353534306265346332313532a47374657081a56f7264657286a77072\
    6f6365737383a3706964c0a96f7065726174696f6ea473746570a66c6162656c7381a472616e6ba133a77365\
    636f6e64730aa2687a64ab73746172745f61745f6e73cf000000174876e800ad657870697265735f61745f6e\
    73cf0000002540be4000a472756c65a9737465705f736c6f77a97369676e6174757265c42034d8da9815095f\
    3d91c8a3e5ef9c14c627742e54a11097a4a0a45d8cd3136e80";
const GOLDEN_CHUNK: &str = "\
    87a6736368656d6101a66e756d62657207a561736b6572a23066a46e6f6465a3612e62a26964d92035386562\
    66333863363530353933613364356330353534306265346332313532a47374657081a56368756e6b02a97369\
    676e6174757265c420172c7e83b879489833a1c99c0ebaca567bd003ce10a4261d2625055cd1f6f608";
const GOLDEN_RESPONSE: &str = "\
    87a6736368656d6101a66e756d62657207a26964d92035386562663338633635303539336133643563303535\
    34306265346332313532a57374617465a46b657074a5666163747388a472756e67a870726f66696c6572a370\
    6964cd1267a7636f6d6d616e64a7707974686f6e33a6707974686f6ea6332e31312e37a773616d706c6573cd\
    03dea4746f726e04a46c6f737406a6616476696365a0a5627974657305a56368756e6bc4057070726f66";

const SECOND: u64 = 1_000_000_000;

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn key() -> ConfirmKey {
    ConfirmKey::from_hex(&"5a".repeat(32)).unwrap()
}

fn order() -> CaptureOrder {
    CaptureOrder {
        kind: CaptureKind::Cpu,
        native: false,
        past: None,
        process: ProcessSelector {
            operation: Some(Operation::new("step").unwrap()),
            labels: Labels::new([("rank", "3")]).unwrap(),
            ..ProcessSelector::default()
        },
        seconds: 10,
        interval_seconds: None,
        hz: 100,
        start_at: Wall(100 * SECOND),
        expires_at: Wall(160 * SECOND),
        rule: Some(RuleName::new("step_slow").unwrap()),
    }
}

fn by_pid(pid: u32) -> CaptureOrder {
    let process = ProcessSelector { pid: Some(pid), ..ProcessSelector::default() };
    CaptureOrder { process, rule: None, ..order() }
}

fn continuous() -> CaptureOrder {
    let (kind, process) = (CaptureKind::Continuous, ProcessSelector::default());
    let interval_seconds = Some(60);
    CaptureOrder { kind, process, seconds: 7_200, interval_seconds, rule: None, ..order() }
}

fn past(from: u64, to: u64) -> Option<PastRange> {
    Some(PastRange { from: Wall(from * SECOND), to: Wall(to * SECOND) })
}

fn request(step: CaptureStep) -> CaptureRequest {
    CaptureRequest {
        number: 7,
        asker: "0f".to_owned(),
        node: NodeName::new("a.b").unwrap(),
        id: CaptureId::derived(&[b"step_slow", b"1"]),
        step,
    }
}

fn response() -> CaptureResponse {
    let facts = CaptureFacts {
        kind: CaptureKind::Cpu,
        native: false,
        rung: "profiler".to_owned(),
        pid: 4711,
        command: "python3".to_owned(),
        python: "3.11.7".to_owned(),
        samples: 990,
        torn: 4,
        lost: 6,
        fix: String::new(),
    };
    let id = CaptureId::derived(&[b"step_slow", b"1"]);
    let state = CaptureState::Kept;
    CaptureResponse { number: 7, id, state, facts, bytes: 5, chunk: b"pprof".to_vec() }
}

fn states() -> impl Iterator<Item = CaptureState> {
    use CaptureState::{Expired, Kept, Running, Torn, Unknown, Waiting};
    let failures = CaptureFailure::ALL.into_iter().map(CaptureState::Failed);
    let refusals = CaptureRefusal::ALL.into_iter().map(CaptureState::Refused);
    [Waiting, Running, Kept, Torn, Expired, Unknown].into_iter().chain(failures).chain(refusals)
}

#[test]
fn requests_come_back_and_no_byte_can_change() {
    for step in [
        CaptureStep::Order(order()),
        CaptureStep::Order(by_pid(1)),
        CaptureStep::Order(by_pid(i32::MAX.cast_unsigned())),
        CaptureStep::Chunk(0),
        CaptureStep::Chunk(u32::MAX),
        CaptureStep::Order(continuous()),
        CaptureStep::Stop,
    ] {
        let request = request(step);
        let bytes = request.encode(&mesh(), &key());
        assert_eq!(CaptureRequest::decode(&bytes), Ok(request));
        assert_eq!(key().verify(Purpose::Capture, &mesh(), &bytes), Ok(()));
        for purpose in [Purpose::Confirmation, Purpose::Silences] {
            assert_eq!(key().verify(purpose, &mesh(), &bytes), Err(SignatureError::Wrong));
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(key().verify(Purpose::Capture, &mesh(), &changed).is_err(), "byte {at}");
        }
    }
}

/// Bytes that a former version wrote: each later one reads them, and writes the same.
#[test]
fn messages_have_the_bytes_that_they_always_had() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let order = request(CaptureStep::Order(order())).encode(&mesh(), &key());
    assert_eq!(hex(&order), GOLDEN_ORDER);
    let chunk = request(CaptureStep::Chunk(2)).encode(&mesh(), &key());
    assert_eq!(hex(&chunk), GOLDEN_CHUNK);
    assert_eq!(hex(&response().encode()), GOLDEN_RESPONSE);
}

#[test]
fn an_order_out_of_its_bounds_is_refused_by_name() {
    let nothing = ProcessSelector::default();
    let both = ProcessSelector { pid: Some(1), ..order().process };
    let labelled = ProcessSelector { operation: None, ..both.clone() };
    for (wrong, expected) in [
        (CaptureOrder { seconds: 0, ..order() }, "seconds"),
        (CaptureOrder { seconds: 61, ..order() }, "seconds"),
        (CaptureOrder { hz: 0, ..order() }, "hz"),
        (CaptureOrder { hz: 1_001, ..order() }, "hz"),
        (CaptureOrder { expires_at: order().start_at, ..order() }, "expires_at_ns"),
        (CaptureOrder { expires_at: Wall(701 * SECOND), ..order() }, "expires_at_ns"),
        (CaptureOrder { process: nothing, ..order() }, "process"),
        (CaptureOrder { process: both, ..order() }, "process"),
        (CaptureOrder { process: labelled, ..order() }, "process"),
        (CaptureOrder { kind: CaptureKind::Past, ..order() }, "past"),
        (CaptureOrder { past: past(1, 2), ..order() }, "past"),
        (CaptureOrder { kind: CaptureKind::Past, past: past(2, 2), ..order() }, "past"),
        (CaptureOrder { interval_seconds: Some(60), ..order() }, "interval_seconds"),
        (CaptureOrder { interval_seconds: Some(9), ..continuous() }, "interval_seconds"),
        (CaptureOrder { seconds: 86_401, ..continuous() }, "seconds"),
        (CaptureOrder { seconds: 59, ..continuous() }, "seconds"),
        (CaptureOrder { process: by_pid(1).process, ..continuous() }, "process"),
        (CaptureOrder { past: past(1, 2), ..continuous() }, "past"),
        (by_pid(0), "pid"),
        (by_pid(1 << 31), "pid"),
    ] {
        let bytes = request(CaptureStep::Order(wrong)).encode(&mesh(), &key());
        let refused = CaptureRequest::decode(&bytes);
        assert_eq!(refused, Err(WireError::Bounds { field: expected }));
    }
    let decode = |request: CaptureRequest| CaptureRequest::decode(&request.encode(&mesh(), &key()));
    let asker = CaptureRequest { asker: "a.>".to_owned(), ..request(CaptureStep::Chunk(0)) };
    assert_eq!(decode(asker), Err(WireError::Bounds { field: "asker" }));
}

#[test]
fn every_state_comes_back_with_its_reason() {
    for state in states() {
        let bytes = if state.has_profile() { 5 } else { 0 };
        let chunk = response().chunk.into_iter().take(bytes).collect();
        let response = CaptureResponse { state, bytes: bytes as u64, chunk, ..response() };
        assert_eq!(CaptureResponse::decode(&response.encode()), Ok(response));
    }
}

#[test]
fn a_reason_of_a_later_version_is_read_as_other() {
    let read = |text: &str| serde_json::from_str::<CaptureState>(text).ok();
    let failed = CaptureState::Failed(CaptureFailure::Other);
    assert_eq!(read("{\"failed\":\"of_later\"}"), Some(failed));
    let refused = CaptureState::Refused(CaptureRefusal::Other);
    assert_eq!(read("{\"refused\":\"of_later\"}"), Some(refused));
    assert_eq!(read("\"of_later\""), None);
}

#[test]
fn a_state_is_sent_by_its_labels() {
    for state in states() {
        let (label, reason) = state.labels();
        let sent = serde_json::to_value(state).unwrap();
        let named = serde_json::json!({ label: reason });
        assert!(sent == label || sent == named, "{sent}");
    }
}

#[test]
fn a_response_out_of_its_bounds_is_refused_by_name() {
    let facts = |facts| CaptureResponse { facts, ..response() };
    let many = CaptureFacts { samples: u64::MAX, ..response().facts };
    let large = CAPTURE_PROFILE_BYTES_MAX as u64 + 1;
    for (wrong, expected) in [
        (facts(many), "facts"),
        (CaptureResponse { bytes: large, ..response() }, "bytes"),
        (CaptureResponse { state: CaptureState::Running, ..response() }, "bytes"),
        (CaptureResponse { bytes: 4, ..response() }, "chunk"),
        (
            CaptureResponse {
                bytes: large - 1,
                chunk: vec![0; CAPTURE_CHUNK_BYTES_MAX + 1],
                ..response()
            },
            "chunk",
        ),
    ] {
        let refused = CaptureResponse::decode(&wrong.encode());
        assert_eq!(refused, Err(WireError::Bounds { field: expected }));
    }
}

#[test]
fn texts_of_a_response_are_one_harmless_line() {
    let fix = "a\u{1b}[31m\nb".repeat(400);
    let sent = CaptureResponse { facts: CaptureFacts { fix, ..response().facts }, ..response() };
    let read = CaptureResponse::decode(&sent.encode()).unwrap().facts.fix;
    assert!(read.starts_with("a[31mba[31mb") && read.chars().count() == 240, "{read}");
}

#[test]
fn the_fullest_messages_are_within_their_bounds() {
    let full = "x".repeat(128);
    let labels = (0..16).map(|at| (format!("{at:064}"), full.clone()));
    let process = ProcessSelector {
        pid: None,
        operation: Some(Operation::new(&full).unwrap()),
        labels: Labels::new(labels).unwrap(),
    };
    let order = CaptureStep::Order(CaptureOrder { process, ..order() });
    assert!(CaptureRequest::decode(&request(order).encode(&mesh(), &key())).is_ok());

    let chunk = vec![0; CAPTURE_CHUNK_BYTES_MAX];
    let bytes = CAPTURE_PROFILE_BYTES_MAX as u64;
    let text = "é".repeat(crate::remote_text::CHARS_MAX);
    let facts = CaptureFacts { fix: text.clone(), command: text, ..response().facts };
    let response = CaptureResponse { bytes, chunk, facts, ..response() };
    assert_eq!(CaptureResponse::decode(&response.encode()), Ok(response));
}

#[test]
fn an_id_is_its_digits_and_depends_on_how_its_parts_are_divided() {
    let id = CaptureId::derived(&[b"a", b"bc"]);
    assert_ne!(id, CaptureId::derived(&[b"ab", b"c"]));
    assert_eq!(id.to_string().parse(), Ok(id));
    for wrong in ["", "0f", &"g".repeat(32), &"A".repeat(32), &"+".repeat(32)] {
        assert_eq!(wrong.parse::<CaptureId>(), Err(CaptureIdError));
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _request = CaptureRequest::decode(&bytes);
        let _response = CaptureResponse::decode(&bytes);
    }

    #[test]
    fn damaged_messages_never_panic(at in 0_usize..600, byte in any::<u8>()) {
        let mut bytes = request(CaptureStep::Order(order())).encode(&mesh(), &key());
        let length = bytes.len();
        bytes[at % length] = byte;
        let _request = CaptureRequest::decode(&bytes);

        let mut bytes = response().encode();
        let length = bytes.len();
        bytes[at % length] = byte;
        let _response = CaptureResponse::decode(&bytes);
    }
}
