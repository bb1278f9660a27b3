//! Bucket counts as standard HdrHistogram V2 bytes.
//!
//! Both directions are ours, and tests hold them against the `hdrhistogram` crate byte by byte.
//! That crate's writer walks and clears all 23 000 buckets for each histogram, which took a node
//! with a hundred series over 1 % of a core and 400 KiB; its reader believes the lengths it is
//! told (a 40-byte message makes it reserve 4 GiB) and panics on some zero runs.

use thiserror::Error;

use super::counts::Counts;
use super::layout::{DIGITS, LOW_NS, MAX_NS};
use super::payload;
use super::writer::Writer;
use crate::limits::wire::SAMPLES_MAX;

/// First four bytes of an uncompressed V2 histogram.
const COOKIE: u32 = 0x1c84_9313;
const HEADER_BYTES: usize = 40;
/// Samples that a stored histogram may hold; what lies above was never measured by anyone.
pub const STORED_MAX: u64 = 1 << 62;

/// Why V2 bytes were refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    /// Shorter than the fixed header.
    #[error("{0} bytes are too few for a V2 histogram header of {HEADER_BYTES}")]
    Short(usize),
    /// Another format, or a compressed histogram.
    #[error("cookie {0:#010x} is not an uncompressed V2 histogram")]
    Cookie(u32),
    /// The payload's stated length is not the number of bytes that follow.
    #[error("payload says {stated} bytes but {present} follow")]
    Length {
        /// What the header says.
        stated: u64,
        /// What is there.
        present: usize,
    },
    /// Any header field that differs from the one layout of the mesh.
    #[error("{field} differs from the mesh's layout (1 us to 1 h in ns, 3 digits)")]
    Layout {
        /// The field at fault.
        field: &'static str,
    },
    /// The payload ends inside a number.
    #[error("payload ends inside a number")]
    Truncated,
    /// Counts run past the last bucket.
    #[error("counts run past the last bucket")]
    OutOfRange,
    /// More samples than there may be in one place.
    #[error("more samples than there may be")]
    TooMany,
}

/// The V2 bytes of `counts`; `None` above [`STORED_MAX`] samples in a bucket.
#[must_use]
pub fn encode(counts: &Counts) -> Option<Vec<u8>> {
    let mut writer = Writer::after(HEADER_BYTES);
    let mut most = 0;
    counts.each(|index, n| {
        most = most.max(n);
        writer.push(index, n);
    });
    if most > STORED_MAX {
        return None;
    }
    let mut bytes = writer.into_bytes();
    if bytes.len() == HEADER_BYTES {
        // The reference library writes its first bucket even when nothing is in it.
        bytes.push(0);
    }
    let payload = u32::try_from(bytes.len() - HEADER_BYTES).ok()?;
    let words = [COOKIE, payload, 0, u32::from(DIGITS)].map(u32::to_be_bytes);
    bytes[..16].copy_from_slice(words.as_flattened());
    let longs = [LOW_NS, MAX_NS, 1.0_f64.to_bits()].map(u64::to_be_bytes);
    bytes[16..HEADER_BYTES].copy_from_slice(longs.as_flattened());
    Some(bytes)
}

/// Reads V2 bytes; on an error nothing was allocated.
///
/// Returns the counts and how many samples they hold.
///
/// # Errors
/// On anything but an uncompressed V2 histogram of the mesh's layout that is complete, in
/// range, and free of trailing bytes.
pub fn decode(bytes: &[u8]) -> Result<(Counts, u64), CodecError> {
    decode_up_to(bytes, SAMPLES_MAX)
}

/// Reads V2 bytes of at most `samples_max` samples: [`decode`] for sums of many snapshots.
///
/// # Errors
/// As [`decode`].
pub fn decode_up_to(bytes: &[u8], samples_max: u64) -> Result<(Counts, u64), CodecError> {
    let checked = payload::check(check_header(bytes)?, samples_max)?;
    let mut counts = Counts::default();
    counts.merge_payload(&checked.payload, checked.edges());
    Ok((counts, checked.total))
}

pub(super) fn check_header(bytes: &[u8]) -> Result<&[u8], CodecError> {
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

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::{layout, reference};

    fn counts(pairs: &[(usize, u64)]) -> Counts {
        let mut counts = Counts::default();
        pairs.iter().for_each(|(index, n)| counts.add(*index, *n));
        counts
    }

    fn good() -> Vec<u8> {
        encode(&counts(&[(3, 1), (2_000, 300), (9_000, 7)])).unwrap()
    }

    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut message = good();
        message[at..at + bytes.len()].copy_from_slice(bytes);
        message
    }

    fn with_payload(payload: &[u8]) -> Vec<u8> {
        let mut message = good()[..HEADER_BYTES].to_vec();
        message[4..8].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
        message.extend_from_slice(payload);
        message
    }

    #[test]
    fn every_wrong_header_field_is_named() {
        assert_eq!(decode(&[]), Err(CodecError::Short(0)));
        assert_eq!(decode(&with(0, &[0; 4])), Err(CodecError::Cookie(0)));
        assert!(matches!(decode(&with(4, &[0xff; 4])), Err(CodecError::Length { .. })));
        for (at, field) in [
            (8, "normalizing offset"),
            (12, "significant digits"),
            (16, "lowest value"),
            (24, "highest value"),
            (32, "conversion ratio"),
        ] {
            assert_eq!(decode(&with(at, &[0x7f])), Err(CodecError::Layout { field }));
        }
    }

    #[test]
    fn payloads_that_lie_are_refused() {
        let largest_run = [0xff_u8; 9];
        for (payload, error) in [
            (&[0x80_u8][..], CodecError::Truncated),
            (&largest_run[..], CodecError::OutOfRange),
            (&[0xfd, 0xff, 0xff, 0x7f, 0x02], CodecError::OutOfRange),
            (&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], CodecError::TooMany),
        ] {
            assert_eq!(decode(&with_payload(payload)), Err(error));
        }
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut message = good();
        message.push(0);
        assert!(matches!(decode(&message), Err(CodecError::Length { .. })));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(
            pairs in prop::collection::vec((0..layout::LEN, 1..1_000_000_u64), 0..100),
        ) {
            let counts = counts(&pairs);
            let total = counts.iter().map(|(_, n)| n).sum();
            prop_assert_eq!(decode(&encode(&counts).unwrap()), Ok((counts, total)));
        }

        #[test]
        fn the_bytes_are_those_of_the_reference_library(
            pairs in prop::collection::vec((0..layout::LEN, 1..1_u64 << 56), 0..100),
        ) {
            let counts = counts(&pairs);
            let mut reference = reference();
            for (index, n) in counts.iter() {
                reference.record_n(layout::lowest(index), n).unwrap();
            }
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&reference, &mut bytes).unwrap();
            prop_assert_eq!(encode(&counts).unwrap(), bytes);
        }

        #[test]
        fn the_reference_library_reads_what_we_write(
            pairs in prop::collection::vec((0..layout::LEN, 1..1_000_u64), 1..100),
        ) {
            let counts = counts(&pairs);
            let bytes = encode(&counts).unwrap();
            let read: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            for (index, n) in counts.iter() {
                prop_assert_eq!(read.count_at(layout::lowest(index)), n);
            }
        }

        #[test]
        fn hostile_payloads_never_panic(payload in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok((counts, total)) = decode(&with_payload(&payload)) {
                prop_assert_eq!(counts.iter().map(|(_, n)| n).sum::<u64>(), total);
            }
        }

        #[test]
        fn one_flipped_bit_never_panics(bit in 0..good().len() * 8) {
            let mut message = good();
            message[bit / 8] ^= 1 << (bit % 8);
            let _: Result<_, CodecError> = decode(&message);
        }
    }
}
