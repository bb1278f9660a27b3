//! The write-ahead log of the outbox: what the file holds, and what must be written next.
//!
//! The file is a sequence of batches. Each has the changes of everything held since the batch
//! before it and is applied as a whole or not at all, so that any prefix of batches is what was
//! held at one time. Once more than half of the file is outdated, the next batch rewrites it.
//!
//! A sealed message may be sent only once its batch is on disk. So a draft found in an intact file
//! was never sent and may get another number. Recovery keeps to that rule when a file is damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::limits::{SPOOL_BYTES_MAX, SPOOL_GARBAGE_BYTES};
use plimsoll_schemas::ids::{Incarnation, Seq};

use super::frame;
use super::incarnation::IncarnationState;
use super::record::{self, BatchRecord, DraftRecord, IncarnationRecord, SealedRecord};
use crate::core::identity::Identity;
use crate::core::outbox::{DraftId, HeldDraft, SealedMessage};

#[derive(Debug, Default)]
pub struct HeldMessages<'a> {
    /// What was never sealed, including the final message.
    pub drafts: Vec<HeldDraft<'a>>,
    /// What is sealed and not confirmed.
    pub sealed: Vec<&'a SealedMessage>,
    /// The state of this incarnation, and of each former one of which a message is held.
    pub incarnations: Vec<IncarnationState>,
}

/// Bytes for the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// What to append, or the whole file.
    pub bytes: Vec<u8>,
    /// True when they replace the file.
    pub replaces: bool,
    /// True when a message waits until they are on disk.
    pub sync: bool,
}

/// The state of the file once all batches so far are written.
pub struct Wal {
    identity: Identity,
    head: Vec<u8>,
    /// `None` when the content is not known.
    file: Option<FileContent>,
}

#[derive(Debug, Default)]
struct FileContent {
    drafts: Entries<DraftId>,
    sealed: Entries<(Incarnation, Seq)>,
    incarnations: Vec<IncarnationState>,
    bytes: usize,
}

/// Entries of one type, with the bytes of each.
#[derive(Debug)]
struct Entries<K> {
    bytes: BTreeMap<K, usize>,
    /// The order in which they were last held: comparing it is cheap when nothing has changed.
    order: Vec<K>,
}

impl Wal {
    /// A log whose first batch starts the file. `boot` identifies the current boot of the machine
    /// if writes are not synced: after a reboot, the end of such a file may be missing.
    pub fn new(identity: Identity, boot: Option<&str>) -> Self {
        let head = frame::head(&record::head(&identity, boot));
        Self { identity, head, file: None }
    }

    /// The batch after which the file equals what is held; `None` when it already does.
    pub fn next_batch(&mut self, held: &HeldMessages<'_>) -> Option<Batch> {
        // This is asked on each turn of the driver, and mostly nothing has changed.
        if self.file.as_ref().is_some_and(|file| file.equals(held)) {
            return None;
        }
        // Taken, so that a batch that must be the whole file leaves no half-updated content behind.
        let file = self.file.take().filter(|file| !file.is_wasteful());
        let Some(mut file) = file else { return Some(self.replace(held)) };
        let (bytes, sync) = self.difference(&mut file, held);
        file.bytes += bytes.len();
        // Written anew it holds no outdated bytes, and what an outbox holds fits in twice over.
        if file.bytes > SPOOL_BYTES_MAX {
            return Some(self.replace(held));
        }
        self.file = Some(file);
        (!bytes.is_empty()).then_some(Batch { bytes, replaces: false, sync })
    }

    fn replace(&mut self, held: &HeldMessages<'_>) -> Batch {
        let mut file = FileContent::default();
        let (batch, _) = self.difference(&mut file, held);
        let bytes = [&self.head[..], &batch].concat();
        file.bytes = bytes.len();
        self.file = Some(file);
        Batch { bytes, replaces: true, sync: true }
    }

    /// Updates `file` to what is held; returns the batch, which may be empty, and whether a message
    /// waits for it.
    fn difference(&mut self, file: &mut FileContent, held: &HeldMessages<'_>) -> (Vec<u8>, bool) {
        // Removals and additions are of one batch: whatever cut it short, no draft is both sealed
        // and waiting.
        let drafts_gone = file.drafts.retain(held.drafts.iter().map(|held| held.id));
        let sealed_gone = file.sealed.retain(held.sealed.iter().map(|sealed| sealed.key()));
        let mut snapshots = Vec::new();

        for waiting in &held.drafts {
            if !file.drafts.contains(waiting.id) {
                let snapshot = record::encode(&self.identity, waiting.id, waiting.draft);
                file.drafts.insert(waiting.id, snapshot.len());
                snapshots.push((waiting, snapshot));
            }
        }

        let new = |sealed: &&&SealedMessage| !file.sealed.contains(sealed.key());
        let sealed: Vec<&SealedMessage> = held.sealed.iter().filter(new).copied().collect();
        sealed.iter().for_each(|s| file.sealed.insert(s.key(), s.payload.len() + s.subject.len()));
        let changed = |state: &&IncarnationState| !file.incarnations.contains(state);
        let gone = |state: &&IncarnationState| {
            held.incarnations.iter().all(|h| h.incarnation != state.incarnation)
        };

        let batch = BatchRecord {
            drafts: snapshots.iter().map(|(draft, bytes)| DraftRecord::new(draft, bytes)).collect(),
            drafts_gone: drafts_gone.into_iter().map(|id| id.0).collect(),
            sealed: sealed.into_iter().map(SealedRecord::new).collect(),
            sealed_gone: sealed_gone
                .into_iter()
                .map(|(incarnation, seq)| (incarnation.0, seq.0))
                .collect(),
            runs: held.incarnations.iter().filter(changed).map(IncarnationRecord::new).collect(),
            runs_gone: file
                .incarnations
                .iter()
                .filter(gone)
                .map(|state| state.incarnation.0)
                .collect(),
        };

        // A lost removal of a sealed message is harmless: the message is sent once more.
        let sync = !(batch.drafts.is_empty()
            && batch.drafts_gone.is_empty()
            && batch.sealed.is_empty()
            && batch.runs.is_empty());

        // The same entries may be held in another order than before.
        let something = sync || batch.has_removals();
        let bytes = if something { frame::frame(&batch) } else { Vec::new() };
        file.incarnations.clone_from(&held.incarnations);
        (bytes, sync)
    }

    /// A batch was not written: the content of the file is unknown, and the next batch rewrites it.
    pub fn on_failed(&mut self) {
        self.file = None;
    }

    /// Bytes of the file once all batches so far are written; 0 when unknown.
    pub fn bytes(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.bytes)
    }
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, file, .. } = self;
        let mut text = f.debug_struct("Wal");
        text.field("node", &identity.node).field("file", file).finish_non_exhaustive()
    }
}

impl FileContent {
    fn equals(&self, held: &HeldMessages<'_>) -> bool {
        self.incarnations == held.incarnations
            && self.drafts.order.iter().eq(held.drafts.iter().map(|held| &held.id))
            && self.sealed.order.iter().copied().eq(held.sealed.iter().map(|sealed| sealed.key()))
    }

    fn is_wasteful(&self) -> bool {
        let live = self.drafts.live()
            + self.sealed.live()
            + self.incarnations.len() * record::INCARNATION_BYTES;
        self.bytes.saturating_sub(live) > live.max(SPOOL_GARBAGE_BYTES)
    }
}

impl<K> Default for Entries<K> {
    fn default() -> Self {
        Self { bytes: BTreeMap::new(), order: Vec::new() }
    }
}

impl<K: Ord + Copy> Entries<K> {
    fn contains(&self, key: K) -> bool {
        self.bytes.contains_key(&key)
    }

    fn insert(&mut self, key: K, bytes: usize) {
        self.bytes.insert(key, bytes + record::ENTRY_BYTES);
    }

    fn live(&self) -> usize {
        self.bytes.values().sum()
    }

    /// Removes all entries that are not held, and returns them.
    fn retain(&mut self, held: impl Iterator<Item = K>) -> Vec<K> {
        self.order.clear();
        self.order.extend(held);
        let held: BTreeSet<K> = self.order.iter().copied().collect();
        let gone: Vec<K> = self.bytes.keys().filter(|key| !held.contains(key)).copied().collect();
        self.bytes.retain(|key, _| held.contains(key));
        gone
    }
}

#[cfg(test)]
mod tests;
