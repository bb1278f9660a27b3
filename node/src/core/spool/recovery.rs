//! Recovery: reads the file of a former incarnation batch by batch, and distinguishes damage from
//! an unfinished write.
//!
//! If the last batch is incomplete, the process ended while writing it, so nothing in it was sent
//! and everything before it holds. If more follows, the batch was complete once and may have
//! sealed a draft. Such a draft may have been sent under a number that is lost; it is not
//! recovered, and its samples are counted as uncertain. Sealed messages are recovered:
//! aggregators count a repetition once.
//!
//! DESIGN N6.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{SPOOL_ENTRIES_MAX, SPOOL_INCARNATIONS_MAX};
use plimsoll_schemas::ids::{Incarnation, LossReason, MeshName, NodeName, Seq};
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::NotedIncarnation;
use thiserror::Error;

use super::frame::{self, BatchReader, HeadFault, VERSION};
use super::incarnation::IncarnationState;
use super::note::Notes;
use super::record::{BatchRecord, HeadRecord, parse};
use crate::core::identity::Identity;
use crate::core::loss::CRASH;
use crate::core::outbox::{Draft, SealedMessage};

/// An age beyond which the clock is assumed to be wrong.
const CLOCK_LEAP_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// Why a file cannot be used at all.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnusableFile {
    #[error("file version {0} is newer than {VERSION}, the latest that this program reads")]
    Newer(u16),
    #[error("file belongs to node {node} of mesh {mesh}")]
    Other { mesh: MeshName, node: NodeName },
    #[error("{0}")]
    Damaged(String),
}

impl UnusableFile {
    pub fn label(&self) -> &'static str {
        match self {
            Self::Newer(_) => "newer_version",
            Self::Other { .. } => "other_node",
            Self::Damaged(_) => "damaged",
        }
    }
}

/// What was held when the last intact batch was written.
#[derive(Clone, Debug, Default)]
pub struct RecoveredMessages {
    /// Drafts, which were never sent, the oldest first.
    pub drafts: Vec<(Lane, Draft)>,
    /// Sealed messages, which may have been sent, in order of incarnation and number.
    pub sealed: Vec<SealedMessage>,
    /// States as their final messages must state them, once [`Self::take_notes`] has added what a
    /// note counts: it is recorded and lost by [`CRASH`].
    pub incarnations: Vec<IncarnationState>,
    /// Incarnations whose last sealed number is unknown: no crash report can be made of them.
    pub uncertain_incarnations: Vec<Incarnation>,
    /// Samples lost with the end: recorded, and in no message of the file.
    pub crashed: u64,
    /// Bytes of a last batch that was not completed.
    pub torn_bytes: u64,
    /// Samples of which it is not known whether they were sent.
    pub uncertain_samples: u64,
    /// What is wrong with the file if it is damaged. Then it is worth a quarantine.
    pub damaged: Option<String>,
}

/// What was too old to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredMessages {
    /// Sealed messages; most of them arrived before.
    pub sealed_messages: u64,
    pub sealed_samples: u64,
    /// Drafts that are lost.
    pub drafts: u64,
    pub draft_samples: u64,
    /// Those of them that the node took of itself.
    pub draft_own_samples: u64,
    pub draft_events: u64,
}

/// Reads a whole file. `boot` identifies the current boot of the machine, if it is known.
pub fn recover(
    bytes: &[u8],
    own: &Identity,
    boot: Option<&str>,
    now: Mono,
) -> Result<RecoveredMessages, UnusableFile> {
    let (head, rest) = match frame::read_head(bytes) {
        Ok(head) => head,
        // The process ended as it wrote the first batch, so that nothing was sent from this file.
        Err(HeadFault::Short) if !BatchReader::new(bytes).skip() => {
            let torn_bytes = bytes.len() as u64;
            return Ok(RecoveredMessages { torn_bytes, ..RecoveredMessages::default() });
        }
        Err(HeadFault::Short) => return Err(damaged("the head is cut off")),
        Err(HeadFault::Newer(version)) => return Err(UnusableFile::Newer(version)),
        Err(HeadFault::Damaged(what)) => return Err(damaged(what)),
    };

    let other_boot = check_head(head, own, boot)?;
    let mut fold = Fold::default();
    let mut reader = BatchReader::new(rest);

    while reader.left() > 0 {
        let at = bytes.len() - reader.left();
        match reader.batch().map(|body| fold.apply(body, own, now)) {
            Some(Ok(())) => {}
            Some(Err(what)) => fold.on_gap(format!("the batch at byte {at}: {what}")),
            // Something intact follows, so this batch was whole once and messages of it may have
            // been sent.
            None if reader.skip() => fold.on_gap(format!("the batch at byte {at} is damaged")),
            None if reader.gave_up => {
                fold.on_gap(format!("searching for batches after byte {at} takes too long"));
                break;
            }
            None => {
                fold.torn_bytes = reader.left() as u64;
                break;
            }
        }
    }

    // After a reboot the end of an unsynced file may be missing without a trace: as with damage, no
    // draft of it is certainly unsent (N6).
    if other_boot {
        fold.on_gap("the file was not synced before the machine rebooted".to_owned());
    }
    Ok(fold.finish())
}

fn damaged(what: &str) -> UnusableFile {
    UnusableFile::Damaged(what.to_owned())
}

/// Whether the end of the file may be missing because the machine rebooted.
fn check_head(body: &[u8], own: &Identity, boot: Option<&str>) -> Result<bool, UnusableFile> {
    let HeadRecord { mesh, node, boot: theirs } = parse(body).map_err(UnusableFile::Damaged)?;
    let name = |error| UnusableFile::Damaged(format!("{error}"));
    let (mesh, node) = (MeshName::new(mesh).map_err(name)?, NodeName::new(node).map_err(name)?);
    if mesh != own.mesh || node != own.node {
        return Err(UnusableFile::Other { mesh, node });
    }
    Ok(theirs.is_some_and(|theirs| Some(theirs.as_str()) != boot))
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Draft(u64),
    Sealed(u64, u64),
}

/// The state after all batches so far.
#[derive(Default)]
struct Fold {
    drafts: BTreeMap<u64, (Lane, Draft)>,
    sealed: BTreeMap<(Incarnation, Seq), SealedMessage>,
    /// `None` when the state is uncertain.
    incarnations: BTreeMap<Incarnation, Option<IncarnationState>>,
    uncertain: BTreeMap<Entry, u64>,
    torn_bytes: u64,
    damaged: Option<String>,
}

impl Fold {
    /// Applies one batch as a whole or not at all.
    fn apply(&mut self, body: &[u8], own: &Identity, now: Mono) -> Result<(), String> {
        let batch: BatchRecord<'_> = parse(body)?;
        // Checked before anything is applied: a batch counts as a whole or not at all.
        let fits = |held: usize, more: usize| held.saturating_add(more) <= SPOOL_ENTRIES_MAX;
        let fits = fits(self.drafts.len() + self.uncertain.len(), batch.drafts.len())
            && fits(self.sealed.len() + self.uncertain.len(), batch.sealed.len());
        if !fits {
            return Err("it has more entries than a node writes".to_owned());
        }

        for draft in &batch.drafts {
            match draft.read(own, now) {
                Ok(read) => drop(self.drafts.insert(draft.id, read)),
                Err(what) => self.on_unreadable(Entry::Draft(draft.id), draft.samples, what),
            }
        }

        for sealed in &batch.sealed {
            match sealed.read(own) {
                Ok(read) => drop(self.sealed.insert(read.key(), read)),
                Err(what) => {
                    self.on_unreadable(Entry::Sealed(sealed.run, sealed.seq), sealed.samples, what);
                }
            }
        }

        for id in batch.drafts_gone {
            self.drafts.remove(&id);
            self.uncertain.remove(&Entry::Draft(id));
        }

        for (incarnation, seq) in batch.sealed_gone {
            self.sealed.remove(&(Incarnation(incarnation), Seq(seq)));
            self.uncertain.remove(&Entry::Sealed(incarnation, seq));
        }

        for record in batch.runs {
            self.incarnations.insert(Incarnation(record.run), record.read());
        }
        for incarnation in batch.runs_gone {
            self.incarnations.remove(&Incarnation(incarnation));
        }
        while self.incarnations.len() > SPOOL_INCARNATIONS_MAX {
            self.incarnations.pop_first();
        }
        Ok(())
    }

    /// One entry cannot be read; an aggregator could not read it either.
    fn on_unreadable(&mut self, entry: Entry, samples: u64, what: String) {
        self.uncertain.insert(entry, samples.min(COUNT_MAX));
        self.damaged.get_or_insert(what);
    }

    /// Batches are missing after what was read so far.
    fn on_gap(&mut self, what: String) {
        self.damaged.get_or_insert(what);
        // A missing batch may have sealed any of them under a number that is lost.
        for (id, (_, draft)) in std::mem::take(&mut self.drafts) {
            self.uncertain.insert(Entry::Draft(id), draft.samples());
        }
        for state in self.incarnations.values_mut() {
            // Its newest number may be higher by now. One that has left sealed nothing more.
            state.take_if(|state| !state.left);
        }
    }

    fn finish(self) -> RecoveredMessages {
        let mut drafts: Vec<(Lane, Draft)> = self.drafts.into_values().collect();
        // Ids order them by their last merge; the outbox sends the oldest interval first.
        drafts.sort_by_key(|(_, draft)| draft.start);
        let uncertain_incarnations = self.incarnations.iter().filter(|(_, state)| state.is_none());

        RecoveredMessages {
            drafts,
            sealed: self.sealed.into_values().collect(),
            uncertain_incarnations: uncertain_incarnations
                .map(|(incarnation, _)| *incarnation)
                .collect(),
            incarnations: self.incarnations.into_values().flatten().collect(),
            crashed: 0,
            torn_bytes: self.torn_bytes,
            uncertain_samples: self.uncertain.values().fold(0, |sum, n| sum.saturating_add(*n)),
            damaged: self.damaged,
        }
    }
}

impl RecoveredMessages {
    /// The incarnation that stopped in order without having sealed its final message, which is
    /// still among the drafts. Those before it have final messages; a clock that was set back may
    /// have given them greater names.
    pub(crate) fn stopped(&self) -> Option<Incarnation> {
        let has_final_draft = self.drafts.iter().any(|(_, draft)| draft.last);
        let unfinished = self.incarnations.iter().filter(|state| state.lacks_final_message());
        unfinished.map(|state| state.incarnation).max().filter(|_| has_final_draft)
    }

    /// Takes what notes beside the file state. Returns the notes of incarnations of which
    /// `recovered` knows nothing: their file is gone, or was replaced before it held anything of
    /// them.
    pub fn take_notes(recovered: Option<&mut Self>, notes: Notes) -> Vec<NotedIncarnation> {
        let known = recovered.as_ref().map(|found| found.incarnations()).unwrap_or_default();
        let mut orphans = match recovered.filter(|_| known.contains(&notes.own.incarnation)) {
            None => notes.into_orphans(),
            Some(recovered) => {
                recovered.count_crash(notes.own);
                notes.orphans
            }
        };
        orphans.retain(|noted| !known.contains(&noted.incarnation));
        orphans
    }

    /// Counts as lost what a note has and the file has not, in the state of the incarnation that
    /// wrote it. Samples that the file had and that cannot be read are uncertain and not counted
    /// again.
    fn count_crash(&mut self, note: NotedIncarnation) {
        let drafts = self.drafts.iter().map(|(_, draft)| draft.samples());
        // What cannot be read was recorded as well, and is counted as uncertain: not as lost once
        // more.
        let held = drafts.fold(self.uncertain_samples, u64::saturating_add);
        let noted =
            |state: &&mut IncarnationState| state.incarnation == note.incarnation && !state.left;
        let Some(state) = self.incarnations.iter_mut().find(noted) else { return };
        let recorded = state.totals.recorded;
        self.crashed =
            note.recorded.saturating_sub(recorded.saturating_add(held)).min(COUNT_MAX - recorded);
        state.totals.recorded += self.crashed;
        if self.crashed > 0 {
            let reason = LossReason::new(CRASH).expect("a constant of letters");
            *state.totals.lost.entry(reason).or_default() += self.crashed;
        }
    }

    /// Removes what is older than `age_max`. The states of all incarnations remain.
    pub fn expire(&mut self, now: Wall, age_max: Duration) -> ExpiredMessages {
        let mut expired = ExpiredMessages::default();
        // A clock that jumped by years makes nothing old.
        let is_old = |age: Duration| age > age_max && age < CLOCK_LEAP_MAX;

        self.sealed.retain(|sealed| {
            let keep = !is_old(now.since(sealed.sealed_at));
            expired.sealed_messages += u64::from(!keep);
            expired.sealed_samples += if keep { 0 } else { sealed.samples };
            keep
        });

        self.drafts.retain(|(_, draft)| {
            let end = draft.start.plus(Duration::from_nanos(draft.length_ns));
            let keep = !is_old(now.since(end));
            expired.drafts += u64::from(!keep);
            expired.draft_samples += if keep { 0 } else { draft.samples() };
            expired.draft_own_samples += if keep { 0 } else { draft.own_samples() };
            expired.draft_events += if keep { 0 } else { draft.events() };
            keep
        });

        expired
    }

    /// Samples in drafts and sealed messages.
    pub fn samples(&self) -> u64 {
        let drafts = self.drafts.iter().map(|(_, draft)| draft.samples());
        let sealed = self.sealed.iter().map(|sealed| sealed.samples);
        drafts.chain(sealed).fold(0, u64::saturating_add)
    }

    /// The first incarnation from `own` on that no former one used: a clock that was set back must
    /// not make this incarnation reuse the number of a former one.
    pub(crate) fn unused_incarnation(&self, mut own: Incarnation) -> Incarnation {
        let former = self.incarnations();
        while former.contains(&own) {
            own = Incarnation(own.0.saturating_add(1));
        }
        own
    }

    fn incarnations(&self) -> BTreeSet<Incarnation> {
        let accounts = self.incarnations.iter().map(|state| state.incarnation);
        let sealed = self.sealed.iter().map(|sealed| sealed.incarnation);
        accounts.chain(sealed).chain(self.uncertain_incarnations.iter().copied()).collect()
    }
}
