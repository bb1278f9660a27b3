//! A node's disk with its spool and its notes. A process that is killed leaves what it wrote; a
//! power cut leaves what was synced, and of the rest any beginning and perhaps a torn piece.

use crate::sim::cores::node::{Batch, NOTES_BYTES, Notes};
use crate::sim::rng::Rng;

/// What a write that is under way when everything ends may leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Only the process ends.
    Process,
    Power,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    /// As processes see it; `None` when there is none.
    file: Option<Vec<u8>>,
    /// How it would be found after a power cut: this many bytes at least, of a file like it.
    synced: usize,
    /// The file that the directory named when it was last synced, where that is another one.
    shadow: Option<Option<Vec<u8>>>,
    /// The file of notes, which is never synced.
    notes: Option<[u8; NOTES_BYTES]>,
    /// Counts the machine's starts.
    pub boots: u64,
}

impl Disk {
    /// The file's bytes.
    pub(super) fn read(&self) -> Option<&[u8]> {
        self.file.as_deref()
    }

    pub(super) fn read_notes(&self) -> Option<Notes> {
        Notes::decode(self.notes.as_ref()?)
    }

    /// Writes notes over those before; false when a full disk has no place for its file.
    pub(super) fn write_notes(&mut self, notes: &Notes, is_full: bool) -> bool {
        let has_room = self.notes.is_some() || !is_full;
        if has_room {
            self.notes = Some(notes.encode());
        }
        has_room
    }

    /// Writes a batch as `io::spool` does; `syncs`: whether writes are synced.
    pub(super) fn write(&mut self, batch: &Batch, syncs: bool) {
        if batch.replaces {
            let before = self.file.replace(batch.bytes.clone());
            if syncs {
                (self.synced, self.shadow) = (batch.bytes.len(), None);
            } else {
                self.synced = 0;
                self.shadow.get_or_insert(before);
            }

            return;
        }

        let file = self.file.get_or_insert_default();
        file.extend_from_slice(&batch.bytes);
        if syncs && batch.sync {
            self.synced = file.len();
        }
    }

    /// A write failed: there is no file until the next one.
    pub(super) fn discard(&mut self) {
        (self.file, self.synced, self.shadow) = (None, 0, None);
    }

    /// Everything ends, perhaps in the middle of a write.
    pub(super) fn end(
        &mut self,
        under_way: Option<&Batch>,
        syncs: bool,
        ending: Ending,
        rng: &mut Rng,
    ) {
        if let Some(batch) = under_way {
            self.tear(batch, syncs, rng);
        }
        if ending == Ending::Process {
            return;
        }
        self.boots += 1;
        self.notes.take_if(|_| rng.chance(500));
        if let Some(shadow) = self.shadow.take()
            && rng.chance(500)
        {
            self.synced = shadow.as_ref().map_or(0, Vec::len);
            self.file = shadow;
            return;
        }

        let Some(file) = &mut self.file else { return };
        let unsynced = file.len() - self.synced.min(file.len());
        file.truncate(self.synced + rng.index(unsynced + 1));

        if unsynced > 0 && rng.chance(300) {
            // A block whose size was written and whose bytes were not.
            let torn = rng.index(unsynced + 1);
            file.extend(std::iter::repeat_n(0, torn));
        }

        self.synced = file.len();
    }

    fn tear(&mut self, batch: &Batch, syncs: bool, rng: &mut Rng) {
        if batch.replaces {
            if rng.chance(500) {
                self.write(batch, syncs);
            }
            return;
        }
        let written = rng.index(batch.bytes.len() + 1);
        self.file.get_or_insert_default().extend_from_slice(&batch.bytes[..written]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bytes: &[u8], replaces: bool, sync: bool) -> Batch {
        Batch { bytes: bytes.to_vec(), replaces, sync }
    }

    #[test]
    fn what_was_synced_survives_a_power_cut_and_the_rest_is_cut_anywhere() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut disk = Disk::default();
            disk.write(&batch(b"head", true, true), true);
            disk.write(&batch(b"synced", false, true), true);
            disk.write(&batch(b"note", false, false), true);
            disk.end(None, true, Ending::Power, &mut Rng::new(seed, 0));
            let left = disk.read().unwrap();
            assert!(left.starts_with(b"headsynced"));
            lengths.insert(left.len());
        }
        assert!(lengths.contains(&10) && lengths.contains(&14), "{lengths:?}");
    }

    #[test]
    fn a_kill_leaves_what_was_written_and_part_of_what_was_being_written() {
        let mut disk = Disk::default();
        disk.write(&batch(b"head", true, true), false);
        let under_way = batch(b"more", false, true);
        disk.end(Some(&under_way), false, Ending::Process, &mut Rng::new(3, 0));
        let left = disk.read().unwrap();
        assert!(left.starts_with(b"head") && left.len() <= 8);
    }
}
