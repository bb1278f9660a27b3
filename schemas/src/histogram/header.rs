//! The fixed header of an uncompressed HdrHistogram V2 message.

use super::error::CodecError;
use super::layout::{DIGITS, LOW_NS, MAX_NS};

/// First four bytes of an uncompressed V2 histogram.
const COOKIE: u32 = 0x1c84_9313;
/// Bytes before the payload.
pub(super) const HEADER_BYTES: usize = 40;

/// Writes the header into the first [`HEADER_BYTES`] of `bytes`; `None` when the payload behind
/// them is too long for its length field.
pub(super) fn write(bytes: &mut [u8]) -> Option<()> {
    let payload = u32::try_from(bytes.len() - HEADER_BYTES).ok()?;
    let words = [COOKIE, payload, 0, u32::from(DIGITS)].map(u32::to_be_bytes);
    bytes[..16].copy_from_slice(words.as_flattened());
    let longs = [LOW_NS, MAX_NS, 1.0_f64.to_bits()].map(u64::to_be_bytes);
    bytes[16..HEADER_BYTES].copy_from_slice(longs.as_flattened());
    Some(())
}

/// Checks the header and returns the payload behind it.
///
/// # Errors
/// When the header is not that of the mesh's one layout, or states another length.
pub(super) fn split(bytes: &[u8]) -> Result<&[u8], CodecError> {
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(CodecError::Short(bytes.len()));
    };
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    let long = |at: usize| (u64::from(word(at)) << 32) | u64::from(word(at + 4));
    if word(0) != COOKIE {
        return Err(CodecError::Cookie(word(0)));
    }
    if usize::try_from(word(4)) != Ok(payload.len()) {
        return Err(CodecError::Length { stated: word(4).into(), present: payload.len() });
    }

    let fields = [
        ("normalizing offset", u64::from(word(8)) == 0),
        ("significant digits", word(12) == u32::from(DIGITS)),
        ("lowest value", long(16) == LOW_NS),
        ("highest value", long(24) == MAX_NS),
        ("conversion ratio", long(32) == 1.0_f64.to_bits()),
    ];

    match fields.into_iter().find(|(_, right)| !right) {
        Some((field, _)) => Err(CodecError::Layout { field }),
        None => Ok(payload),
    }
}
