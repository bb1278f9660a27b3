//! The records of a segment: a length, a checksum, and what it covers.

use plimsoll_schemas::time::Wall;
use prost::encoding::{decode_varint, encode_varint};

use super::limits::RECORD_BYTES_MAX;

/// The first bytes of a segment; the last of them is the version of its format.
pub const SEGMENT_BEGIN: [u8; 8] = *b"PLMPROF\x01";
const LENGTH_BYTES: usize = 4;
const FRAME_BYTES: usize = LENGTH_BYTES + 4;

/// What a record states before its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// When sampling started, on the node's clock.
    pub from: Wall,
    /// For how long.
    pub duration_ns: u64,
    /// Units that one count stands for.
    pub period: u64,
    /// The process.
    pub pid: u32,
}

impl RecordHead {
    /// Its end.
    #[must_use]
    pub fn to(&self) -> Wall {
        Wall(self.from.0.saturating_add(self.duration_ns))
    }

    /// The instant by which it belongs to a range: so it is in one alone of two that adjoin.
    #[must_use]
    pub fn middle(&self) -> Wall {
        Wall(self.from.0.saturating_add(self.duration_ns / 2))
    }

    pub(super) fn append_to(&self, record: &mut Vec<u8>) {
        for number in [self.from.0, self.duration_ns, self.period, self.pid.into()] {
            encode_varint(number, record);
        }
    }
}

/// The heads of a segment's records up to the first that is torn or damaged, and how many bytes of
/// the segment they take. `None` when it is no segment of this version.
#[must_use]
pub fn heads(segment: &[u8]) -> Option<(Vec<RecordHead>, usize)> {
    let (mut records, mut heads) = (Records::of(segment)?, Vec::new());
    while let Some(head) = records.next().and_then(|record| Fields(record).head()) {
        heads.push(head);
    }
    Some((heads, records.taken))
}

/// Appends what `covered` writes as one record.
pub(super) fn append(segment: &mut Vec<u8>, covered: &[u8]) -> bool {
    let length = u32::try_from(covered.len()).ok().filter(|_| covered.len() <= RECORD_BYTES_MAX);
    let Some(length) = length else { return false };
    segment.extend_from_slice(&length.to_le_bytes());
    segment.extend_from_slice(&crc32fast::hash(covered).to_le_bytes());
    segment.extend_from_slice(covered);
    true
}

/// What the whole records of a segment cover.
pub(super) struct Records<'a> {
    segment: &'a [u8],
    /// Bytes before the next record.
    taken: usize,
}

impl<'a> Records<'a> {
    pub(super) fn of(segment: &'a [u8]) -> Option<Self> {
        let taken = SEGMENT_BEGIN.len();
        segment.starts_with(&SEGMENT_BEGIN).then_some(Self { segment, taken })
    }

    /// Whether bytes are left that are no whole record.
    pub(super) fn is_torn(&self) -> bool {
        self.taken < self.segment.len()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.segment[self.taken..].split_first_chunk::<LENGTH_BYTES>()?;
        let (checksum, rest) = rest.split_first_chunk::<{ FRAME_BYTES - LENGTH_BYTES }>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let covered = rest.get(..length).filter(|_| length <= RECORD_BYTES_MAX)?;
        if crc32fast::hash(covered) != u32::from_le_bytes(*checksum) {
            return None;
        }
        self.taken += FRAME_BYTES + length;
        Some(covered)
    }
}

/// The numbers and texts of a record.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn number(&mut self) -> Option<u64> {
        decode_varint(&mut self.0).ok()
    }

    pub(super) fn id(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    pub(super) fn head(&mut self) -> Option<RecordHead> {
        let (from, duration_ns) = (Wall(self.number()?), self.number()?);
        Some(RecordHead { from, duration_ns, period: self.number()?.max(1), pid: self.id()? })
    }
}
