//! A message as a later version may write it: in another order and with fields that no reader
//! of version 1 defines, in every map whose keys the wire fixes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maps whose keys are data: no key in them is unknown.
const OPEN: [&str; 2] = ["labels", "lost"];

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Bool(bool),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

/// The same message, its fields sorted by name and some unknown ones among them.
pub(crate) fn with_unknown_fields(bytes: &[u8]) -> Vec<u8> {
    let message = rmp_serde::from_slice(bytes).expect("the encoder writes maps, lists and scalars");
    rmp_serde::to_vec_named(&extend(message)).expect("what was read can be written")
}

fn extend(value: Value) -> Value {
    match value {
        Value::Map(fields) => {
            let inner = |(key, value): (String, Value)| {
                let open = OPEN.contains(&key.as_str());
                (key, if open { value } else { extend(value) })
            };
            let mut fields: BTreeMap<_, _> = fields.into_iter().map(inner).collect();
            fields.insert("later".to_owned(), Value::List(vec![unknown()]));
            Value::Map(fields)
        }
        Value::List(values) => Value::List(values.into_iter().map(extend).collect()),
        scalar => scalar,
    }
}

fn unknown() -> Value {
    let scalars = [Value::Bool(true), Value::Float(0.5), Value::Bytes(vec![0xc1])];
    Value::Map(BTreeMap::from([("deep".to_owned(), Value::List(scalars.to_vec()))]))
}
