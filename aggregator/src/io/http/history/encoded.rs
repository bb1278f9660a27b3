//! The bytes of an answer: JSON, or MessagePack if the client prefers that.
//!
//! DESIGN A89.

use std::io::{self, Write};

use axum::http::header;
use axum::response::{IntoResponse, Response};
use plimsoll_schemas::limits::api::HISTORY_ANSWER_BYTES_MAX;
use plimsoll_schemas::summary::{HistoryPage, MESSAGEPACK};

use crate::io::http::accept::Encoding;
use crate::io::http::refusal::Refusal;

pub(super) fn response(page: &HistoryPage, encoding: Encoding) -> Result<Response, Refusal> {
    let bytes = encoded(page, encoding, HISTORY_ANSWER_BYTES_MAX)?;
    let media_type = match encoding {
        Encoding::Json => "application/json",
        Encoding::MessagePack => MESSAGEPACK,
    };
    let headers = [(header::CONTENT_TYPE, media_type), (header::VARY, "accept")];
    Ok((headers, bytes).into_response())
}

fn encoded(page: &HistoryPage, encoding: Encoding, bytes_max: usize) -> Result<Vec<u8>, Refusal> {
    let mut body = Body { bytes: Vec::new(), bytes_max };
    let is_written = match encoding {
        Encoding::Json => serde_json::to_writer(&mut body, page).is_ok(),
        Encoding::MessagePack => page.write_messagepack(&mut body).is_ok(),
    };
    // Nothing else can fail: both express all that a page has.
    if is_written {
        return Ok(body.bytes);
    }
    Err(Refusal::bad(format!(
        "the answer is longer than {bytes_max} bytes: use a longer step or a shorter range, or \
         accept {MESSAGEPACK}, which takes a twentieth of JSON"
    )))
}

/// Takes this many bytes and no more.
struct Body {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Body {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() > self.bytes_max - self.bytes.len() {
            return Err(io::Error::other("too long"));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use plimsoll_compare::history::measured;
    use plimsoll_schemas::histogram::{Histogram, PackedCounts};
    use plimsoll_schemas::summary::{BucketCounts, HistoryPoint, OverLimit, QuantileValue};
    use plimsoll_schemas::time::seconds;
    use plimsoll_schemas::unit::Unit;
    use proptest::prelude::*;

    use super::*;

    fn point(place: u64, values: &[(u64, u64)]) -> HistoryPoint {
        let mut samples = Histogram::default();
        values.iter().for_each(|(value, n)| samples.record_n(*value, *n));
        let (count, begin) = (samples.count(), 1_700_000_000 + 10 * place);
        let value = |ns: u64| (count > 0).then_some(seconds(ns));
        let quantile = samples.quantile(0.99).map(|found| QuantileValue {
            quantile: 0.99,
            value: seconds(found.value_ns),
            lower: seconds(found.lower_ns),
            upper: seconds(found.upper_ns),
        });
        HistoryPoint {
            from_seconds: begin as f64,
            to_seconds: (begin + 10) as f64,
            count,
            mean: value(samples.min_ns() / 3),
            min: value(samples.min_ns()),
            max: value(samples.max_ns()),
            approximate: place % 2 == 1,
            quantiles: quantile.into_iter().collect(),
            over: vec![OverLimit { limit: 0.018, over: count / 3, uncertain: count / 7 }],
            completeness: value(999_999_999),
            distribution: (place % 3 < 2).then(|| BucketCounts {
                unit: Unit::Nanoseconds,
                counts: PackedCounts::from(&samples),
            }),
        }
    }

    fn page(points: Vec<HistoryPoint>) -> HistoryPage {
        HistoryPage {
            mesh: "m".to_owned(),
            operation: "fetch".to_owned(),
            rollup: Some("run".to_owned()),
            values: Some(vec!["v42".to_owned()]),
            unit: "s".to_owned(),
            from_seconds: 1_700_000_000.0,
            to_seconds: 1_700_000_100.0,
            resolution: "10s".to_owned(),
            step_seconds: 10.0,
            kept_from_seconds: 1_690_000_000.25,
            nodes: None,
            labels: [("rank".to_owned(), "3".to_owned())].into(),
            points,
        }
    }

    fn written(page: &HistoryPage, encoding: Encoding, bytes_max: usize) -> Option<Vec<u8>> {
        encoded(page, encoding, bytes_max).ok()
    }

    proptest! {
        #[test]
        fn what_messagepack_has_is_json_digit_by_digit(
            points in prop::collection::vec(
                prop::collection::vec((0..4_000_000_000_000_u64, 1..1_000_000_u64), 0..40), 0..8,
            ),
        ) {
            let points = (0..).zip(&points).map(|(place, values)| point(place, values));
            let page = page(points.collect());
            let [json, dense] = [Encoding::Json, Encoding::MessagePack]
                .map(|encoding| written(&page, encoding, usize::MAX).unwrap());
            let read = HistoryPage::from_messagepack(&dense).unwrap();
            prop_assert_eq!(&read, &page);
            let again = written(&read, Encoding::Json, usize::MAX).unwrap();
            prop_assert_eq!(String::from_utf8(again), String::from_utf8(json.clone()));
            let of_json: HistoryPage = serde_json::from_slice(&json).unwrap();
            prop_assert_eq!(measured(&of_json.points), measured(&page.points));
        }

        #[test]
        fn damaged_messagepack_is_an_error_or_a_page(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let page = page(vec![point(0, &[(5_000_000, 3), (18_000_000, 400)]), point(1, &[])]);
            let whole = written(&page, Encoding::MessagePack, usize::MAX).unwrap();
            let cut = &whole[..cut.index(whole.len())];
            prop_assert!(HistoryPage::from_messagepack(cut).is_err());
            let more = [&whole[..], &[0xc0]].concat();
            prop_assert!(HistoryPage::from_messagepack(&more).is_err());
            let mut damaged = whole;
            let at = at.index(damaged.len());
            damaged[at] = byte;
            let _page = HistoryPage::from_messagepack(&damaged);
        }
    }

    #[test]
    fn what_is_wrong_in_a_distribution_is_named() {
        let page = page(vec![point(0, &[(5_000_000, 3)])]);
        let mut bytes = written(&page, Encoding::MessagePack, usize::MAX).unwrap();
        let cookie = [0x1c, 0x84, 0x93, 0x13];
        let at = bytes.windows(4).position(|part| part == cookie).unwrap();
        bytes[at + 15] = 2;
        let error = HistoryPage::from_messagepack(&bytes).unwrap_err().to_string();
        assert!(error.contains("a distribution: significant digits differs"), "{error}");
    }

    #[test]
    fn an_answer_that_is_too_long_is_refused_with_what_to_do() {
        let page = page((0..50).map(|place| point(place, &[(5_000_000, 3)])).collect());
        for encoding in [Encoding::Json, Encoding::MessagePack] {
            let length = written(&page, encoding, usize::MAX).unwrap().len();
            assert_eq!(written(&page, encoding, length).map(|bytes| bytes.len()), Some(length));
            let refusal = encoded(&page, encoding, length - 1).unwrap_err();
            assert_eq!(refusal.0, StatusCode::BAD_REQUEST);
            assert!(refusal.1.contains("use a longer step"), "{}", refusal.1);
        }
    }
}
