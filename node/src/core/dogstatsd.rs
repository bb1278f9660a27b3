//! One DogStatsD line: `name:value[:value...]|type[|@rate][|#key:value,...]`.
//!
//! Reads and judges; converts nothing and stores nothing. Every refusal has a reason that
//! becomes a counter, so that a job's owner can see why its numbers do not arrive.

use plimsoll_schemas::ids::{LossReason, Operation};
use plimsoll_schemas::limits::node::{LINE_BYTES_MAX, WEIGHT_MAX};

/// What kind of thing the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricType {
    /// `ms`, `h`, `d`: latencies in milliseconds.
    Latency,
    /// `c`: an amount to add.
    Counter,
    /// `g`: the value now.
    Gauge,
}

/// A line that can be recorded, as slices of the datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    /// A valid operation name.
    pub name: &'a str,
    /// What the values are.
    pub metric_type: MetricType,
    /// One or several numbers, separated by `:`; each still to be read.
    pub values: &'a str,
    /// Samples that each value stands for: 1 / sample rate, at least 1.
    pub weight: f64,
    /// `key:value` pairs, separated by `,`; empty without tags.
    pub tags: &'a str,
}

/// Why a line was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// More bytes than a line may have.
    TooLong,
    /// Not UTF-8.
    Encoding,
    /// Not `name:value|type`.
    Shape,
    /// A name that is no operation.
    Name,
    /// A type that is none of `ms h d c g`.
    Type,
    /// Sets, events and service checks, which are not taken yet.
    Unsupported,
    /// A value that is no finite number.
    Number,
    /// A latency below zero.
    Negative,
    /// A sample rate that is not above 0 and at most 1.
    Rate,
    /// A gauge of a new series when the series cap is reached.
    SeriesCap,
    /// Latencies beyond what one series of a message, or one incarnation, may count.
    SamplesCap,
    /// A datagram too long to be read whole; nothing of it is taken.
    Truncated,
}

impl Reject {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::TooLong,
        Self::Encoding,
        Self::Shape,
        Self::Name,
        Self::Type,
        Self::Unsupported,
        Self::Number,
        Self::Negative,
        Self::Rate,
        Self::SeriesCap,
        Self::SamplesCap,
        Self::Truncated,
    ];

    /// The reason's value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Encoding => "encoding",
            Self::Shape => "shape",
            Self::Name => "name",
            Self::Type => "type",
            Self::Unsupported => "unsupported",
            Self::Number => "number",
            Self::Negative => "negative",
            Self::Rate => "rate",
            Self::SeriesCap => "series_cap",
            Self::SamplesCap => "samples_cap",
            Self::Truncated => "truncated",
        }
    }

    /// The reason as it travels to the aggregator.
    ///
    /// # Panics
    /// Never: the names above are plain letters, which a test checks.
    #[must_use]
    pub fn reason(self) -> LossReason {
        LossReason::new(self.as_str()).expect("a constant of letters and underscores")
    }
}

/// Reads one line.
///
/// # Errors
/// The reason for which nothing of the line can be recorded.
pub fn parse(line: &[u8]) -> Result<Metric<'_>, Reject> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Reject::TooLong);
    }
    let line = str::from_utf8(line).map_err(|_| Reject::Encoding)?.trim_end_matches('\r');
    if line.starts_with("_e{") || line.starts_with("_sc|") {
        return Err(Reject::Unsupported);
    }
    let mut fields = line.split('|');
    let head = fields.next().unwrap_or_default();
    let (name, values) = head.split_once(':').ok_or(Reject::Shape)?;
    Operation::check(name).map_err(|_| Reject::Name)?;
    if values.is_empty() {
        return Err(Reject::Shape);
    }
    let metric_type = match fields.next().ok_or(Reject::Shape)? {
        "ms" | "h" | "d" => MetricType::Latency,
        "c" => MetricType::Counter,
        "g" => MetricType::Gauge,
        "s" => return Err(Reject::Unsupported),
        _ => return Err(Reject::Type),
    };
    let mut metric = Metric { name, metric_type, values, weight: 1.0, tags: "" };
    for field in fields {
        match field.as_bytes().first() {
            Some(b'@') => metric.weight = weight(&field[1..])?,
            Some(b'#') => metric.tags = &field[1..],
            // Container, timestamp and fields of later protocol versions change nothing here.
            _ => {}
        }
    }
    Ok(metric)
}

fn weight(rate: &str) -> Result<f64, Reject> {
    let rate: f64 = rate.parse().map_err(|_| Reject::Rate)?;
    if !(rate > 0.0 && rate <= 1.0 && 1.0 / rate <= WEIGHT_MAX) {
        return Err(Reject::Rate);
    }
    Ok(1.0 / rate)
}

/// Reads one value.
///
/// # Errors
/// When it is no finite number.
pub fn number(text: &str) -> Result<f64, Reject> {
    text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or(Reject::Number)
}

/// Milliseconds to nanoseconds, exact for the six decimals that make up a nanosecond.
///
/// # Errors
/// When it is below zero.
pub fn latency_ns(milliseconds: f64) -> Result<u64, Reject> {
    if milliseconds < 0.0 {
        return Err(Reject::Negative);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a float above the integer's range saturates"
    )]
    Ok((milliseconds * 1e6).round() as u64)
}

/// The pairs of a tag list. A tag without a colon is a key with an empty value.
pub fn tags(tags: &str) -> impl Iterator<Item = (&str, &str)> {
    tags.split(',')
        .filter(|tag| !tag.is_empty())
        .map(|tag| tag.split_once(':').unwrap_or((tag, "")))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::limits::wire::LOSS_REASONS_MAX;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_line_is_read_in_all_its_parts() {
        assert_eq!(
            parse(b"kernel_fetch:1.5:2|ms|@0.25|#outcome:hit,fast|c:ci-1|T1656581400"),
            Ok(Metric {
                name: "kernel_fetch",
                metric_type: MetricType::Latency,
                values: "1.5:2",
                weight: 4.0,
                tags: "outcome:hit,fast",
            })
        );
        assert_eq!(
            tags("outcome:hit,,fast,url:a:b").collect::<Vec<_>>(),
            [("outcome", "hit"), ("fast", ""), ("url", "a:b")]
        );
    }

    #[test]
    fn each_type_letter_has_its_meaning() {
        for (letter, expected) in [
            ("ms", Ok(MetricType::Latency)),
            ("h", Ok(MetricType::Latency)),
            ("d", Ok(MetricType::Latency)),
            ("c", Ok(MetricType::Counter)),
            ("g", Ok(MetricType::Gauge)),
            ("s", Err(Reject::Unsupported)),
            ("x", Err(Reject::Type)),
            ("", Err(Reject::Type)),
        ] {
            let line = format!("a:1|{letter}");
            assert_eq!(parse(line.as_bytes()).map(|m| m.metric_type), expected, "{letter:?}");
        }
    }

    #[test]
    fn every_malformed_line_has_its_reason() {
        let long = [b'a'; LINE_BYTES_MAX + 1];
        for (line, reason) in [
            (&b"a"[..], Reject::Shape),
            (b"a|ms", Reject::Shape),
            (b"a:|ms", Reject::Shape),
            (b"a:1", Reject::Shape),
            (b":1|ms", Reject::Name),
            (b"a b:1|ms", Reject::Name),
            (b"\xff:1|ms", Reject::Encoding),
            (b"a:1|ms|@0", Reject::Rate),
            (b"a:1|ms|@1.5", Reject::Rate),
            (b"a:1|ms|@NaN", Reject::Rate),
            (b"a:1|ms|@1e-9", Reject::Rate),
            (b"_e{5,4}:title|text", Reject::Unsupported),
            (b"_sc|name|0", Reject::Unsupported),
            (&long, Reject::TooLong),
        ] {
            assert_eq!(parse(line), Err(reason), "{:?}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn values_that_are_no_latency_are_refused() {
        for (text, expected) in [
            ("1.5", Ok(1_500_000)),
            ("0", Ok(0)),
            ("0.000001", Ok(1)),
            ("1e300", Ok(u64::MAX)),
            ("-1", Err(Reject::Negative)),
            ("NaN", Err(Reject::Number)),
            ("inf", Err(Reject::Number)),
            ("", Err(Reject::Number)),
            ("1ms", Err(Reject::Number)),
        ] {
            assert_eq!(number(text).and_then(latency_ns), expected, "{text:?}");
        }
    }

    #[test]
    fn every_reason_is_a_valid_label_and_all_fit_into_one_message() {
        assert!(Reject::ALL.len() <= LOSS_REASONS_MAX);
        for reject in Reject::ALL {
            assert_eq!(reject.reason().as_str(), reject.as_str());
        }
    }

    proptest! {
        #[test]
        fn whole_nanoseconds_survive_the_text(ns in 0..3_600_000_000_000_u64) {
            let text = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
            prop_assert_eq!(number(&text).and_then(latency_ns), Ok(ns));
        }

        #[test]
        fn arbitrary_bytes_never_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(metric) = parse(&line) {
                prop_assert!(metric.weight >= 1.0);
                prop_assert!(tags(metric.tags).count() <= line.len());
            }
        }

        #[test]
        fn nearly_valid_lines_never_panic(line in "[a-z:|@#.0-9,-]{0,60}") {
            let _: Result<_, _> = parse(line.as_bytes());
        }
    }
}
