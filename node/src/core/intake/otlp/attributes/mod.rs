//! The attributes that identify streams, and those that become labels. All attributes identify a
//! stream, by a hash that ignores their order. Strings, numbers and booleans may become labels;
//! nested values and bytes may not.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};

use crate::limits::OTLP_ATTRIBUTES_MAX;
use foldhash::fast::FixedState;

use super::names::to_label_key;
use super::protobuf::{Wire, fields, messages};
use super::rules::LabelOf;

/// Attributes as encoded in one field of a message that was checked.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a> {
    message: &'a [u8],
    number: u32,
}

/// The value of an attribute.
#[derive(Debug, PartialEq)]
pub(super) enum AttributeValue<'a> {
    Text(Cow<'a, str>),
    /// Nothing that a label holds: a list, a map, bytes.
    Nested,
}

impl<'a> Attributes<'a> {
    /// Those in field `number` of `message`.
    pub(super) fn new(message: &'a [u8], number: u32) -> Self {
        Self { message, number }
    }

    /// Keys and values in the order of the message, as many as may become labels.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a str, AttributeValue<'a>)> {
        self.values().map(|(key, value)| (key, value_text(value)))
    }

    /// The same, values as they are written.
    fn values(self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        messages(self.message, self.number).take(OTLP_ATTRIBUTES_MAX).map(|attribute| {
            let (mut key, mut value) = ("", &[][..]);
            for field in fields(attribute) {
                match field {
                    (1, Wire::Bytes(bytes)) => key = str::from_utf8(bytes).unwrap_or_default(),
                    (2, Wire::Bytes(bytes)) => value = bytes,
                    _ => {}
                }
            }
            (key, value)
        })
    }

    /// How many are beyond those.
    fn beyond(self) -> usize {
        messages(self.message, self.number).skip(OTLP_ATTRIBUTES_MAX).count()
    }

    /// The value of one in words.
    pub(super) fn get(self, key: &str) -> Option<Cow<'a, str>> {
        value_of(self.values(), key)
    }

    /// The same for repeated lookups: the message is walked once, however much else it holds.
    pub(super) fn list(self) -> AttributeList<'a> {
        AttributeList(self.values().collect())
    }

    /// The same for the same attributes in any order, whatever they hold.
    pub(super) fn hash(self, state: &FixedState) -> u64 {
        let each = messages(self.message, self.number).map(|attribute| hash(state, attribute));
        // A sum, because the order of attributes means nothing.
        each.fold(0, u64::wrapping_add)
    }
}

/// Attributes that many points or spans have in common.
pub(super) struct AttributeList<'a>(Vec<(&'a str, &'a [u8])>);

impl<'a> AttributeList<'a> {
    /// The value of one in words.
    pub(super) fn get(&self, key: &str) -> Option<Cow<'a, str>> {
        value_of(self.0.iter().copied(), key)
    }
}

fn value_of<'a>(
    values: impl Iterator<Item = (&'a str, &'a [u8])>,
    key: &str,
) -> Option<Cow<'a, str>> {
    values.filter(|(found, _)| *found == key).find_map(|(_, value)| match value_text(value) {
        AttributeValue::Text(text) => Some(text),
        AttributeValue::Nested => None,
    })
}

fn value_text(value: &[u8]) -> AttributeValue<'_> {
    let mut value_text = AttributeValue::Text(Cow::Borrowed(""));
    for field in fields(value) {
        value_text = match field {
            (1, Wire::Bytes(text)) => {
                AttributeValue::Text(Cow::Borrowed(str::from_utf8(text).unwrap_or_default()))
            }
            (2, Wire::Varint(truth)) => AttributeValue::Text(Cow::Borrowed(match truth {
                0 => "false",
                _ => "true",
            })),
            (3, Wire::Varint(number)) => {
                AttributeValue::Text(number.cast_signed().to_string().into())
            }
            (4, Wire::Fixed64(bits)) => {
                AttributeValue::Text(f64::from_bits(bits).to_string().into())
            }
            (5..=7, Wire::Bytes(_)) => AttributeValue::Nested,
            _ => continue,
        };
    }

    value_text
}

/// One number for some bytes.
pub(super) fn hash(state: &FixedState, bytes: &[u8]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// One number for several in this order.
pub(super) fn join(state: &FixedState, parts: &[u64]) -> u64 {
    let mut hasher = state.build_hasher();
    parts.iter().for_each(|part| hasher.write_u64(*part));
    hasher.finish()
}

/// Labels on their way: pairs that fit by their keys, and how many attributes no label can hold.
#[derive(Default)]
pub(super) struct Pairs<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(super) nested: u64,
    /// How many there were beyond the bound.
    pub(super) beyond: u64,
}

impl<'a> Pairs<'a> {
    /// Adds one, unless there is one of its key.
    pub(super) fn add(&mut self, key: &'a str, value: impl Into<Cow<'a, str>>) {
        if !self.pairs.iter().any(|(found, _)| found == key) {
            self.pairs.push((Cow::Borrowed(key), value.into()));
        }
    }

    /// Adds those that are named and that `get` finds.
    pub(super) fn add_named(
        &mut self,
        named: &'a [LabelOf],
        get: impl Fn(&str) -> Option<Cow<'a, str>>,
    ) {
        for LabelOf { attribute, label } in named {
            if let Some(value) = get(attribute) {
                self.add(label, value);
            }
        }
    }

    /// Adds all, their keys made fit, in an order that is not theirs.
    pub(super) fn add_all(&mut self, attributes: Attributes<'a>) {
        let begin = self.pairs.len();
        for (key, value_text) in attributes.iter() {
            match value_text {
                AttributeValue::Text(value) => self.pairs.push((to_label_key(key).into(), value)),
                AttributeValue::Nested => self.nested += 1,
            }
        }
        self.beyond += attributes.beyond() as u64;
        // Sorted, so that the same attributes in another order leave the same ones out where there
        // are too many.
        self.pairs[begin..].sort_unstable();
    }

    /// The pairs, those first that were added first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (&**key, &**value))
    }
}

#[cfg(test)]
mod tests;
