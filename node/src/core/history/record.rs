//! One sealed message in a segment.

use std::time::Duration;

use bytes::Bytes;
use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
use plimsoll_schemas::subject::{SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::decode_packed;

use crate::core::outbox::SealedMessage;

/// The first bytes of a segment; the last of them is the version of its format.
pub const SEGMENT_BEGIN: [u8; 8] = *b"PLMHIST\x01";
const LENGTH_BYTES: usize = 4;
const FRAME_BYTES: usize = LENGTH_BYTES + 4;
/// What the checksum covers beside the message.
const HEAD_BYTES: usize = 8 + 8 + 1;

/// A sealed message, and which interval it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<B = Bytes> {
    /// End of the interval by the node's clock.
    pub end: Wall,
    pub length_ns: u64,
    /// What the message holds.
    pub kind: SnapshotKind,
    /// The message as it was sent.
    pub message: B,
}

impl Record {
    /// The record of a message that an earlier incarnation sealed; `None` when it cannot be read.
    pub fn of_sealed(sealed: &SealedMessage) -> Option<Self> {
        let subject: SnapshotSubject = sealed.subject.parse().ok()?;
        let header = decode_packed(&subject, &sealed.payload).ok()?.header;
        let end = header.start.plus(Duration::from_nanos(header.length_ns));
        let (length_ns, kind) = (header.length_ns, subject.kind);
        Some(Self { end, length_ns, kind, message: sealed.payload.clone() })
    }
}

impl<B: AsRef<[u8]>> Record<B> {
    pub fn append_to(&self, segment: &mut Vec<u8>) {
        let message = self.message.as_ref();
        let length = u32::try_from(message.len()).expect("messages are bounded far below 4 GiB");

        let begin = segment.len();
        segment.extend_from_slice(&length.to_le_bytes());
        // The place of the checksum, which is known once all that it covers is written.
        segment.extend_from_slice(&[0; FRAME_BYTES - LENGTH_BYTES]);
        segment.extend_from_slice(&self.end.0.to_le_bytes());
        segment.extend_from_slice(&self.length_ns.to_le_bytes());
        segment.push(number_of(self.kind));
        segment.extend_from_slice(message);

        let checksum = crc32fast::hash(&segment[begin + FRAME_BYTES..]);
        segment[begin + LENGTH_BYTES..begin + FRAME_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The records of a segment up to the first that is damaged or torn, and how many bytes of the
/// segment they take. `None` when it is no segment of this version.
pub fn scan(segment: &[u8]) -> Option<(Vec<Record<&[u8]>>, usize)> {
    let mut rest = segment.strip_prefix(&SEGMENT_BEGIN)?;
    let mut records = Vec::new();
    while let Some((record, after)) = take_record(rest) {
        records.push(record);
        rest = after;
    }
    Some((records, segment.len() - rest.len()))
}

fn take_record(bytes: &[u8]) -> Option<(Record<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let (checksum, rest) = rest.split_first_chunk::<{ FRAME_BYTES - LENGTH_BYTES }>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // Before anything is read: a damaged length must not claim the rest of the segment.
    if length > MESSAGE_BYTES_MAX {
        return None;
    }
    let (covered, after) = rest.split_at_checked(HEAD_BYTES + length)?;
    if crc32fast::hash(covered) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (end, covered) = covered.split_first_chunk::<8>()?;
    let (length_ns, covered) = covered.split_first_chunk::<8>()?;
    let (kind, message) = covered.split_first()?;
    let kind = SnapshotKind::ALL.into_iter().find(|known| number_of(*known) == *kind)?;
    let (end, length_ns) = (Wall(u64::from_le_bytes(*end)), u64::from_le_bytes(*length_ns));
    Some((Record { end, length_ns, kind, message }, after))
}

fn number_of(kind: SnapshotKind) -> u8 {
    match kind {
        SnapshotKind::Latency => 1,
        SnapshotKind::Hardware => 2,
        SnapshotKind::Bus => 3,
        SnapshotKind::Event => 4,
        SnapshotKind::Interval => 5,
        SnapshotKind::Shard => 6,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(second: u64, bytes: usize) -> Record {
        Record {
            end: Wall(second * 1_000_000_000),
            length_ns: 1_000_000_000,
            kind: SnapshotKind::Interval,
            message: Bytes::from(vec![7; bytes]),
        }
    }

    fn segment(records: &[Record]) -> Vec<u8> {
        let mut segment = SEGMENT_BEGIN.to_vec();
        records.iter().for_each(|record| record.append_to(&mut segment));
        segment
    }

    proptest! {
        #[test]
        fn a_torn_segment_has_all_records_before_the_tear(
            sizes in prop::collection::vec(0_usize..300, 1..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let records: Vec<Record> =
                sizes.iter().enumerate().map(|(at, bytes)| record(at as u64, *bytes)).collect();
            let whole = segment(&records);
            let cut = SEGMENT_BEGIN.len() + cut.index(whole.len() - SEGMENT_BEGIN.len() + 1);
            let (found, valid) = scan(&whole[..cut]).unwrap();
            let complete = (0..=records.len())
                .filter(|n| segment(&records[..*n]).len() <= cut)
                .max()
                .unwrap();
            prop_assert_eq!(found.len(), complete);
            prop_assert_eq!(valid, segment(&records[..complete]).len());
            for (found, record) in found.iter().zip(&records) {
                prop_assert_eq!((found.end, found.length_ns), (record.end, record.length_ns));
                prop_assert_eq!(found.message, &record.message[..]);
            }
        }

        #[test]
        fn a_damaged_byte_costs_the_records_from_there_on(
            at in any::<prop::sample::Index>(), bit in 0_u8..8,
        ) {
            let records: Vec<Record> = (0..10).map(|second| record(second, 100)).collect();
            let mut bytes = segment(&records);
            let at = SEGMENT_BEGIN.len() + at.index(bytes.len() - SEGMENT_BEGIN.len());
            bytes[at] ^= 1 << bit;
            let before = (at - SEGMENT_BEGIN.len()) / (FRAME_BYTES + HEAD_BYTES + 100);
            prop_assert_eq!(scan(&bytes).unwrap().0.len(), before);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _none = scan(&bytes);
            let _few = scan(&[&SEGMENT_BEGIN[..], &bytes].concat());
        }
    }

    #[test]
    fn a_later_version_is_no_segment_of_this_one() {
        let mut bytes = segment(&[record(1, 3)]);
        bytes[7] = 2;
        assert_eq!(scan(&bytes), None);
    }
}
