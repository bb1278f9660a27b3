//! The map that requests and responses share: the version of the format, then their own fields.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteArray;

use crate::limits::wire::SIGNATURE_BYTES;
use crate::wire::error::{SCHEMA, WireError};
use crate::wire::history::{named, read};

/// A request or a response with the version of its format.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    schema: u16,
    #[serde(flatten)]
    message: T,
    /// The last field, see [`crate::wire::signature`]; the bytes that stand here are put in
    /// afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    signature: Option<ByteArray<SIGNATURE_BYTES>>,
}

pub(super) fn encode<T: Serialize>(
    message: &T,
    signature: Option<ByteArray<SIGNATURE_BYTES>>,
) -> Vec<u8> {
    named(&Versioned { schema: SCHEMA, message, signature })
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8], max: usize) -> Result<T, WireError> {
    read(bytes, max, |versioned: &Versioned<T>| versioned.schema).map(|read| read.message)
}
