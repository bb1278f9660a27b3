//! One DogStatsD line (v1.0 to 1.3):
//! `name:value[:value...]|type[|@rate][|#key:value,...][|T<unix seconds>][|c:container]`.
//!
//! Splits a line into its parts and parses the short ones; values, name and tags stay bytes,
//! because the series cache finds a known series by them. A sign is part of a number: `+3` sets a
//! gauge to 3, unlike in etsy's statsd. Fields of later versions are skipped.
//!
//! DESIGN N24.

use crate::limits::{LINE_BYTES_MAX, WEIGHT_MAX};

use super::number::whole;
use crate::core::intake::reject::Reject;
use crate::core::intake::scan::find;

/// Latest time that a line may state, in seconds since 1970: half the range of a [`Wall`].
///
/// [`Wall`]: plimsoll_schemas::time::Wall
pub(crate) const UNIX_SECONDS_MAX: u64 = u64::MAX / 2 / 1_000_000_000 - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricType {
    /// `ms`: latencies.
    Timing,
    /// `h`: latencies or other values, by the unit in the name.
    Histogram,
    /// `d`: as a histogram.
    Distribution,
    /// `ps`, `bytes`, `count`: what clients of this mesh send in the unit of that name.
    Picoseconds,
    Bytes,
    Count,
    /// `c`: an amount to add.
    Counter,
    /// `g`: the current value.
    Gauge,
}

/// A line of the right shape, as slices of the datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line<'a> {
    /// The name, not yet checked.
    pub(crate) name: &'a [u8],
    pub(crate) metric_type: MetricType,
    /// One or several numbers separated by `:`, not yet read.
    pub(crate) values: &'a [u8],
    /// Samples that each value represents: 1 / sample rate, at least 1.
    pub(crate) weight: f64,
    /// `key:value` pairs, separated by `,`; empty without tags.
    pub(crate) tags: &'a [u8],
    /// The container that sent it; empty without one.
    pub(crate) container: &'a [u8],
    pub(crate) at: Option<u64>,
}

/// Parses one line without its line end. The last of two equal fields wins. Name, values and tags
/// may contain invalid UTF-8; then nothing of the line can be recorded.
pub(crate) fn parse(line: &[u8]) -> Result<Line<'_>, Reject> {
    // Before anything is searched in it: what a sender can make a line cost is bounded.
    if line.len() > LINE_BYTES_MAX {
        return Err(Reject::TooLong);
    }
    let (head, mut rest) = cut(line).ok_or(Reject::Shape)?;
    let colon = find(b':', head).ok_or(Reject::Shape)?;
    let (name, values) = (&head[..colon], &head[colon + 1..]);
    if values.is_empty() {
        return Err(Reject::Shape);
    }
    let mut fields = cut(rest);
    let metric_type = metric_type(fields.map_or(rest, |(text, _)| text))?;
    let mut line =
        Line { name, metric_type, values, weight: 1.0, tags: b"", container: b"", at: None };

    while let Some((_, after)) = fields {
        rest = after;
        fields = cut(rest);
        line.add(fields.map_or(rest, |(field, _)| field))?;
    }

    Ok(line)
}

/// The text before the first bar, and after it.
fn cut(text: &[u8]) -> Option<(&[u8], &[u8])> {
    find(b'|', text).map(|bar| (&text[..bar], &text[bar + 1..]))
}

fn metric_type(text: &[u8]) -> Result<MetricType, Reject> {
    match text {
        b"ms" => Ok(MetricType::Timing),
        b"h" => Ok(MetricType::Histogram),
        b"d" => Ok(MetricType::Distribution),
        b"ps" => Ok(MetricType::Picoseconds),
        b"bytes" => Ok(MetricType::Bytes),
        b"count" => Ok(MetricType::Count),
        b"c" => Ok(MetricType::Counter),
        b"g" => Ok(MetricType::Gauge),
        b"s" => Err(Reject::Unsupported),
        _ => Err(Reject::Type),
    }
}

impl<'a> Line<'a> {
    fn add(&mut self, field: &'a [u8]) -> Result<(), Reject> {
        match field {
            [b'@', rate @ ..] => self.weight = weight(rate)?,
            [b'#', tags @ ..] => {
                // Tags that do not count must be text all the same: only the last ones are checked
                // later.
                let before = std::mem::replace(&mut self.tags, tags);
                str::from_utf8(before).map_err(|_| Reject::Encoding)?;
            }
            [b'c', b':', container @ ..] => {
                str::from_utf8(container).map_err(|_| Reject::Encoding)?;
                self.container = container;
            }
            [b'T', at @ ..] => self.at = Some(unix_seconds(at).ok_or(Reject::Timestamp)?),
            _ => drop(str::from_utf8(field).map_err(|_| Reject::Encoding)?),
        }
        Ok(())
    }
}

/// Parses a time in seconds since 1970; zero is not a time.
pub(crate) fn unix_seconds(text: &[u8]) -> Option<u64> {
    whole(text, UNIX_SECONDS_MAX).filter(|seconds| *seconds > 0)
}

fn weight(rate: &[u8]) -> Result<f64, Reject> {
    let rate = str::from_utf8(rate).map_err(|_| Reject::Rate)?;
    let rate: f64 = rate.parse().map_err(|_| Reject::Rate)?;
    if !(rate > 0.0 && rate <= 1.0 && 1.0 / rate <= WEIGHT_MAX) {
        return Err(Reject::Rate);
    }
    Ok(1.0 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_line_is_read_in_all_its_parts() {
        let line =
            b"kernel_fetch:1.5:2|ms|@0.25|#outcome:hit,fast|c:ci-1|T1656581400|e:x|card:none";
        assert_eq!(
            parse(line),
            Ok(Line {
                name: b"kernel_fetch",
                metric_type: MetricType::Timing,
                values: b"1.5:2",
                weight: 4.0,
                tags: b"outcome:hit,fast",
                container: b"ci-1",
                at: Some(1_656_581_400),
            })
        );
    }

    #[test]
    fn each_type_is_read() {
        for (text, expected) in [
            ("ms", Ok(MetricType::Timing)),
            ("h", Ok(MetricType::Histogram)),
            ("d", Ok(MetricType::Distribution)),
            ("c", Ok(MetricType::Counter)),
            ("g", Ok(MetricType::Gauge)),
            ("s", Err(Reject::Unsupported)),
            ("x", Err(Reject::Type)),
            ("", Err(Reject::Type)),
        ] {
            let line = format!("a:1|{text}");
            assert_eq!(parse(line.as_bytes()).map(|line| line.metric_type), expected, "{text:?}");
        }
    }

    #[test]
    fn every_malformed_line_has_its_reason() {
        let long = [b'a'; LINE_BYTES_MAX + 1];
        for (line, reason) in [
            (&b"a"[..], Reject::Shape),
            (b"", Reject::Shape),
            (b"a|ms", Reject::Shape),
            (b"a:|ms", Reject::Shape),
            (b"a:1", Reject::Shape),
            (b"a|1:2|ms", Reject::Shape),
            (b"a:1|ms|@0", Reject::Rate),
            (b"a:1|ms|@", Reject::Rate),
            (b"a:1|ms|@-0.5", Reject::Rate),
            (b"a:1|ms|@1.5", Reject::Rate),
            (b"a:1|ms|@NaN", Reject::Rate),
            (b"a:1|ms|@1e-12", Reject::Rate),
            (b"a:1|g|T", Reject::Timestamp),
            (b"a:1|g|T0", Reject::Timestamp),
            (b"a:1|g|T-5", Reject::Timestamp),
            (b"a:1|g|T1.5", Reject::Timestamp),
            (b"a:1|g|T99999999999", Reject::Timestamp),
            (b"a:1|g|c:\xff", Reject::Encoding),
            (b"a:1|g|\xff", Reject::Encoding),
            (&long, Reject::TooLong),
        ] {
            assert_eq!(parse(line), Err(reason), "{:?}", String::from_utf8_lossy(line));
        }
    }
}
