//! Bucket counts as standard HdrHistogram V2 bytes.
//!
//! Both directions are our own code, and tests compare them with the `hdrhistogram` crate byte by
//! byte. That crate's writer walks and clears all 23 000 buckets for each histogram, which cost a
//! node with a hundred series over 1 % of a core and 400 KiB; its reader trusts the stated lengths
//! (a 40-byte message makes it reserve 4 GiB) and panics on some zero runs.
//!
//! DESIGN S2.

use super::checked;
use super::counts::Counts;
use super::header::{self, HEADER_BYTES};
use super::writer::Writer;
use crate::limits::wire::SAMPLES_MAX;

pub use super::error::CodecError;
pub use super::writer::STORED_MAX;

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

    header::write(&mut bytes)?;
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
    let checked = checked::check(header::split(bytes)?, samples_max)?;
    let mut counts = Counts::default();
    counts.merge_payload(&checked.payload, checked.edges());
    Ok((counts, checked.total))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::layout::{self, reference};

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
