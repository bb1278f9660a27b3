//! What a starting node finds in its spool: the batches are read one after the other, and what
//! is damaged is told apart from what was never finished.
//!
//! A last batch that is not whole was being written when the process ended, so nothing in it was
//! ever sent: what stands before it holds. Where more follows, a batch was whole once and may have
//! said that a draft was sealed. Such a draft may have been sent under a number that is not known
//! any more; it is left out and its samples are counted as uncertain. Sealed messages are kept:
//! sent twice, they count once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{SPOOL_ENTRIES_MAX, SPOOL_RUNS_MAX};
use plimsoll_schemas::ids::{Incarnation, LossReason, MeshName, NodeName, Seq};
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Wall};
use thiserror::Error;

use super::frame::{self, HeadFault, Reader, VERSION};
use super::record::{BatchRecord, HeadRecord, RunningRecord, parse};
use super::{RunAccount, Sealed};
use crate::core::Identity;
use crate::core::draft::Draft;

/// An age beyond which it is the clock that was wrong.
const CLOCK_LEAP_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// Samples lost because their interval was still open when the process ended.
pub const CRASH: &str = "crash";

/// Why a file is not read at all.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// A later program wrote it.
    #[error("it is of version {0}; this program reads {VERSION}")]
    Newer(u16),
    /// It is another node's.
    #[error("it belongs to node {node} of mesh {mesh}")]
    Other {
        /// The mesh it belongs to.
        mesh: MeshName,
        /// The node it belongs to.
        node: NodeName,
    },
    /// Nothing of it can be told.
    #[error("{0}")]
    Damaged(String),
}

impl Unusable {
    /// The reason as a label.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Newer(_) => "newer_version",
            Self::Other { .. } => "other_node",
            Self::Damaged(_) => "damaged",
        }
    }
}

/// What was held when the last whole batch was written.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// What was never sent, the oldest first; a farewell among them is that of its own run.
    pub drafts: Vec<(Lane, Draft)>,
    /// What may have been sent, in order of incarnation and number.
    pub sealed: Vec<Sealed>,
    /// Accounts as a testament must state them: what was lost with the open interval stands in
    /// them as recorded and as lost by [`CRASH`].
    pub runs: Vec<RunAccount>,
    /// Incarnations of which it is not known what they sealed last: no testament can be made.
    pub uncertain_runs: Vec<Incarnation>,
    /// Samples lost with the interval that was open at the end.
    pub crashed: u64,
    /// Bytes of a last batch that was never finished.
    pub torn_bytes: u64,
    /// Samples of which it is not known whether they were sent.
    pub uncertain_samples: u64,
    /// What is wrong with the file, if it is not whole. Then it is worth setting aside.
    pub damaged: Option<String>,
}

/// What was too old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Sealed messages that are not sent again; most will have arrived.
    pub released_messages: u64,
    /// Their samples.
    pub released_samples: u64,
    /// Drafts that are lost.
    pub drafts: u64,
    /// Their samples.
    pub draft_samples: u64,
    /// Their events.
    pub draft_events: u64,
}

/// Reads a whole file. `boot` names the machine's present run, where that is known.
///
/// # Errors
/// When nothing of it can be used.
pub fn read(
    bytes: &[u8],
    own: &Identity,
    boot: Option<&str>,
    now: Mono,
) -> Result<Recovered, Unusable> {
    let (head, rest) = match frame::read_head(bytes) {
        Ok(head) => head,
        Err(HeadFault::Short) if !Reader::new(bytes).skip() => {
            let torn_bytes = bytes.len() as u64;
            return Ok(Recovered { torn_bytes, ..Recovered::default() });
        }
        Err(HeadFault::Short) => return Err(damaged("its head is cut off")),
        Err(HeadFault::Newer(version)) => return Err(Unusable::Newer(version)),
        Err(HeadFault::Damaged(what)) => return Err(damaged(what)),
    };
    let other_boot = check_head(head, own, boot)?;
    let mut fold = Fold::default();
    let mut reader = Reader::new(rest);
    while reader.left() > 0 {
        let at = bytes.len() - reader.left();
        match reader.batch().map(|body| fold.take(body, own, now)) {
            Some(Ok(())) => {}
            Some(Err(what)) => fold.doubt(format!("the batch at byte {at}: {what}")),
            None if reader.skip() => fold.doubt(format!("the batch at byte {at} is not whole")),
            None if reader.gave_up() => {
                fold.doubt(format!("what follows byte {at} takes too long to tell"));
                break;
            }
            None => {
                fold.torn_bytes = reader.left() as u64;
                break;
            }
        }
    }
    if other_boot {
        fold.doubt("it was not synced before the machine started anew".to_owned());
    }
    Ok(fold.finish())
}

fn damaged(what: &str) -> Unusable {
    Unusable::Damaged(what.to_owned())
}

/// Whether the file may lack its end because the machine started anew.
fn check_head(body: &[u8], own: &Identity, boot: Option<&str>) -> Result<bool, Unusable> {
    let HeadRecord { mesh, node, boot: theirs } = parse(body).map_err(Unusable::Damaged)?;
    let name = |error| Unusable::Damaged(format!("{error}"));
    let (mesh, node) = (MeshName::new(mesh).map_err(name)?, NodeName::new(node).map_err(name)?);
    if mesh != own.mesh || node != own.node {
        return Err(Unusable::Other { mesh, node });
    }
    Ok(theirs.is_some_and(|theirs| Some(theirs.as_str()) != boot))
}

/// An entry, to say of which one is not certain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Draft(u64),
    Sealed(u64, u64),
}

/// All batches so far, folded into one state.
#[derive(Default)]
struct Fold {
    drafts: BTreeMap<u64, (Lane, Draft)>,
    sealed: BTreeMap<(Incarnation, Seq), Sealed>,
    /// `None` where the account is not certain.
    runs: BTreeMap<Incarnation, Option<RunAccount>>,
    running: Option<RunningRecord>,
    uncertain: BTreeMap<Entry, u64>,
    torn_bytes: u64,
    damaged: Option<String>,
}

impl Fold {
    /// Takes one batch, all of it or nothing.
    fn take(&mut self, body: &[u8], own: &Identity, now: Mono) -> Result<(), String> {
        let batch: BatchRecord<'_> = parse(body)?;
        let fits = |held: usize, more: usize| held.saturating_add(more) <= SPOOL_ENTRIES_MAX;
        let fits = fits(self.drafts.len() + self.uncertain.len(), batch.drafts.len())
            && fits(self.sealed.len() + self.uncertain.len(), batch.sealed.len());
        if !fits {
            return Err("it holds more than any node does".to_owned());
        }
        for draft in &batch.drafts {
            match draft.read(own, now) {
                Ok(read) => drop(self.drafts.insert(draft.id, read)),
                Err(what) => self.miss(Entry::Draft(draft.id), draft.samples, what),
            }
        }
        for sealed in &batch.sealed {
            match sealed.read(own) {
                Ok(read) => drop(self.sealed.insert(read.key(), read)),
                Err(what) => self.miss(Entry::Sealed(sealed.run, sealed.seq), sealed.samples, what),
            }
        }
        for id in batch.drafts_gone {
            self.drafts.remove(&id);
            self.uncertain.remove(&Entry::Draft(id));
        }
        for (run, seq) in batch.sealed_gone {
            self.sealed.remove(&(Incarnation(run), Seq(seq)));
            self.uncertain.remove(&Entry::Sealed(run, seq));
        }
        for run in batch.runs {
            self.runs.insert(Incarnation(run.run), run.read());
        }
        for run in batch.runs_gone {
            self.runs.remove(&Incarnation(run));
        }
        while self.runs.len() > SPOOL_RUNS_MAX {
            self.runs.pop_first();
        }
        self.running = batch.running.or(self.running);
        Ok(())
    }

    /// One entry cannot be read. No aggregator could read it either.
    fn miss(&mut self, entry: Entry, samples: u64, what: String) {
        self.uncertain.insert(entry, samples.min(COUNT_MAX));
        self.damaged.get_or_insert(what);
    }

    /// Something is missing between what was read so far and what comes.
    fn doubt(&mut self, what: String) {
        self.damaged.get_or_insert(what);
        for (id, (_, draft)) in std::mem::take(&mut self.drafts) {
            self.uncertain.insert(Entry::Draft(id), draft.samples());
        }
        for run in self.runs.values_mut() {
            run.take_if(|run| !run.left);
        }
    }

    fn finish(mut self) -> Recovered {
        let crashed = self.crash();
        let mut drafts: Vec<(Lane, Draft)> = self.drafts.into_values().collect();
        drafts.sort_by_key(|(_, draft)| draft.start);
        let uncertain_runs = self.runs.iter().filter(|(_, run)| run.is_none());
        Recovered {
            drafts,
            sealed: self.sealed.into_values().collect(),
            uncertain_runs: uncertain_runs.map(|(incarnation, _)| *incarnation).collect(),
            runs: self.runs.into_values().flatten().collect(),
            crashed,
            torn_bytes: self.torn_bytes,
            uncertain_samples: self.uncertain.values().fold(0, |sum, n| sum.saturating_add(*n)),
            damaged: self.damaged,
        }
    }

    /// Puts the open interval into the account of its run, if it was never closed.
    fn crash(&mut self) -> u64 {
        let Some(RunningRecord { run, interval, samples }) = self.running else { return 0 };
        let account = self.runs.get_mut(&Incarnation(run)).and_then(Option::as_mut);
        let open = |run: &&mut RunAccount| !run.left && interval == run.intervals + 1;
        let Some(account) = account.filter(open) else { return 0 };
        let crashed = samples.min(COUNT_MAX - account.totals.recorded);
        account.intervals = interval;
        account.totals.recorded += crashed;
        if crashed > 0 {
            let reason = LossReason::new(CRASH).expect("a constant of letters");
            *account.totals.lost.entry(reason).or_default() += crashed;
        }
        crashed
    }
}

impl Recovered {
    /// Gives up what is older than `age_max`. The accounts of runs of which nothing is left
    /// remain.
    pub fn expire(&mut self, now: Wall, age_max: Duration) -> Expired {
        let mut expired = Expired::default();
        // A clock that leapt by years makes nothing old.
        let is_old = |age: Duration| age > age_max && age < CLOCK_LEAP_MAX;
        self.sealed.retain(|sealed| {
            let keep = !is_old(now.since(sealed.sealed_at));
            expired.released_messages += u64::from(!keep);
            expired.released_samples += if keep { 0 } else { sealed.samples };
            keep
        });
        self.drafts.retain(|(_, draft)| {
            let end = draft.start.plus(Duration::from_nanos(draft.length_ns));
            let keep = !is_old(now.since(end));
            expired.drafts += u64::from(!keep);
            expired.draft_samples += if keep { 0 } else { draft.samples() };
            expired.draft_events += if keep { 0 } else { draft.events() };
            keep
        });
        expired
    }

    /// Samples in drafts and sealed messages.
    #[must_use]
    pub fn samples(&self) -> u64 {
        let drafts = self.drafts.iter().map(|(_, draft)| draft.samples());
        let sealed = self.sealed.iter().map(|sealed| sealed.samples);
        drafts.chain(sealed).fold(0, u64::saturating_add)
    }

    /// Every incarnation of which something is known.
    #[must_use]
    pub fn incarnations(&self) -> BTreeSet<Incarnation> {
        let accounts = self.runs.iter().map(|run| run.incarnation);
        let sealed = self.sealed.iter().map(|sealed| sealed.incarnation);
        accounts.chain(sealed).chain(self.uncertain_runs.iter().copied()).collect()
    }
}
