//! One DogStatsD line (v1.0 to 1.3):
//! `name:value[:value...]|type[|@rate][|#key:value,...][|T<unix seconds>][|c:container]`.
//!
//! Cuts a line into its parts and judges the small ones; values, name and tags stay bytes, since
//! a series that was heard before is known by them. A sign is part of a number: `+3` sets a gauge
//! to 3, unlike in etsy's statsd. Fields that a later version adds are passed over.

use crate::limits::{LINE_BYTES_MAX, WEIGHT_MAX};

use super::find::find;
use super::number::whole;
use super::reject::Reject;

/// Latest time that a line may name, in seconds since 1970: what a [`Wall`] holds by half.
///
/// [`Wall`]: plimsoll_schemas::time::Wall
pub(super) const UNIX_SECONDS_MAX: u64 = u64::MAX / 2 / 1_000_000_000 - 1;

/// The type of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letter {
    /// `ms`: latencies.
    Ms,
    /// `h`: latencies, or what else a histogram holds.
    H,
    /// `d`: likewise.
    D,
    /// `c`: an amount to add.
    C,
    /// `g`: the value now.
    G,
}

/// A line of the right shape, as slices of the datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// What should be an operation's name.
    pub(super) name: &'a [u8],
    /// What the values are.
    pub(super) letter: Letter,
    /// One or several numbers, separated by `:`; each still to be read.
    pub(super) values: &'a [u8],
    /// Samples that each value stands for: 1 / sample rate, at least 1.
    pub(super) weight: f64,
    /// `key:value` pairs, separated by `,`; empty without tags.
    pub(super) tags: &'a [u8],
    /// The container that it came from; empty when it says nothing.
    pub(super) container: &'a [u8],
    /// Seconds since 1970 at which it holds, when it says so.
    pub(super) at: Option<u64>,
}

/// Reads one line without its line end. Of two equal fields the last counts. What is not UTF-8 may
/// still come back as a line, in name, values or tags; nothing of it can be recorded.
///
/// # Errors
/// The reason for which nothing of the line can be recorded.
pub(super) fn parse(line: &[u8]) -> Result<Line<'_>, Reject> {
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
    let letter = letter(fields.map_or(rest, |(letter, _)| letter))?;
    let mut line = Line { name, letter, values, weight: 1.0, tags: b"", container: b"", at: None };
    while let Some((_, after)) = fields {
        rest = after;
        fields = cut(rest);
        line.add(fields.map_or(rest, |(field, _)| field))?;
    }
    Ok(line)
}

/// What stands before the first bar, and after it.
fn cut(text: &[u8]) -> Option<(&[u8], &[u8])> {
    find(b'|', text).map(|bar| (&text[..bar], &text[bar + 1..]))
}

fn letter(text: &[u8]) -> Result<Letter, Reject> {
    match text {
        b"ms" => Ok(Letter::Ms),
        b"h" => Ok(Letter::H),
        b"d" => Ok(Letter::D),
        b"c" => Ok(Letter::C),
        b"g" => Ok(Letter::G),
        b"s" => Err(Reject::Unsupported),
        _ => Err(Reject::Type),
    }
}

impl<'a> Line<'a> {
    fn add(&mut self, field: &'a [u8]) -> Result<(), Reject> {
        match field {
            [b'@', rate @ ..] => self.weight = weight(rate)?,
            [b'#', tags @ ..] => {
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

/// Reads a time in seconds since 1970; the first second stands for no time at all.
pub(super) fn unix_seconds(text: &[u8]) -> Option<u64> {
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
                letter: Letter::Ms,
                values: b"1.5:2",
                weight: 4.0,
                tags: b"outcome:hit,fast",
                container: b"ci-1",
                at: Some(1_656_581_400),
            })
        );
    }

    #[test]
    fn each_type_letter_has_its_meaning() {
        for (letter, expected) in [
            ("ms", Ok(Letter::Ms)),
            ("h", Ok(Letter::H)),
            ("d", Ok(Letter::D)),
            ("c", Ok(Letter::C)),
            ("g", Ok(Letter::G)),
            ("s", Err(Reject::Unsupported)),
            ("x", Err(Reject::Type)),
            ("", Err(Reject::Type)),
        ] {
            let line = format!("a:1|{letter}");
            assert_eq!(parse(line.as_bytes()).map(|line| line.letter), expected, "{letter:?}");
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
