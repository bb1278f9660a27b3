//! Requests about profiles: what is left out, and what is wrong with one.

use plimsoll_profile::{Redaction, ThreadState};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::wire::capture::CaptureKind;
use proptest::prelude::*;

use super::requests::{ListQuery, comparison, list, picture};
use super::*;
use crate::io::profiles::tests::row;

const NOW: Wall = Wall(1_000_000 * 1_000_000_000);

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn requests_have_their_defaults() {
    let node = NodeName::new("n1").unwrap();
    let request: ProfileRequest = read(br#"{"node":"n1","pid":42}"#).unwrap();
    assert_eq!(
        (request.node.as_ref(), request.pid, request.seconds, request.hz, request.kind),
        (Some(&node), Some(42), None, None, CaptureKind::Cpu)
    );
    let (id, minus) = ("0a".repeat(16), "0b".repeat(16));
    let query = picture(&id, &owned(&[("minus", &minus)])).unwrap();
    assert_eq!((query.of.to_string(), query.minus.unwrap().to_string()), (id, minus));
    assert_eq!((query.redaction, query.state), (None, None));
    let pairs = [("redact", "true"), ("minus", "name:v4.0"), ("state", "gil")];
    let query = picture("name:v41", &owned(&pairs)).unwrap();
    let shown = (query.of.to_string(), query.redaction, query.state);
    assert_eq!(shown, ("name:v41".to_owned(), Some(Redaction::Names), Some(ThreadState::Gil)));

    let all = ListQuery { limit: 100, ..ListQuery::default() };
    assert_eq!(list(&[], NOW), Ok(all));
    let compared = comparison(&owned(&[("a", "name:v1"), ("b", "name:v2")])).unwrap();
    assert_eq!((compared.a.to_string().as_str(), compared.functions), ("name:v1", 20));
}

#[test]
fn a_list_has_what_each_filter_wants() {
    let mine = row(CaptureId::derived(&[]), 999_000.0, b"");
    let mine = ProfileRow { rule: Some("slow".parse().unwrap()), ..mine };
    for (key, value, is_wanted) in [
        ("node", "n1", true),
        ("node", "n2", false),
        ("rule", "slow", true),
        ("rule", "fast", false),
        ("kind", "cpu", true),
        ("kind", "trace", false),
        ("from", "999000", true),
        ("from", "999000.5", false),
        ("last", "20m", true),
        ("last", "10m", false),
        ("to", "999001", true),
        ("to", "999000", false),
    ] {
        let query = list(&owned(&[(key, value)]), NOW).unwrap();
        assert_eq!(query.wanted.has(&mine), is_wanted, "{key}={value}");
    }
    // It was just ordered, and starts in a second.
    let next = ProfileRow { start_seconds: 1_000_001.0, ..mine };
    assert!(list(&owned(&[("last", "1m")]), NOW).unwrap().wanted.has(&next));
    assert!(!list(&owned(&[("to", "now")]), NOW).unwrap().wanted.has(&next));
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let ordered = |body: &str| read::<ProfileRequest>(body.as_bytes()).unwrap_err().to_string();
    let kept = |body: &str| read::<KeepBody>(body.as_bytes()).unwrap_err().to_string();
    let shown =
        |id: &str, pairs: &[(&str, &str)]| picture(id, &owned(pairs)).unwrap_err().to_string();
    let listed = |pairs: &[(&str, &str)]| list(&owned(pairs), NOW).unwrap_err().to_string();
    let compared = |pairs: &[(&str, &str)]| comparison(&owned(pairs)).unwrap_err().to_string();
    let id = "0a".repeat(16);
    for (found, words) in [
        (ordered(r#"{"node":"a b"}"#), "the body is invalid: node name contains a space"),
        (ordered(r#"{"node":"a","operation":"b c"}"#), "operation contains a space"),
        (ordered(r#"{"node":"a","rate":1}"#), "unknown field `rate`"),
        (ordered(r#"{"node":"a","kind":"heap"}"#), "unknown variant `heap`"),
        (kept("{}"), "missing field `name`"),
        (kept(r#"{"name":"a/b"}"#), "profile name contains '/'"),
        (shown("ab", &[]), "id is \"ab\"; it must be the id of a profile: a capture's id is 32"),
        (shown("name:", &[]), "id is \"\"; it must be a name: profile name is empty"),
        (shown(&id, &[("minus", "-")]), "minus is \"-\""),
        (shown(&id, &[("redact", "yes")]), "redact is \"yes\"; it must be true, false, names"),
        (
            shown(&id, &[("state", "on")]),
            "state is \"on\"; it must be running, waiting, gil or all",
        ),
        (shown(&id, &[("plus", "1")]), "the parameters are minus, state and redact"),
        (listed(&[("kind", "heap")]), "it must be one of cpu, memory, trace, past"),
        (listed(&[("from", "1"), ("last", "1h")]), "left out where from is given"),
        (listed(&[("to", "soon")]), "to is \"soon\""),
        (listed(&[("limit", "1001")]), "a whole number from 1 to 1000"),
        (compared(&[("a", &id)]), "b is missing"),
        (compared(&[("a", &id), ("b", &id), ("n", "501")]), "a whole number from 1 to 500"),
    ] {
        assert!(found.contains(words), "{found}");
    }
}

proptest! {
    #[test]
    fn arbitrary_requests_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..60),
        text in any::<String>(),
        pairs in prop::collection::vec((
            prop_oneof![Just("to".to_owned()), Just("n".to_owned()), any::<String>()],
            any::<String>(),
        ), 0..3),
    ) {
        let _parsed = read::<ProfileRequest>(&body).is_ok();
        prop_assert!(picture(&text, &pairs).is_err());
        prop_assert!(comparison(&pairs).is_err());
        if let Ok(query) = list(&pairs, NOW) {
            prop_assert!((1..=1_000).contains(&query.limit));
        }
    }
}
