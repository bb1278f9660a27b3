//! Converts OTLP's JSON to the same message in Protocol Buffers, so that one reader serves both.
//!
//! Unknown names are skipped, 64-bit integers may be strings, ids are hexadecimal, and `null` is an
//! absent field. The message is written field by field while the text is read: memory use is a few
//! times the text's bytes, whatever they hold, and no tree is built.

mod text;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::protobuf::{low_bits, push_varint};
use super::request::Malformed;
use super::schema::{Field, FieldKind, Message};

/// Bytes reserved for a length that is known once its message is written.
const LENGTH_BYTES: usize = 5;

/// The message that a JSON text encodes.
///
/// # Errors
/// Reports what is wrong, and where.
pub(super) fn to_protobuf(message: &'static Message, json: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = Body { message, out: &mut out }.deserialize(&mut reader);
    read.and_then(|()| reader.end()).map_err(|error| Malformed::new(message.name, &error))?;
    Ok(out)
}

/// A message, to be written without tag and length.
struct Body<'o> {
    message: &'static Message,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Body<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Body<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as an object", self.message.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Name(self.message))? {
            match field {
                Some(field) => {
                    map.next_value_seed(Value { field, is_within: false, out: self.out })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Which field a name means, if any.
struct Name(&'static Message);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.named(name))
    }
}

/// The value of a field, to be written with its tag.
struct Value<'o> {
    field: &'static Field,
    /// True for an element of a list.
    is_within: bool,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.field.kind {
            _ if self.field.is_many && !self.is_within => "a list",
            FieldKind::Message(of) => {
                return write!(f, "{}: {} as an object", self.field.name, of.name);
            }
            FieldKind::Text => "text",
            FieldKind::Bytes => "base64",
            FieldKind::Id => "hexadecimal text of at most 16 bytes",
            FieldKind::Double => "a number",
            FieldKind::Bool => "true or false",
            FieldKind::Enum => "a number, as all enums in OTLP",
            FieldKind::Fixed64
            | FieldKind::Sfixed64
            | FieldKind::Uint
            | FieldKind::Int64
            | FieldKind::Sint32 => "a whole number within its range",
        };
        write!(f, "{}: {what}", self.field.name)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(Scalar::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(Scalar::Whole(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(Scalar::Whole(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(Scalar::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(Scalar::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.is_placed() {
            return Err(self.wrong());
        }
        let Self { field, out, .. } = self;
        while seq.next_element_seed(Value { field, is_within: true, out })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        let FieldKind::Message(message) = self.field.kind else { return Err(self.wrong()) };
        if !self.is_placed() {
            return Err(self.wrong());
        }
        self.tag(2);
        // Room for the longest length: the message is written behind it, and its length only then
        // known. A varint may have more bytes than it needs.
        let begin = self.out.len() + LENGTH_BYTES;
        self.out.resize(begin, 0);
        Body { message, out: &mut *self.out }.visit_map(map)?;
        let mut len = self.out.len() - begin;

        for byte in &mut self.out[begin - LENGTH_BYTES..begin] {
            *byte = low_bits(len as u64) | 0x80;
            len >>= 7;
        }

        self.out[begin - 1] &= 0x7f;

        match len {
            0 => Ok(()),
            _ => Err(A::Error::custom("a message of more than 32 GiB")),
        }
    }
}

/// A value that is neither a list nor an object.
#[derive(Clone, Copy)]
enum Scalar<'a> {
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(&'a str),
}

impl Value<'_> {
    /// Whether a single value is allowed here.
    fn is_placed(&self) -> bool {
        self.field.is_many == self.is_within
    }

    fn wrong<E: Error>(&self) -> E {
        E::custom(format_args!("expected {}", self as &dyn serde::de::Expected))
    }

    fn scalar<E: Error>(mut self, value: Scalar<'_>) -> Result<(), E> {
        let written = self.is_placed().then(|| self.try_scalar(value)).flatten();
        written.ok_or_else(|| self.wrong())
    }

    /// Writes a value by the field's kind; `None` when it does not fit.
    #[expect(clippy::cast_precision_loss, reason = "an integer where a float belongs is one")]
    fn try_scalar(&mut self, value: Scalar<'_>) -> Option<()> {
        match (self.field.kind, value) {
            (FieldKind::Bool, Scalar::Bool(truth)) => self.varint(truth.into()),

            (FieldKind::Text, Scalar::Text(text)) => self.bytes(text.as_bytes()),
            (FieldKind::Bytes, Scalar::Text(text)) => self.bytes(&text::base64(text)?),
            (FieldKind::Id, Scalar::Text(text)) => self.bytes(&text::hexadecimal(text)?),
            (FieldKind::Double, Scalar::Text(text)) => self.double(text.parse().ok()?),
            (FieldKind::Message(_) | FieldKind::Enum, Scalar::Text(_)) => return None,

            (FieldKind::Double, Scalar::Float(value)) => self.double(value),
            (FieldKind::Double, Scalar::Whole(value)) => self.double(value as f64),
            (FieldKind::Fixed64, Scalar::Whole(value)) => self.fixed(value.try_into().ok()?),
            (FieldKind::Sfixed64, Scalar::Whole(value)) => {
                self.fixed(i64::try_from(value).ok()?.cast_unsigned());
            }
            (FieldKind::Uint, Scalar::Whole(value)) => self.varint(value.try_into().ok()?),
            (FieldKind::Int64, Scalar::Whole(value)) => {
                self.varint(i64::try_from(value).ok()?.cast_unsigned());
            }
            (FieldKind::Enum, Scalar::Whole(value)) => {
                self.varint(u32::try_from(value).ok()?.into());
            }
            (FieldKind::Sint32, Scalar::Whole(value)) => {
                let value = i32::try_from(value).ok()?;
                self.varint(((value << 1) ^ (value >> 31)).cast_unsigned().into());
            }

            // An integer may also be written as text or as a float.
            (_, Scalar::Text(text)) => return self.try_scalar(Scalar::Whole(text.parse().ok()?)),
            (_, Scalar::Float(value)) => {
                return self.try_scalar(Scalar::Whole(text::integral(value)?));
            }
            (_, Scalar::Bool(_) | Scalar::Whole(_)) => return None,
        }
        Some(())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.tag(2);
        push_varint(self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn double(&mut self, value: f64) {
        self.fixed(value.to_bits());
    }

    fn fixed(&mut self, bits: u64) {
        self.tag(1);
        self.out.extend_from_slice(&bits.to_le_bytes());
    }

    fn varint(&mut self, number: u64) {
        self.tag(0);
        push_varint(self.out, number);
    }

    fn tag(&mut self, wire: u64) {
        push_varint(self.out, u64::from(self.field.number) << 3 | wire);
    }
}

#[cfg(test)]
mod tests;
