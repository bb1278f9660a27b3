//! Names and numbers that identify things, each checked once, where it enters.
//!
//! A [`NodeName`] has one way to be written as a token of a NATS subject; an [`Operation`] is safe
//! as a metric label and as a DogStatsD name. Neither can hold a blank, a wildcard, or a control
//! character, so nothing downstream has to escape them.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::limits::wire::{
    LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, OPERATION_BYTES_MAX, PARTITIONS_MAX,
    TOKEN_BYTES_MAX,
};

/// A character in an error text, where a quoted space is easy to miss.
fn named(found: char) -> String {
    if found == ' ' { "a space".to_owned() } else { format!("{found:?}") }
}

/// Why a name was refused.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
pub enum IdError {
    /// Nothing between the delimiters.
    #[error("{what} is empty")]
    Empty {
        /// Which kind of name.
        what: &'static str,
    },
    /// Longer than the wire allows.
    #[error("{what} has {len} bytes, more than {max}")]
    TooLong {
        /// Which kind of name.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The bound from `limits.rs`.
        max: usize,
    },
    /// A character that would need escaping somewhere on the way.
    #[error("{what} contains {}; allowed: {allowed}", named(*.found))]
    Character {
        /// Which kind of name.
        what: &'static str,
        /// The first offending character.
        found: char,
        /// What would have been right.
        allowed: &'static str,
    },
    /// More labels than a series may carry.
    #[error("{len} labels, more than {max}")]
    TooManyLabels {
        /// Number of labels found.
        len: usize,
        /// The bound from `limits.rs`.
        max: usize,
    },
    /// A number that no partition has.
    #[error("partition {text} is none of 0 to {}", PARTITIONS_MAX - 1)]
    Partition {
        /// The number.
        text: String,
    },
    /// The same key twice.
    #[error("label {key:?} is given twice")]
    DuplicateLabel {
        /// The key.
        key: String,
    },
}

fn check(
    what: &'static str,
    text: &str,
    max: usize,
    allowed: &'static str,
    fits: impl Fn(char) -> bool,
) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > max {
        return Err(IdError::TooLong { what, len: text.len(), max });
    }
    match text.chars().find(|c| !fits(*c)) {
        Some(found) => Err(IdError::Character { what, found, allowed }),
        None => Ok(()),
    }
}

/// What fits as a regular expression: letters, digits and some of the marks that names have.
#[cfg(feature = "openapi")]
fn pattern(fits: impl Fn(char) -> bool) -> String {
    let marks: String = "_.:/-".chars().filter(|mark| fits(*mark)).collect();
    format!("^[A-Za-z0-9{marks}]+$")
}

macro_rules! checked_name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr, $allowed:literal, $fits:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(
            feature = "openapi",
            derive(schemars::JsonSchema),
            schemars(extend("pattern" = pattern($fits), "maxLength" = $max))
        )]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` without storing it.
            ///
            /// # Errors
            /// When it is empty, too long, or holds a character outside the allowed set.
            pub fn check(text: &str) -> Result<(), IdError> {
                check($what, text, $max, $allowed, $fits)
            }

            /// Checks and keeps `text`.
            ///
            /// # Errors
            /// As [`Self::check`].
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                Self::check(text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.as_str().to_owned()
            }
        }
    };
}

impl Default for MeshName {
    /// The mesh of settings that name none.
    fn default() -> Self {
        Self("default".into())
    }
}

const TOKEN_ALLOWED: &str = "letters, digits, '_' and '-'";
fn token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

checked_name!(
    /// The name of one mesh: all nodes and aggregators that share subjects.
    MeshName, "mesh name", TOKEN_BYTES_MAX, "letters, digits, '_' and '-'", token_char
);
checked_name!(
    /// The name of one node; unique within its mesh. It may have dots, as cloud hosts have, which
    /// are written as `=` in the one token of a subject that it takes ([`Self::token`]).
    NodeName, "node name", TOKEN_BYTES_MAX, "letters, digits and '_.-'",
    |c| token_char(c) || c == DOT
);
checked_name!(
    /// The name of one aggregator; unique within its mesh.
    AggregatorName, "aggregator name", TOKEN_BYTES_MAX, "letters, digits, '_' and '-'", token_char
);
checked_name!(
    /// The name of one rule or budget.
    RuleName, "rule name", TOKEN_BYTES_MAX, "letters, digits, '_' and '-'", token_char
);
checked_name!(
    /// Why samples were lost; a new version may have reasons that an old one does not.
    LossReason, "loss reason", TOKEN_BYTES_MAX, "letters, digits, '_' and '-'", token_char
);
checked_name!(
    /// What was timed or counted, such as `epoch_hook`.
    Operation, "operation", OPERATION_BYTES_MAX, "letters, digits and '_.:/-'",
    |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c)
);

checked_name!(
    /// The name of one run: the value of its samples' label `run`.
    RunName, "run name", TOKEN_BYTES_MAX, "letters, digits and '_.-'",
    |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c)
);
checked_name!(
    /// The name under which a profile is kept.
    ProfileName, "profile name", TOKEN_BYTES_MAX, "letters, digits and '_.-'",
    |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c)
);

/// Digits of the largest partition.
const PARTITION_DIGITS_MAX: usize = 2;
/// What separates the tokens of a subject.
const DOT: char = '.';
/// What stands for a dot of a node's name in a token. No name has it, and NATS allows it.
const DOT_IN_TOKEN: char = '=';

impl NodeName {
    /// The name as one token of a subject: DESIGN S61.
    #[must_use]
    pub fn token(&self) -> NodeToken<'_> {
        NodeToken(self.as_str())
    }

    /// The name that was written as this token.
    ///
    /// # Errors
    /// When no name is written so.
    pub fn from_token(token: &str) -> Result<Self, IdError> {
        check("node name", token, TOKEN_BYTES_MAX, "letters, digits and '_=-'", |c| {
            token_char(c) || c == DOT_IN_TOKEN
        })?;
        if token.contains(DOT_IN_TOKEN) {
            return Self::new(token.replace(DOT_IN_TOKEN, "."));
        }
        Self::new(token)
    }

    /// A host's name as a node name: a dot, or another character that no token has, becomes `-`,
    /// and a name that is too long is cut. `None` when nothing is left.
    #[must_use]
    pub fn from_host(host: &str) -> Option<Self> {
        Self::new(token_of_host(host)).ok()
    }
}

/// A node's name as a subject has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeToken<'n>(&'n str);

impl fmt::Display for NodeToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.0.split(DOT);
        f.write_str(parts.next().unwrap_or_default())?;
        parts.try_for_each(|part| write!(f, "{DOT_IN_TOKEN}{part}"))
    }
}

impl AggregatorName {
    /// A host's name as an aggregator's name, as that of a node.
    #[must_use]
    pub fn from_host(host: &str) -> Option<Self> {
        Self::new(token_of_host(host)).ok()
    }
}

fn token_of_host(host: &str) -> String {
    let allowed = |c| if token_char(c) { c } else { '-' };
    host.chars().take(TOKEN_BYTES_MAX).map(allowed).collect()
}

/// Checks text that must be one token of a subject.
///
/// # Errors
/// When it is empty, too long, or holds anything but letters, digits, `_` and `-`.
pub fn check_token(what: &'static str, text: &str) -> Result<(), IdError> {
    check(what, text, TOKEN_BYTES_MAX, TOKEN_ALLOWED, token_char)
}

/// A part of a mesh's nodes, from 0 on: DESIGN S80.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Partition(pub u16);

impl Partition {
    /// The first `count` partitions, at most as many as a mesh may have.
    pub fn first(count: u16) -> impl DoubleEndedIterator<Item = Self> {
        (0..count.min(PARTITIONS_MAX)).map(Self)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Partition {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        check("partition", text, PARTITION_DIGITS_MAX, "digits", |c| c.is_ascii_digit())?;
        let number: u16 = text.parse().unwrap_or(u16::MAX);
        // One number has one form: a subject that is built again is the same.
        let is_canonical = text.len() == 1 || !text.starts_with('0');
        match number < PARTITIONS_MAX && is_canonical {
            true => Ok(Self(number)),
            false => Err(IdError::Partition { text: text.to_owned() }),
        }
    }
}

/// One incarnation of a node: the wall time of its start in nanoseconds, so a later incarnation
/// sorts later.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// A snapshot's number within an incarnation; the first is 1.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Labels of a series, sorted by key, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Labels(
    #[cfg_attr(feature = "openapi", schemars(with = "std::collections::BTreeMap<String, String>"))]
    Arc<[(Box<str>, Box<str>)]>,
);

impl Labels {
    /// Checks, sorts and keeps pairs of key and value.
    ///
    /// # Errors
    /// When there are too many, a key repeats, a key is not `[A-Za-z0-9_.-]+`, or a value is
    /// too long or holds a control character.
    pub fn new<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, IdError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut kept = Vec::new();
        for (key, value) in pairs {
            keep(&mut kept, key.as_ref().into(), value.as_ref().into())?;
        }
        Self::sorted(kept)
    }

    fn sorted(mut kept: Vec<(Box<str>, Box<str>)>) -> Result<Self, IdError> {
        if kept.is_empty() {
            return Ok(Self::default());
        }
        kept.sort_unstable();
        if let Some(twice) = kept.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(IdError::DuplicateLabel { key: twice[0].0.to_string() });
        }
        Ok(Self(kept.into()))
    }

    /// The pairs in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// True for a series without labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Keeps one label more, which may have the key of another one.
fn keep(
    kept: &mut Vec<(Box<str>, Box<str>)>,
    key: Box<str>,
    value: Box<str>,
) -> Result<(), IdError> {
    if kept.len() == LABELS_MAX {
        return Err(IdError::TooManyLabels { len: LABELS_MAX + 1, max: LABELS_MAX });
    }
    check_label(&key, &value)?;
    kept.push((key, value));
    Ok(())
}

fn check_label(key: &str, value: &str) -> Result<(), IdError> {
    check("label key", key, LABEL_KEY_BYTES_MAX, "letters, digits and '_.-'", |c| {
        c.is_ascii_alphanumeric() || "_.-".contains(c)
    })?;
    if value.is_empty() {
        return Ok(());
    }
    check("label value", value, LABEL_VALUE_BYTES_MAX, "anything but control characters", |c| {
        !c.is_control()
    })
}

/// Without a map in between: tens of labels come with each message.
impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut kept = Vec::new();
                while let Some((key, value)) = map.next_entry()? {
                    keep(&mut kept, key, value).map_err(A::Error::custom)?;
                }
                Labels::sorted(kept).map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// An operation together with its labels: what one histogram, counter or gauge belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Series {
    /// What was timed or counted.
    pub operation: Operation,
    /// The labels it came with.
    pub labels: Labels,
}

impl Series {
    /// A series without labels.
    #[must_use]
    pub fn plain(operation: Operation) -> Self {
        Self { operation, labels: Labels::default() }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operation.fmt(f)?;
        if self.labels.is_empty() {
            return Ok(());
        }
        let pairs: Vec<String> = self.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        write!(f, "{{{}}}", pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_break_a_subject_are_refused() {
        for bad in ["", "a=b", "a b", "a*", ">", "ü", "a\n"] {
            assert!(NodeName::new(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["rack-1_b", "ip-10-0-0-1.ec2.internal"] {
            assert_eq!(NodeName::new(good).unwrap().as_str(), good);
        }
        assert!(MeshName::new("a.b").is_err());
    }

    #[test]
    fn labels_are_read_in_any_order_and_checked_as_they_are_when_made() {
        let read = |json: &str| serde_json::from_str::<Labels>(json);
        let labels = Labels::new([("a", "1"), ("b", "2")]).unwrap();
        assert_eq!(read(r#"{"b":"2","a":"1"}"#).unwrap(), labels);
        assert_eq!(read("{}").unwrap(), Labels::default());
        let many: Vec<_> = (0..=LABELS_MAX).map(|n| format!("\"k{n}\":\"\"")).collect();
        let many = format!("{{{}}}", many.join(","));
        for (bad, words) in [
            (r#"{"a":"1","a":"2"}"#, "given twice"),
            (r#"{"a b":"1"}"#, "contains a space"),
            (r#"["a"]"#, "a map of labels"),
            (&many, "more than"),
        ] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains(words), "{bad}: {error}");
        }
    }

    #[test]
    fn a_name_of_the_greatest_length_fits_and_one_more_does_not() {
        assert!(NodeName::new("n".repeat(TOKEN_BYTES_MAX)).is_ok());
        assert_eq!(
            NodeName::new("n".repeat(TOKEN_BYTES_MAX + 1)),
            Err(IdError::TooLong {
                what: "node name",
                len: TOKEN_BYTES_MAX + 1,
                max: TOKEN_BYTES_MAX
            })
        );
    }

    #[test]
    fn a_host_name_becomes_a_node_name() {
        assert_eq!(NodeName::from_host("gpu7.rack.example").unwrap().as_str(), "gpu7-rack-example");
        assert_eq!(NodeName::from_host(""), None);
    }

    #[test]
    fn labels_are_one_set_whatever_their_order() {
        let one = Labels::new([("b", "2"), ("a", "1")]).unwrap();
        let two = Labels::new([("a", "1"), ("b", "2")]).unwrap();
        assert_eq!(one, two);
        assert_eq!(one.get("b"), Some("2"));
        assert_eq!(one.iter().next(), Some(("a", "1")));
    }

    #[test]
    fn repeated_and_excess_labels_are_refused() {
        assert_eq!(
            Labels::new([("a", "1"), ("a", "2")]),
            Err(IdError::DuplicateLabel { key: "a".into() })
        );
        let many = (0..=LABELS_MAX).map(|i| (format!("k{i}"), "v"));
        assert!(matches!(Labels::new(many), Err(IdError::TooManyLabels { .. })));
    }
}
