//! A node's spool: the files on its disk, and the writes that may be under way, one of each.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Now;

use super::disk::{Disk, Ending};
use crate::sim::act::End;
use crate::sim::cores::node::{Adopted, Batch, DiskFiles, NodeCore, Notes};
use crate::sim::plan::Spooling;
use crate::sim::rng::Rng;

/// See the module.
#[derive(Default)]
pub(super) struct Spool {
    disk: Disk,
    writing: Option<Batch>,
    noting: Option<Notes>,
}

/// How a disk takes a write.
#[derive(Clone, Copy)]
pub(super) struct DiskState {
    pub(super) is_full: bool,
    /// Whether writes are synced.
    pub(super) syncs: bool,
}

impl Spool {
    /// A node that starts takes over what the file holds.
    pub(super) fn open(
        &mut self,
        core: &mut NodeCore,
        name: &NodeName,
        now: Now,
        syncs: bool,
    ) -> Adopted {
        let boot = self.disk.boots.to_string();
        let found = DiskFiles { spool: self.disk.read(), notes: self.disk.read_notes() };
        core.open_spool(name, now, found, &boot, syncs)
    }

    /// Takes the next batch to write, unless one is under way; true if a write begins.
    pub(super) fn begin_write(&mut self, core: &mut NodeCore, now: Now) -> bool {
        if self.writing.is_some() {
            return false;
        }
        self.writing = core.next_spool(now);
        self.writing.is_some()
    }

    /// The write under way ends; fails if the disk is full. `None` without a write.
    pub(super) fn end_write(
        &mut self,
        core: &mut NodeCore,
        now: Now,
        state: DiskState,
    ) -> Option<bool> {
        let DiskState { is_full, syncs } = state;
        let batch = self.writing.take()?;
        if is_full {
            self.disk.discard();
        } else {
            self.disk.write(&batch, syncs);
        }
        core.on_spool_written(now, !is_full);
        Some(!is_full)
    }

    /// Takes the next note to write, unless one is under way; true if a write begins.
    pub(super) fn begin_note(&mut self, core: &mut NodeCore, now: Now) -> bool {
        if self.noting.is_some() {
            return false;
        }
        self.noting = core.next_note(now);
        self.noting.is_some()
    }

    /// The note under way is written.
    pub(super) fn end_note(&mut self, core: &mut NodeCore, now: Now, is_full: bool) {
        if let Some(notes) = self.noting.take() {
            core.on_note_written(now, self.disk.write_notes(&notes, is_full));
        }
    }

    /// The incarnation whose notes are on the disk: it notes on a full disk too.
    pub(super) fn noted_incarnation(&self) -> Option<u64> {
        self.disk.read_notes().map(|notes| notes.own.incarnation.0)
    }

    /// A new process has no write under way.
    pub(super) fn drop_write(&mut self) {
        (self.writing, self.noting) = (None, None);
    }

    /// The process ends, perhaps during a write.
    pub(super) fn end(&mut self, end: End, spool: Spooling, rng: &mut Rng) {
        let ending = if end == End::PowerCut { Ending::Power } else { Ending::Process };
        let (batch, notes) = (self.writing.take(), self.noting.take());
        if let Some(notes) = notes.filter(|_| rng.chance(500)) {
            self.disk.write_notes(&notes, false);
        }
        self.disk.end(batch.as_ref(), spool == Spooling::Synced, ending, rng);
    }
}
