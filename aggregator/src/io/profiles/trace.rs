//! Whether bytes are a Chrome trace as gzip. They are read as a stream, without a copy, and what
//! inflates beyond [`TRACE_BYTES_MAX`] is none.

use std::fmt;
use std::io::{BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::limits::captures::TRACE_BYTES_MAX;

#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    _events: Events,
}

/// A list of objects that have a phase.
struct Events;

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "ph")]
    _phase: IgnoredAny,
}

pub(super) fn is_trace(bytes: &[u8]) -> bool {
    let mut inflated = MultiGzDecoder::new(bytes).take(TRACE_BYTES_MAX + 1);
    let read = serde_json::from_reader::<_, Trace>(BufReader::new(&mut inflated));
    read.is_ok() && inflated.limit() > 0
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self)
    }
}

impl<'de> Visitor<'de> for Events {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Self, A::Error> {
        while events.next_element::<Event>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    const TRACE: &str = r#"{"displayTimeUnit":"ms","traceEvents":[{"ph":"X","ts":1,"args":{}}]}"#;

    #[test]
    fn a_trace_is_gzip_of_json_with_events() {
        for (text, is_one) in [
            (TRACE, true),
            (r#"{"traceEvents":[]}"#, true),
            (r#"[{"ph":"X"}]"#, false),
            (r#"{"traceEvents":{}}"#, false),
            (r#"{"traceEvents":[7]}"#, false),
            (r#"{"traceEvents":[{"name":"no phase"}]}"#, false),
            (r#"{"events":[]}"#, false),
            (r#"{"traceEvents":[]} {}"#, false),
            (r#"{"traceEvents":[{"ph":"X"}"#, false),
            ("", false),
        ] {
            assert_eq!(is_trace(&gzip(text.as_bytes())), is_one, "{text}");
        }
        let mut damaged = gzip(TRACE.as_bytes());
        *damaged.last_mut().unwrap() ^= 1;
        assert!(!is_trace(&damaged) && !is_trace(TRACE.as_bytes()));
        assert!(!is_trace(&[gzip(TRACE.as_bytes()), b"more".to_vec()].concat()));
    }

    #[test]
    fn what_inflates_too_far_is_none() {
        let spaces = vec![b' '; usize::try_from(TRACE_BYTES_MAX).unwrap() - TRACE.len()];
        let fits = [TRACE.as_bytes(), &spaces].concat();
        assert!(is_trace(&gzip(&fits)));
        assert!(!is_trace(&gzip(&[b"    ", &fits[..]].concat())));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(!is_trace(&bytes));
            let _any = is_trace(&gzip(&bytes));
        }
    }
}
