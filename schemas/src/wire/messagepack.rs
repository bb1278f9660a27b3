//! Reads one MessagePack value from untrusted bytes, with bounded nesting.

use std::io::ErrorKind;

use rmp_serde::decode::Error;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::limits::wire::DEPTH_MAX;

/// Reads one value from the front of `bytes`. Nesting is bounded: every level of it, in fields
/// that are skipped too, takes its part of the stack.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &mut &'a [u8]) -> Result<T, Error> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(*bytes);
    reader.set_max_depth(DEPTH_MAX);
    let value = T::deserialize(&mut reader)?;
    // A second value is tried, which fails at the end of the bytes for nearly every message: the
    // reader does not report where it stands, and to find out takes a second pass.
    *bytes = match IgnoredAny::deserialize(&mut reader) {
        Err(Error::InvalidMarkerRead(error)) if error.kind() == ErrorKind::UnexpectedEof => &[],
        _ => after_one(bytes)?,
    };
    Ok(value)
}

/// The bytes after the first value: a reader that lends its bytes does not report its position.
#[cold]
fn after_one(bytes: &[u8]) -> Result<&[u8], Error> {
    let mut reader = rmp_serde::Deserializer::new(bytes);
    reader.set_max_depth(DEPTH_MAX);
    IgnoredAny::deserialize(&mut reader)?;
    Ok(reader.into_inner())
}
