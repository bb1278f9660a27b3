//! Requests about profiles: what is left out, and what is wrong with one.

use proptest::prelude::*;

use super::*;

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn requests_have_their_defaults() {
    let node = NodeName::new("n1").unwrap();
    let request: ProfileRequest = read(br#"{"node":"n1","pid":42}"#).unwrap();
    assert_eq!(
        (&request.node, request.pid, request.seconds, request.hz),
        (&node, Some(42), None, None)
    );
    let (id, minus) = ("0a".repeat(16), "0b".repeat(16));
    let query = picture_query(&id, &owned(&[("minus", &minus)])).unwrap();
    assert_eq!((query.id.to_string(), query.minus.unwrap().to_string()), (id, minus));
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let ordered = |body: &str| read::<ProfileRequest>(body.as_bytes()).unwrap_err().to_string();
    let shown = |id: &str, pairs: &[(&str, &str)]| {
        picture_query(id, &owned(pairs)).unwrap_err().to_string()
    };
    let id = "0a".repeat(16);
    for (found, words) in [
        (ordered("{}"), "missing field `node`"),
        (ordered(r#"{"node":"a b"}"#), "the body is invalid: node name contains a space"),
        (ordered(r#"{"node":"a","operation":"b c"}"#), "operation contains a space"),
        (ordered(r#"{"node":"a","rate":1}"#), "unknown field `rate`"),
        (shown("ab", &[]), "id is \"ab\"; it must be the id of a profile: a capture's id is 32"),
        (shown(&id, &[("minus", "-")]), "minus is \"-\""),
        (shown(&id, &[("plus", "1")]), "the parameters are minus"),
    ] {
        assert!(found.contains(words), "{found}");
    }
}

proptest! {
    #[test]
    fn arbitrary_requests_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..60),
        text in any::<String>(),
        pairs in prop::collection::vec((any::<String>(), any::<String>()), 0..3),
    ) {
        let _parsed = read::<ProfileRequest>(&body).is_ok();
        prop_assert!(picture_query(&text, &pairs).is_err());
    }
}
