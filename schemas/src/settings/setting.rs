//! Settings as they were written, read as what is expected of them.
//!
//! In a file, each value has a type. An environment variable or a flag is text, and the expected
//! type decides how it is read: `12345` is a password where text is expected and a number where a
//! number is. So text is kept as it came and read on demand.

use std::collections::BTreeMap;
use std::collections::btree_map::IntoIter;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

use super::fault::Fault;

/// A section: its keys and what they are set to.
pub(crate) type Tree = BTreeMap<String, Setting>;

/// What one key is set to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    /// A section.
    Section(Tree),
    /// A list or a plain value whose type was written down.
    Typed(Value),
    /// Text that is read as the type that the key expects.
    Text(String),
}

impl From<Value> for Setting {
    fn from(value: Value) -> Self {
        match value {
            Value::Table(table) => Self::Section(tree(table)),
            plain => Self::Typed(plain),
        }
    }
}

/// A file's table as a section.
pub(crate) fn tree(table: Table) -> Tree {
    table.into_iter().map(|(name, value)| (name, value.into())).collect()
}

impl Setting {
    /// Text as TOML would read it, or as a string where TOML would not.
    fn typed(self) -> Self {
        let Self::Text(text) = self else { return self };
        let read = format!("v = {text}").parse::<Table>().ok();
        read.and_then(|mut table| if table.len() == 1 { table.remove("v") } else { None })
            .unwrap_or(Value::String(text))
            .into()
    }
}

impl<'de> Deserializer<'de> for Setting {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.typed() {
            Self::Section(tree) => visitor.visit_map(Entries { left: tree.into_iter(), at: None }),
            Self::Text(text) | Self::Typed(Value::String(text)) => visitor.visit_string(text),
            Self::Typed(Value::Integer(number)) => visitor.visit_i64(number),
            Self::Typed(Value::Float(number)) => visitor.visit_f64(number),
            Self::Typed(Value::Boolean(truth)) => visitor.visit_bool(truth),
            Self::Typed(Value::Datetime(date)) => visitor.visit_string(date.to_string()),
            Self::Typed(Value::Array(items)) => {
                visitor.visit_seq(Items { left: items.into_iter().enumerate() })
            }
            Self::Typed(Value::Table(table)) => Self::Section(tree(table)).deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Text(text) => visitor.visit_string(text),
            written => written.deserialize_any(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Self::Text(text) | Self::Typed(Value::String(text)) => {
                let variant: StringDeserializer<Fault> = text.into_deserializer();
                visitor.visit_enum(variant)
            }
            Self::Typed(_) | Self::Section(_) => Err(Fault::custom("invalid type: expected text")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Self::Section(tree) = self.typed() else {
            return Err(Fault::custom("invalid type: expected a section"));
        };
        match tree.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(Fault::unknown(name, known)),
            None => Self::Section(tree).deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// A section's keys, one after the other.
struct Entries {
    left: IntoIter<String, Setting>,
    at: Option<(String, Setting)>,
}

impl<'de> MapAccess<'de> for Entries {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.at = self.left.next();
        let Some((name, _)) = &self.at else { return Ok(None) };
        let name: StringDeserializer<Fault> = name.clone().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((name, setting)) = self.at.take() else {
            return Err(Fault::custom("a value was requested before its key"));
        };
        seed.deserialize(setting).map_err(|fault| fault.within(&name))
    }
}

/// A list's items, one after the other.
struct Items {
    left: std::iter::Enumerate<std::vec::IntoIter<Value>>,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((at, value)) = self.left.next() else { return Ok(None) };
        let item = seed.deserialize(Setting::from(value));
        item.map(Some).map_err(|fault| fault.within(&format!("[{at}]")))
    }
}
