//! Converts OTLP's JSON to the same message in Protocol Buffers, so that one reader serves both.
//!
//! Unknown names are skipped, 64-bit integers may be strings, ids are hexadecimal, and `null` is an
//! absent field. The message is written field by field while the text is read: memory use is a few
//! times the text's bytes, whatever they hold, and no tree is built.

mod text;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

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

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        match self.field.kind {
            FieldKind::Bool if self.is_placed() => self.varint(value.into()),
            _ => return Err(self.wrong()),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.whole(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.whole(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.field.kind {
            FieldKind::Double => self.double(value),
            _ => match text::integral(value) {
                Some(whole) => self.whole(whole),
                None => Err(self.wrong()),
            },
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        match self.field.kind {
            _ if !self.is_placed() => Err(self.wrong()),
            FieldKind::Text => self.bytes(value.as_bytes()),
            FieldKind::Bytes => match text::base64(value) {
                Some(bytes) => self.bytes(&bytes),
                None => Err(self.wrong()),
            },
            FieldKind::Id => match text::hexadecimal(value) {
                Some(bytes) => self.bytes(&bytes),
                None => Err(self.wrong()),
            },
            FieldKind::Double => match value.parse() {
                Ok(number) => self.double(number),
                Err(_) => Err(self.wrong()),
            },
            FieldKind::Message(_) | FieldKind::Bool | FieldKind::Enum => Err(self.wrong()),
            _ => match value.parse() {
                Ok(whole) => self.whole(whole),
                Err(_) => Err(self.wrong()),
            },
        }
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

/// The last seven bits.
fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

impl Value<'_> {
    /// Whether a single value is allowed here.
    fn is_placed(&self) -> bool {
        self.field.is_many == self.is_within
    }

    fn wrong<E: Error>(&self) -> E {
        E::custom(format_args!("expected {}", self as &dyn serde::de::Expected))
    }

    /// Writes an integer by its kind.
    fn whole<E: Error>(mut self, value: i128) -> Result<(), E> {
        let written = self.is_placed().then(|| self.try_whole(value)).flatten();
        written.ok_or_else(|| self.wrong())
    }

    #[expect(clippy::cast_precision_loss, reason = "an integer where a float belongs is one")]
    fn try_whole(&mut self, value: i128) -> Option<()> {
        match self.field.kind {
            FieldKind::Double => self.fixed((value as f64).to_bits()),
            FieldKind::Fixed64 => self.fixed(u64::try_from(value).ok()?),
            FieldKind::Sfixed64 => self.fixed(i64::try_from(value).ok()?.cast_unsigned()),
            FieldKind::Uint => self.varint(u64::try_from(value).ok()?),
            FieldKind::Int64 => self.varint(i64::try_from(value).ok()?.cast_unsigned()),
            FieldKind::Enum => self.varint(u32::try_from(value).ok()?.into()),
            FieldKind::Sint32 => {
                let value = i32::try_from(value).ok()?;
                self.varint(((value << 1) ^ (value >> 31)).cast_unsigned().into());
            }
            FieldKind::Message(_)
            | FieldKind::Text
            | FieldKind::Bytes
            | FieldKind::Id
            | FieldKind::Bool => return None,
        }
        Some(())
    }

    fn double<E: Error>(mut self, value: f64) -> Result<(), E> {
        if !self.is_placed() {
            return Err(self.wrong());
        }
        self.fixed(value.to_bits());
        Ok(())
    }

    fn bytes<E: Error>(mut self, bytes: &[u8]) -> Result<(), E> {
        self.tag(2);
        self.push(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn fixed(&mut self, bits: u64) {
        self.tag(1);
        self.out.extend_from_slice(&bits.to_le_bytes());
    }

    fn varint(&mut self, number: u64) {
        self.tag(0);
        self.push(number);
    }

    fn tag(&mut self, wire: u64) {
        self.push(u64::from(self.field.number) << 3 | wire);
    }

    fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.out.push(low_bits(number));
    }
}

#[cfg(test)]
mod tests;
