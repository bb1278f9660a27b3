//! The framing of the file: a head with its owner, and batches with a checksum each. Does not
//! interpret their bodies.
//!
//! ```text
//! head   mark 4  version 2  length 2  CRC-32 of all before and of the body 4  body
//! batch  mark 4             length 4  CRC-32 of length and body            4  body
//! ```
//!
//! The first twelve bytes are the same in every version, so that each version detects a later one.

use serde::Serialize;

/// Version of the format; later versions are rejected.
pub(super) const VERSION: u16 = 2;
/// Neither text nor a record starts like this: 0xf5 does not occur in UTF-8.
const HEAD_MARK: [u8; 4] = [0xf5, b'P', b'S', 0xf6];
const BATCH_MARK: [u8; 4] = [0xf5, b'P', b'B', 0xf6];
/// Bytes before a body.
const FRAME_BYTES: usize = 12;
/// Bytes of the body of a head; two names and a boot id take less than 220.
const HEAD_BYTES_MAX: usize = 512;

/// Why a head could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadFault {
    /// The file ends within the head.
    Short,
    Newer(u16),
    Damaged(&'static str),
}

pub(super) fn head(record: &impl Serialize) -> Vec<u8> {
    let body = rmp_serde::to_vec_named(record).expect("a head holds only text");
    let length = u16::try_from(body.len()).expect("names are short");
    let numbers = [VERSION.to_be_bytes(), length.to_be_bytes()].concat();
    let crc = crc(&[&HEAD_MARK, &numbers, &body]).to_be_bytes();
    [&HEAD_MARK[..], &numbers, &crc, &body].concat()
}

/// The body of the head, and the rest of the file.
pub(super) fn read_head(bytes: &[u8]) -> Result<(&[u8], &[u8]), HeadFault> {
    let begins = bytes.len().min(HEAD_MARK.len());
    if bytes[..begins] != HEAD_MARK[..begins] {
        return Err(HeadFault::Damaged("not a spool file"));
    }
    let (frame, rest) = bytes.split_first_chunk::<FRAME_BYTES>().ok_or(HeadFault::Short)?;
    let version = u16::from_be_bytes([frame[4], frame[5]]);
    let length = usize::from(u16::from_be_bytes([frame[6], frame[7]]));
    let stated = u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]);
    if length > HEAD_BYTES_MAX {
        return Err(HeadFault::Damaged("the length of the head is out of bounds"));
    }
    let (body, rest) = rest.split_at_checked(length).ok_or(HeadFault::Short)?;
    if crc(&[&frame[..8], body]) != stated {
        return Err(HeadFault::Damaged("the checksum of the head is wrong"));
    }
    // After the checksum, or a damaged byte would pass for a later version.
    if version > VERSION {
        return Err(HeadFault::Newer(version));
    }
    Ok((body, rest))
}

pub(super) fn frame(record: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_BYTES];
    rmp_serde::encode::write_named(&mut bytes, record)
        .expect("a batch holds only lists, numbers and text, and a vector takes all of it");
    let (frame, body) = bytes.split_at_mut(FRAME_BYTES);
    let length = u32::try_from(body.len()).expect("far less is held").to_be_bytes();
    frame[..4].copy_from_slice(&BATCH_MARK);
    frame[4..8].copy_from_slice(&length);
    frame[8..].copy_from_slice(&crc(&[&length, body]).to_be_bytes());
    bytes
}

/// Finds batches in bytes that may be damaged anywhere.
pub(super) struct BatchReader<'a> {
    rest: &'a [u8],
    /// Bytes that may still be checked: forged batches may overlap by the million.
    checks_left: usize,
    pub(super) gave_up: bool,
}

impl<'a> BatchReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, checks_left: bytes.len().saturating_mul(4), gave_up: false }
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn batch(&mut self) -> Option<&'a [u8]> {
        let (frame, rest) = self.rest.split_first_chunk::<FRAME_BYTES>()?;
        let length = u32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]);
        let (body, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let stated = u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]);
        if frame[..4] != BATCH_MARK {
            return None;
        }

        // Four times the file at most: a file of forged marks must not delay the start.
        if body.len() > self.checks_left {
            self.gave_up = true;
            return None;
        }

        self.checks_left -= body.len();
        if crc(&[&frame[4..8], body]) != stated {
            return None;
        }
        self.rest = rest;
        Some(body)
    }

    /// Skips to the next intact batch, if there is one.
    pub(super) fn skip(&mut self) -> bool {
        let mut ahead = Self { rest: self.rest, ..*self };
        while let Some(at) = ahead.rest.iter().skip(1).position(|byte| *byte == BATCH_MARK[0]) {
            ahead.rest = &ahead.rest[at + 1..];
            let here = ahead.rest;
            if let Some(body) = ahead.batch() {
                // The next call of `batch` checks it once more.
                (self.rest, self.checks_left) = (here, ahead.checks_left + body.len());
                return true;
            }
        }
        (self.checks_left, self.gave_up) = (ahead.checks_left, ahead.gave_up);
        false
    }
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}
