//! A note: how many samples an incarnation has recorded so far. It has a file of its own, whose few
//! bytes are overwritten in place, so that a note neither waits for a batch, nor makes the log
//! grow, nor needs room on a full disk. Beside it the file keeps the notes of earlier incarnations
//! that left nothing else, until an aggregator has them.
//!
//! ```text
//! mark 4  (incarnation 8  samples recorded 8) x 8, the writer's first  CRC-32 of all before 4
//! ```
//!
//! A process that is killed leaves the old notes or the new ones; what a power cut tears fails its
//! checksum and counts nothing.
//!
//! DESIGN N43.

use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::limits::wire::{COUNT_MAX, FORMER_INCARNATIONS_MAX};
use plimsoll_schemas::wire::NotedIncarnation;

/// As in `frame`, neither text nor a record starts like this.
const MARK: [u8; 4] = [0xf5, b'P', b'N', 0xf6];
const NOTE_BYTES: usize = 16;
/// Bytes before the checksum.
const STATED_BYTES: usize = MARK.len() + (1 + FORMER_INCARNATIONS_MAX) * NOTE_BYTES;
/// Bytes of all notes.
pub const NOTES_BYTES: usize = STATED_BYTES + 4;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notes {
    /// The note of the incarnation that writes it.
    pub own: NotedIncarnation,
    /// What is known of earlier incarnations should there be no spool file: of those whose messages
    /// are still held, and of those that left none and are not known to be reported. The latest
    /// first; at most [`FORMER_INCARNATIONS_MAX`].
    pub orphans: Vec<NotedIncarnation>,
}

impl Notes {
    pub fn encode(&self) -> [u8; NOTES_BYTES] {
        let mut bytes = [0; NOTES_BYTES];
        let (stated, crc) = bytes.split_at_mut(STATED_BYTES);
        stated[..MARK.len()].copy_from_slice(&MARK);
        let places = stated[MARK.len()..].chunks_exact_mut(NOTE_BYTES);
        for (place, note) in places.zip([&self.own].into_iter().chain(&self.orphans)) {
            place[..8].copy_from_slice(&note.incarnation.0.to_be_bytes());
            place[8..].copy_from_slice(&note.recorded.to_be_bytes());
        }
        // Over all places, also unused ones: the whole file is written each time.
        crc.copy_from_slice(&crc32fast::hash(stated).to_be_bytes());
        bytes
    }

    /// The notes in a file; `None` when they were never written whole.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; NOTES_BYTES] = bytes.try_into().ok()?;
        let (stated, crc) = bytes.split_at(STATED_BYTES);
        let (mark, notes) = stated.split_at(MARK.len());
        if mark != MARK || crc32fast::hash(stated).to_be_bytes() != crc {
            return None;
        }
        let number = |bytes: &[u8]| bytes.first_chunk().map(|n| u64::from_be_bytes(*n));

        let read = |note: &[u8]| {
            let (incarnation, recorded) = (Incarnation(number(note)?), number(&note[8..])?);
            let is_one = incarnation.0 > 0 && recorded <= COUNT_MAX;
            is_one.then_some(NotedIncarnation { incarnation, recorded })
        };

        let mut notes = notes.chunks_exact(NOTE_BYTES).map_while(read);
        Some(Self { own: notes.next()?, orphans: notes.collect() })
    }

    /// All of them, as far as there is room, for an incarnation that found no spool file beside
    /// them.
    pub fn into_orphans(self) -> Vec<NotedIncarnation> {
        [self.own].into_iter().chain(self.orphans).take(FORMER_INCARNATIONS_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn orphans() -> impl Strategy<Value = Vec<NotedIncarnation>> {
        let one = (1..u64::MAX, 0..COUNT_MAX).prop_map(|(incarnation, recorded)| {
            NotedIncarnation { incarnation: Incarnation(incarnation), recorded }
        });
        prop::collection::vec(one, 0..=FORMER_INCARNATIONS_MAX)
    }

    proptest! {
        #[test]
        fn notes_read_back_and_no_byte_of_them_may_change(
            incarnation in 1..u64::MAX, recorded in 0..COUNT_MAX, orphans in orphans(),
            at in 0..NOTES_BYTES, mask in 1..=255_u8,
        ) {
            let own = NotedIncarnation { incarnation: Incarnation(incarnation), recorded };
            let notes = Notes { own, orphans };
            let mut bytes = notes.encode();
            prop_assert_eq!(Notes::decode(&bytes), Some(notes.clone()));
            prop_assert_eq!(Notes::decode(&bytes[1..]), None);
            bytes[at] ^= mask;
            prop_assert_eq!(Notes::decode(&bytes), None);
            let all = notes.into_orphans();
            prop_assert!(all.len() <= FORMER_INCARNATIONS_MAX);
            prop_assert_eq!(all[0].incarnation, Incarnation(incarnation));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Notes::decode(&bytes), None);
        }
    }
}
