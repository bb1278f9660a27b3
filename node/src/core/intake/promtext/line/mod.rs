//! Parses one line of a page: a row, or metadata of a family. Keeps no state, and allocates only
//! for an escaped label value.

use std::borrow::Cow;

use crate::limits::LINE_BYTES_MAX;
use crate::limits::scrape::ROW_LABELS_MAX;

use crate::core::intake::reject::Reject;
use crate::core::intake::scan::find;

pub(crate) type Pair<'a> = (&'a str, Cow<'a, str>);

#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// `name{labels} value`; timestamp and exemplar are checked and not used.
    Row(Row<'a>),
    /// `# TYPE name kind`.
    Type(&'a str, FamilyType),
    /// `# UNIT name unit`.
    Unit(&'a str, &'a str),
    /// `# EOF`.
    End,
    /// A help text, a comment, or an empty line.
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row<'a> {
    /// The name with its suffix.
    pub(crate) name: &'a str,
    /// The text between the braces, which [`pairs`] parses without an error.
    pub(crate) labels: &'a [u8],
    /// The value, which may be NaN or infinite.
    pub(crate) value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FamilyType {
    Counter,
    Gauge,
    Histogram,
    /// A histogram of current values: its counts may decrease.
    GaugeHistogram,
    Summary,
    Info,
    StateSet,
    Untyped,
}

impl FamilyType {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "counter" => Self::Counter,
            "gauge" => Self::Gauge,
            "histogram" => Self::Histogram,
            "gaugehistogram" => Self::GaugeHistogram,
            "summary" => Self::Summary,
            "info" => Self::Info,
            "stateset" => Self::StateSet,
            "untyped" | "unknown" => Self::Untyped,
            _ => return None,
        })
    }
}

/// Parses a line without its line end. Leaves the labels of a row in `pairs`.
pub(crate) fn parse<'a>(line: &'a [u8], pairs: &mut Vec<Pair<'a>>) -> Result<Line<'a>, Reject> {
    pairs.clear();
    let line = line.trim_ascii();
    match line.first() {
        None => Ok(Line::Ignored),
        // Of a long help text nothing is read.
        Some(b'#') => comment(&line[1..]),
        Some(_) if line.len() > LINE_BYTES_MAX => Err(Reject::TooLong),
        Some(_) => row(line, pairs),
    }
}

/// What a line is about that cannot be read: a name, if that much of it can.
pub(crate) fn subject_of(line: &[u8]) -> Option<&str> {
    let line = line.trim_ascii();
    match line.strip_prefix(b"#") {
        Some(text) => words(text).nth(1).and_then(|name| str::from_utf8(unquoted(name)).ok()),
        None => name_of(line).map(|(name, _)| name),
    }
}

/// The name at the front of a row, and what follows it.
pub(crate) fn name_of(line: &[u8]) -> Option<(&str, &[u8])> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    let end = line.iter().position(|byte| !fits(byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let name = str::from_utf8(name).ok()?;
    (!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then_some((name, rest))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// A name without the quotes that it may have since it may be any UTF-8.
fn unquoted(name: &[u8]) -> &[u8] {
    let inner = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\""));
    inner.unwrap_or(name)
}

fn comment(text: &[u8]) -> Result<Line<'_>, Reject> {
    let mut words = words(text);
    let keyword = words.next();

    let mut word = || {
        let word = words.next().unwrap_or_default();
        str::from_utf8(unquoted(word)).map_err(|_| Reject::Encoding)
    };

    match keyword {
        Some(b"TYPE") => {
            let (name, kind) = (word()?, word()?);
            Ok(Line::Type(name, FamilyType::read(kind).ok_or(Reject::Type)?))
        }
        Some(b"UNIT") => Ok(Line::Unit(word()?, word()?)),
        Some(b"EOF") if words.next().is_none() => Ok(Line::End),
        _ => Ok(Line::Ignored),
    }
}

fn row<'a>(line: &'a [u8], pairs: &mut Vec<Pair<'a>>) -> Result<Line<'a>, Reject> {
    // `{"any name", label="value"}` has its name between the braces.
    let (name, rest) = match line {
        [b'{', ..] => (None, line),
        _ => name_of(line).map(|(name, rest)| (Some(name), rest)).ok_or(Reject::Name)?,
    };

    if !matches!(rest, [] | [b' ' | b'\t' | b'{', ..]) {
        return Err(Reject::Name);
    }

    let mut rest = rest.trim_ascii_start();
    let (mut labels, mut quoted) = (&[][..], None);

    if let [b'{', inner @ ..] = rest {
        rest = inner;
        quoted = take_pairs(&mut rest, pairs)?;
        labels = &inner[..inner.len() - rest.len()];
        rest = rest.strip_prefix(b"}").ok_or(Reject::Shape)?;
    }

    let ((Some(name), None) | (None, Some(name))) = (name, quoted) else {
        return Err(Reject::Name);
    };

    // An exemplar is one of the samples that the row counts.
    let values = find(b'#', rest).map_or(rest, |at| &rest[..at]);
    let mut words = values.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let value = number(words.next().ok_or(Reject::Shape)?).ok_or(Reject::Number)?;

    // A page has the values of the time of the scrape; a timestamp is checked and not used.
    let timestamp = words.next().map(number);
    if timestamp.is_some_and(|at| at.is_none_or(|at| !at.is_finite())) {
        return Err(Reject::Timestamp);
    }

    if words.next().is_some() {
        return Err(Reject::Shape);
    }
    Ok(Line::Row(Row { name, labels, value }))
}

/// Parses a number, including `NaN` and `+Inf`.
pub(crate) fn number(text: &[u8]) -> Option<f64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// Parses the labels of a row that was parsed before.
pub(crate) fn pairs(mut labels: &[u8]) -> Vec<Pair<'_>> {
    let mut pairs = Vec::new();
    let read = take_pairs(&mut labels, &mut pairs);
    debug_assert!(read.is_ok(), "the row was parsed before");
    pairs
}

/// Parses labels up to the closing brace, exclusive, or to the end. Returns the name of the row if
/// it is the first of them.
fn take_pairs<'a>(
    rest: &mut &'a [u8],
    pairs: &mut Vec<Pair<'a>>,
) -> Result<Option<&'a str>, Reject> {
    let mut name = None;
    loop {
        *rest = rest.trim_ascii_start();
        if rest.is_empty() || rest.starts_with(b"}") {
            return Ok(name);
        }
        let key = take_key(rest)?;
        *rest = rest.trim_ascii_start();

        if let [b'=', after @ ..] = rest {
            *rest = after.trim_ascii_start().strip_prefix(b"\"").ok_or(Reject::Shape)?;
            let value = take_value(rest)?;
            if pairs.iter().any(|(other, _)| *other == key.text) {
                return Err(Reject::Shape);
            }
            if pairs.len() == ROW_LABELS_MAX {
                return Err(Reject::TooLong);
            }
            pairs.push((key.text, value));
        } else if key.is_quoted && name.is_none() && pairs.is_empty() {
            name = Some(key.text);
        } else {
            return Err(Reject::Shape);
        }

        *rest = rest.trim_ascii_start();

        match rest {
            [b',', after @ ..] => *rest = after,
            [b'}', ..] | [] => return Ok(name),
            _ => return Err(Reject::Shape),
        }
    }
}

/// The name of a label, or of the row.
struct Key<'a> {
    text: &'a str,
    is_quoted: bool,
}

/// Parses a name with or without quotes.
fn take_key<'a>(rest: &mut &'a [u8]) -> Result<Key<'a>, Reject> {
    if let [b'"', after @ ..] = rest {
        *rest = after;
        return match take_value(rest)? {
            Cow::Borrowed(text) => Ok(Key { text, is_quoted: true }),
            // No name that we accept has a quote or a backslash.
            Cow::Owned(_) => Err(Reject::Name),
        };
    }
    let (text, after) = name_of(rest).ok_or(Reject::Shape)?;
    *rest = after;
    Ok(Key { text, is_quoted: false })
}

/// Parses a value up to its closing quote, inclusive.
fn take_value<'a>(rest: &mut &'a [u8]) -> Result<Cow<'a, str>, Reject> {
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).ok_or(Reject::Shape)?;
    let (plain, after) = rest.split_at(end);
    let text = |bytes: &'a [u8]| str::from_utf8(bytes).map_err(|_| Reject::Encoding);

    if let [b'"', after @ ..] = after {
        *rest = after;
        return text(plain).map(Cow::Borrowed);
    }

    // Only a value with an escape is copied.
    let mut value = plain.to_vec();
    let mut bytes = after.iter();

    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                *rest = bytes.as_slice();
                return String::from_utf8(value).map(Cow::Owned).map_err(|_| Reject::Encoding);
            }
            b'\\' => match bytes.next().ok_or(Reject::Shape)? {
                b'n' => value.push(b'\n'),
                escaped @ (b'"' | b'\\') => value.push(*escaped),
                // Neither format has another escape; both client libraries keep it unchanged.
                other => value.extend([b'\\', *other]),
            },
            _ => value.push(*byte),
        }
    }

    Err(Reject::Shape)
}

#[cfg(test)]
mod tests;
