//! What a spool's file holds, and what must be written into it next. Writes no file; `io::spool`
//! does.
//!
//! The file is a sequence of batches. Each says what changed in all that a node holds since the
//! batch before, and counts wholly or not at all, so that reading any number of them gives what
//! was held at one moment. Once more of the file is outdated than not, the next batch begins it
//! anew with everything.
//!
//! A sealed message may be handed to the broker only once the batch with it is on the disk. So a
//! draft that is found in a whole file was never sent, and may become a message with another
//! number. [`recovered`] keeps to that where a file is not whole.

mod frame;
mod record;
pub mod recovered;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::limits::{SPOOL_BYTES_MAX, SPOOL_GARBAGE_BYTES};
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::wire::Totals;

use super::Identity;
use super::draft::{Draft, DraftId};
use super::sealed::Sealed;
use record::{BatchRecord, DraftRecord, RunRecord, SealedRecord};

/// Where an incarnation's account stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAccount {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The greatest number it sealed; 0 before the first.
    pub newest: Seq,
    /// Recorded and lost, as its next message would state them.
    pub totals: Totals,
    /// Intervals it has closed.
    pub intervals: u64,
    /// True once its farewell or its testament is sealed.
    pub left: bool,
}

/// Samples in the interval that is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The interval's number: one more than are closed.
    pub interval: u64,
    /// Samples counted into it so far.
    pub samples: u64,
}

/// Everything that a node holds at one moment.
#[derive(Debug, Default)]
pub struct Held<'a> {
    /// What was never sealed, the farewell included.
    pub drafts: Vec<(DraftId, Lane, &'a Draft)>,
    /// What is sealed and not yet released.
    pub sealed: Vec<&'a Sealed>,
    /// The own account, and that of each former incarnation of which a message is held.
    pub runs: Vec<RunAccount>,
}

/// Bytes for the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// To append, or the whole file.
    pub bytes: Vec<u8>,
    /// True when they take the place of all that is in the file.
    pub replaces: bool,
    /// True when something waits for them to be on the disk.
    pub sync: bool,
}

/// Knows what the file holds once all batches so far are written.
pub struct Journal {
    identity: Identity,
    head: Vec<u8>,
    /// `None` when that is not known.
    filed: Option<Filed>,
    running: Option<Running>,
}

/// What the file holds.
#[derive(Debug, Default)]
struct Filed {
    drafts: Shelf<DraftId>,
    sealed: Shelf<(Incarnation, Seq)>,
    runs: Vec<RunAccount>,
    bytes: usize,
}

/// Entries of one kind, with the bytes of each.
#[derive(Debug)]
struct Shelf<K> {
    bytes: BTreeMap<K, usize>,
    /// As they were held at the last look: when nothing has changed, looking again is cheap.
    order: Vec<K>,
}

impl Journal {
    /// A journal whose first batch begins the file. `boot` names the machine's present run when
    /// nothing is synced: after another start of the machine, the file's end may be missing.
    #[must_use]
    pub fn new(identity: Identity, boot: Option<&str>) -> Self {
        let head = frame::head(&record::head(&identity, boot));
        Self { identity, head, filed: None, running: None }
    }

    /// What must be written so that the file says what is held; `None` when it does.
    pub fn next(&mut self, held: &Held<'_>) -> Option<Batch> {
        if self.filed.as_ref().is_some_and(|filed| filed.says(held)) {
            return None;
        }
        let filed = self.filed.take().filter(|filed| !filed.is_wasteful());
        let Some(mut filed) = filed else { return Some(self.replace(held)) };
        let (bytes, sync) = self.difference(&mut filed, held, None);
        filed.bytes += bytes.len();
        if filed.bytes > SPOOL_BYTES_MAX {
            return Some(self.replace(held));
        }
        self.filed = Some(filed);
        (!bytes.is_empty()).then_some(Batch { bytes, replaces: false, sync })
    }

    fn replace(&mut self, held: &Held<'_>) -> Batch {
        let mut filed = Filed::default();
        let (batch, _) = self.difference(&mut filed, held, self.running);
        let bytes = [&self.head[..], &batch].concat();
        filed.bytes = bytes.len();
        self.filed = Some(filed);
        Batch { bytes, replaces: true, sync: true }
    }

    /// Makes `filed` say what is held; gives the batch, which may be none, and whether anything
    /// waits for it.
    fn difference(
        &mut self,
        filed: &mut Filed,
        held: &Held<'_>,
        running: Option<Running>,
    ) -> (Vec<u8>, bool) {
        let drafts_gone = filed.drafts.keep(held.drafts.iter().map(|(id, ..)| *id));
        let sealed_gone = filed.sealed.keep(held.sealed.iter().map(|sealed| sealed.key()));
        let mut snapshots = Vec::new();
        for (id, lane, draft) in &held.drafts {
            if !filed.drafts.holds(*id) {
                let snapshot = record::encode(&self.identity, *id, draft);
                filed.drafts.put(*id, snapshot.len());
                snapshots.push((*id, *lane, *draft, snapshot));
            }
        }
        let new = |sealed: &&&Sealed| !filed.sealed.holds(sealed.key());
        let sealed: Vec<&Sealed> = held.sealed.iter().filter(new).copied().collect();
        sealed.iter().for_each(|s| filed.sealed.put(s.key(), s.payload.len() + s.subject.len()));
        let changed = |run: &&RunAccount| !filed.runs.contains(run);
        let gone = |run: &&RunAccount| held.runs.iter().all(|h| h.incarnation != run.incarnation);
        let batch = BatchRecord {
            drafts: snapshots.iter().map(DraftRecord::new).collect(),
            drafts_gone: drafts_gone.into_iter().map(|id| id.0).collect(),
            sealed: sealed.into_iter().map(SealedRecord::new).collect(),
            sealed_gone: sealed_gone.into_iter().map(|(run, seq)| (run.0, seq.0)).collect(),
            runs: held.runs.iter().filter(changed).map(RunRecord::new).collect(),
            runs_gone: filed.runs.iter().filter(gone).map(|run| run.incarnation.0).collect(),
            running: running.map(Into::into),
        };
        // That something was released may be forgotten: then it is only sent once more.
        let sync = !(batch.drafts.is_empty()
            && batch.drafts_gone.is_empty()
            && batch.sealed.is_empty()
            && batch.runs.is_empty());
        // What is held may stand in another order than before, and be the same.
        let something = sync || batch.running.is_some() || batch.says_of_something_gone();
        let bytes = if something { frame::frame(&batch) } else { Vec::new() };
        filed.runs.clone_from(&held.runs);
        (bytes, sync)
    }

    /// Notes what the open interval has counted so far; `None` when the file says so already, or
    /// there is no file to append to. Nothing waits for it.
    pub fn running(&mut self, running: Running) -> Option<Batch> {
        let same = self.running.replace(running) == Some(running);
        let filed = self.filed.as_mut().filter(|_| !same)?;
        let batch = BatchRecord { running: Some(running.into()), ..BatchRecord::default() };
        let bytes = frame::frame(&batch);
        filed.bytes += bytes.len();
        Some(Batch { bytes, replaces: false, sync: false })
    }

    /// A batch was not written: the file may hold anything, and the next batch begins it anew.
    pub fn on_failed(&mut self) {
        self.filed = None;
    }

    /// Bytes of the file once all batches so far are written; 0 when that is not known.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.filed.as_ref().map_or(0, |filed| filed.bytes)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, filed, running, .. } = self;
        let mut text = f.debug_struct("Journal");
        text.field("node", &identity.node).field("filed", filed).field("running", running);
        text.finish_non_exhaustive()
    }
}

impl Filed {
    fn says(&self, held: &Held<'_>) -> bool {
        self.runs == held.runs
            && self.drafts.order.iter().eq(held.drafts.iter().map(|(id, ..)| id))
            && self.sealed.order.iter().copied().eq(held.sealed.iter().map(|sealed| sealed.key()))
    }

    fn is_wasteful(&self) -> bool {
        let live = self.drafts.live() + self.sealed.live() + self.runs.len() * record::RUN_BYTES;
        self.bytes.saturating_sub(live) > live.max(SPOOL_GARBAGE_BYTES)
    }
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self { bytes: BTreeMap::new(), order: Vec::new() }
    }
}

impl<K: Ord + Copy> Shelf<K> {
    fn holds(&self, key: K) -> bool {
        self.bytes.contains_key(&key)
    }

    fn put(&mut self, key: K, bytes: usize) {
        self.bytes.insert(key, bytes + record::ENTRY_BYTES);
    }

    fn live(&self) -> usize {
        self.bytes.values().sum()
    }

    /// Lets go of all others, and gives them.
    fn keep(&mut self, held: impl Iterator<Item = K>) -> Vec<K> {
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
