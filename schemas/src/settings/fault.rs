//! A fault of one value. It never contains the value, which may be a password.

use std::fmt;

use serde::de::{Error, Unexpected};

/// A fault, and the way to it from the outside in.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The dotted key; a list's items as `[0]`.
    pub(crate) key: String,
    pub(crate) kind: FaultKind,
}

/// What is wrong.
#[derive(Debug)]
pub(crate) enum FaultKind {
    /// The key means nothing; these would have, in its section.
    UnknownKey(&'static [&'static str]),
    /// The value cannot be used.
    Invalid(String),
}

impl Fault {
    /// The key `name` is unknown in this section; `known` are the valid keys.
    pub(crate) fn unknown(name: &str, known: &'static [&'static str]) -> Self {
        Self { key: name.to_owned(), kind: FaultKind::UnknownKey(known) }
    }

    /// The same fault, seen from the section or list around it.
    pub(crate) fn within(mut self, part: &str) -> Self {
        let dot = if self.key.is_empty() || self.key.starts_with('[') { "" } else { "." };
        self.key = format!("{part}{dot}{}", self.key);
        self
    }
}

impl Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { key: String::new(), kind: FaultKind::Invalid(message.to_string()) }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        Self::custom(format_args!("invalid type: expected {expected}, found {}", type_name(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        match found {
            // A number out of range: no secret is a number by its type.
            Unexpected::Signed(_) | Unexpected::Unsigned(_) | Unexpected::Float(_) => {
                Self::custom(format_args!("invalid value: expected {expected}, found {found}"))
            }
            _ => Self::invalid_type(found, expected),
        }
    }
}

fn type_name(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Signed(_) | Unexpected::Unsigned(_) => "a whole number",
        Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) => "text",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a section",
        _ => "something else",
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FaultKind::UnknownKey(_) => write!(f, "{}: unknown key", self.key),
            FaultKind::Invalid(message) => write!(f, "{}: {message}", self.key),
        }
    }
}

impl std::error::Error for Fault {}
