//! A note: how many samples a run has recorded so far. It has a file of its own, whose few bytes
//! are overwritten in place, so that a note neither waits for a batch nor makes the log grow.
//!
//! ```text
//! mark 4  run 8  samples recorded 8  CRC-32 of all before 4
//! ```
//!
//! A process that is killed leaves the old note or the new one; what a power cut tears fails its
//! checksum and counts nothing.
//!
//! DESIGN N43.

use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::limits::wire::COUNT_MAX;

/// As in `frame`, neither text nor a record starts like this.
const MARK: [u8; 4] = [0xf5, b'P', b'N', 0xf6];
/// Bytes before the checksum.
const STATED_BYTES: usize = 20;
/// Bytes of a note.
pub const NOTE_BYTES: usize = STATED_BYTES + 4;

/// What a run has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// Samples recorded in it: those in messages, in drafts and in the open interval, and those
    /// lost before a message could carry them.
    pub recorded: u64,
}

impl Note {
    /// The bytes of its file.
    #[must_use]
    pub fn encode(&self) -> [u8; NOTE_BYTES] {
        let mut bytes = [0; NOTE_BYTES];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..12].copy_from_slice(&self.incarnation.0.to_be_bytes());
        bytes[12..STATED_BYTES].copy_from_slice(&self.recorded.to_be_bytes());
        let crc = crc32fast::hash(&bytes[..STATED_BYTES]);
        bytes[STATED_BYTES..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The note in a file; `None` when it was never written whole.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; NOTE_BYTES] = bytes.try_into().ok()?;
        let (stated, crc) = bytes.split_at(STATED_BYTES);
        let number = |at: usize| stated[at..].first_chunk().map(|n| u64::from_be_bytes(*n));
        let (incarnation, recorded) = (number(4)?, number(12)?);
        let is_whole = stated[..4] == MARK && crc32fast::hash(stated).to_be_bytes() == crc;
        (is_whole && incarnation > 0 && recorded <= COUNT_MAX)
            .then_some(Self { incarnation: Incarnation(incarnation), recorded })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_note_reads_back_and_no_byte_of_it_may_change(
            run in 1..u64::MAX, recorded in 0..COUNT_MAX, at in 0..NOTE_BYTES, mask in 1..=255_u8,
        ) {
            let note = Note { incarnation: Incarnation(run), recorded };
            let mut bytes = note.encode();
            prop_assert_eq!(Note::decode(&bytes), Some(note));
            prop_assert_eq!(Note::decode(&bytes[1..]), None);
            bytes[at] ^= mask;
            prop_assert_eq!(Note::decode(&bytes), None);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            prop_assert_eq!(Note::decode(&bytes), None);
        }
    }
}
