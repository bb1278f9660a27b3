//! The histogram of a line: Base64 of a V2 histogram, compressed or not.

use std::io::{Cursor, Read};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::Deserializer;
use plimsoll_compare::BucketLayout;
use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::limits::wire::SAMPLES_MAX;
use thiserror::Error;

/// First bytes of a V2 histogram, and of a compressed one.
const COOKIE: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
const COMPRESSED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
/// Bytes of a V2 histogram before its counts.
const HEADER_BYTES: usize = 40;
/// Where the header has the length of the counts, and the number of digits.
const PAYLOAD_AT: usize = 4;
const DIGITS_AT: usize = 12;
/// The least number of a payload. As a count it is negative, so it is the length of a run of zeros.
const LEAST: [u8; 9] = [0xff; 9];
/// Bytes before the compressed part.
const COMPRESSED_HEADER_BYTES: usize = 8;
/// A histogram of 3 digits over all of 64 bits has 55 000 buckets of at most 9 bytes each.
const BYTES_MAX: u64 = 1 << 20;
/// Each digit more has ten times as many buckets; those of the mesh have 3.
const DIGITS_MAX: u32 = 3;

/// Why a line has no histogram.
#[derive(Debug, Error)]
pub enum HistogramError {
    /// Not Base64.
    #[error("its histogram is not Base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Compressed bytes that cannot be decompressed.
    #[error("its histogram cannot be decompressed: {0}")]
    Compression(#[from] std::io::Error),
    /// Longer than a histogram can be.
    #[error("its histogram has more than {BYTES_MAX} bytes")]
    TooLong,
    /// Another version of the format.
    #[error(
        "its histogram is not of version 2: convert the log with HistogramLogProcessor of \
         HdrHistogram 2.1.10 or newer"
    )]
    Version,
    /// A finer layout than can be kept.
    #[error("its histogram has {0} digits, more than {DIGITS_MAX}: record it with {DIGITS_MAX}")]
    Digits(u32),
    /// Rejected by the library.
    #[error("its histogram is damaged: {0}")]
    Damaged(#[from] hdrhistogram::serialization::DeserializeError),
    /// A number that the library cannot negate: it would panic.
    #[error("its histogram is damaged: a run of empty buckets has no possible length")]
    Run,
    /// More samples than any histogram of the mesh.
    #[error("its histogram has more than {SAMPLES_MAX} samples")]
    Samples,
}

/// What a line holds.
pub(super) struct Parsed {
    /// Its samples, in the buckets of the mesh.
    pub(super) samples: Packed,
    /// The buckets in which they were.
    pub(super) layout: BucketLayout,
    /// Samples above an hour, which count as one hour.
    pub(super) clamped: u64,
}

/// Reads the Base64 text of a histogram whose values have this unit.
pub(super) fn parse(text: &str, unit_ns: u64) -> Result<Parsed, HistogramError> {
    let bytes = plain(BASE64_STANDARD.decode(text)?)?;
    // Before it is read: with each digit more, a histogram
    // of a few bytes takes ten times the memory.
    if let Some(digits) = number(&bytes, DIGITS_AT).filter(|digits| *digits > DIGITS_MAX) {
        return Err(HistogramError::Digits(digits));
    }

    // In a valid payload no other number has nine of these bytes in a row. The library negates such
    // lengths without a check, and the least number has no opposite.
    if bytes[HEADER_BYTES..].windows(LEAST.len()).any(|number| number == LEAST) {
        return Err(HistogramError::Run);
    }

    let foreign = Deserializer::new().deserialize::<u64, _>(&mut Cursor::new(&bytes))?;
    let layout = BucketLayout { unit_ns, low: foreign.low(), digits: foreign.sigfig() };
    let (mut samples, mut clamped) = (Histogram::default(), 0);

    for recorded in foreign.iter_recorded() {
        let (value, n) = (recorded.value_iterated_to(), recorded.count_since_last_iteration());
        if n > SAMPLES_MAX.saturating_sub(samples.count()) {
            return Err(HistogramError::Samples);
        }
        let lowest_ns = foreign.lowest_equivalent(value).saturating_mul(unit_ns);
        clamped += if lowest_ns > MAX_NS { n } else { 0 };
        // The highest value of its bucket, as every HdrHistogram library returns it.
        samples.record_n(value.saturating_mul(unit_ns), n);
    }

    Ok(Parsed { samples: Packed::from(&samples), layout, clamped })
}

/// The bytes of an uncompressed histogram.
fn plain(bytes: Vec<u8>) -> Result<Vec<u8>, HistogramError> {
    let bytes = if bytes.starts_with(&COMPRESSED) {
        let compressed = bytes.get(COMPRESSED_HEADER_BYTES..).unwrap_or_default();
        let mut plain = Vec::new();
        ZlibDecoder::new(compressed).take(BYTES_MAX + 1).read_to_end(&mut plain)?;
        plain
    } else {
        bytes
    };

    if bytes.len() as u64 > BYTES_MAX {
        return Err(HistogramError::TooLong);
    }
    if bytes.len() < HEADER_BYTES || !bytes.starts_with(&COOKIE) {
        return Err(HistogramError::Version);
    }
    // The library would reserve as much as is stated, before it reads.
    let stated = number(&bytes, PAYLOAD_AT).unwrap_or(u32::MAX);
    if u64::from(stated) > BYTES_MAX { Err(HistogramError::TooLong) } else { Ok(bytes) }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
