//! What one node has recorded and sent: every sample by name, every message by its bytes, every
//! loss by its reason.
//!
//! A sample of a node is one bucket of the histogram layout, used once: the samples merged by the
//! aggregator are compared with the recorded ones as sets, independently of the cores' arithmetic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
use plimsoll_schemas::histogram::{Histogram, layout};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::subject::SnapshotSubject;
use plimsoll_schemas::wire::{self, Body, Bus};

use super::incarnation::Answered;
use crate::sim::cores::aggregator::{Merged, REPORTED};
use crate::sim::schedule::Time;

/// The limits of the aggregators' budgets, in nanoseconds.
static LIMITS: LazyLock<Vec<(Operation, u64)>> = LazyLock::new(|| {
    let budgets = shipped().budgets.into_iter();
    budgets.map(|budget| (budget.operation, budget.limit_ns)).collect()
});

/// An incarnation and a number within it.
pub type Name = (u64, u64);

/// What a message was when it was first handed over.
#[derive(Clone, Debug)]
pub(super) struct SentMessage {
    /// When it was first handed over.
    pub at: Time,
    /// Its bytes, which never change.
    pub payload: Bytes,
    /// The samples of jobs in it.
    pub samples: Vec<usize>,
    /// How many samples of other operations.
    pub others: u64,
    pub events: u64,
    /// Samples recorded in its incarnation, as it states them.
    pub recorded: u64,
    /// Whether it is the final message.
    pub is_last: bool,
    /// Whether a later incarnation sent it for this one.
    pub is_crash_report: bool,
    /// Whether one of its samples exceeds the limit of a budget.
    pub is_over: bool,
}

/// The history of one node.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Samples recorded are those from bucket 1 to here.
    pub(super) recorded: usize,
    /// Messages ever handed over.
    pub(super) messages: BTreeMap<Name, SentMessage>,
    /// Samples whose loss breaks no invariant: they were in an interval that never ended, or in one
    /// whose write to the spool was under way.
    pub(super) unkept: BTreeSet<usize>,
    /// Messages that no broker takes.
    refused_messages: BTreeMap<Name, u64>,
    pub(super) refused: BTreeSet<usize>,
    /// Why samples may be missing without a name: a copy was evicted, or a process ended whose
    /// copies were not stored.
    pub(super) excuse: Option<&'static str>,
    /// Whether that is a reason for one aggregator only.
    excuse_alone: bool,
    /// Samples of any operation in all incarnations that have ended.
    pub(super) taken: u64,
    /// Of those, dropped for want of space.
    pub(super) dropped: u64,
    /// Of those, in messages that no broker takes.
    pub(super) refused_count: u64,
    /// Of those, the most that can have been in no closed interval or not in a spool.
    pub(super) unkept_count: u64,
    /// What incarnations that were killed had recorded when a frame came that they answered.
    answered: BTreeMap<u64, u64>,
    /// What later incarnations have reported as noted, by incarnation.
    noted: BTreeMap<u64, u64>,
    /// The last of them, until the next incarnation has taken over its drafts.
    last_killed: Option<u64>,
}

/// What the final comparison found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    pub recorded: u64,
    pub merged: u64,
    /// Of those, missing for a named reason.
    pub lost: u64,
    /// Of those, missing without one.
    pub missing: u64,
    /// How often a sample was merged once more than it should have been.
    pub duplicated: u64,
    /// Samples merged that were never recorded.
    pub invented: u64,
}

impl Sets {
    /// Adds those of another node, or incarnation.
    pub fn add(&mut self, other: &Self) {
        self.recorded += other.recorded;
        self.merged += other.merged;
        self.lost += other.lost;
        self.missing += other.missing;
        self.duplicated += other.duplicated;
        self.invented += other.invented;
    }

    /// What has no explanation: missing without a reason, or there without an origin.
    pub fn unexplained(&self) -> u64 {
        self.missing + self.invented
    }
}

impl History {
    /// A sample that there has not been yet: its bucket and its value in nanoseconds.
    pub fn next_sample(&mut self) -> Option<(usize, u64)> {
        let bucket = self.recorded + 1;
        if bucket >= layout::LEN {
            return None;
        }
        self.recorded = bucket;
        Some((bucket, u64::midpoint(layout::lowest(bucket), layout::highest(bucket))))
    }

    /// Records a message that is handed over; returns its name and whether it is new.
    ///
    /// # Errors
    /// When it cannot be read, or its name had other bytes before.
    pub fn note(
        &mut self,
        at: Time,
        subject: &str,
        payload: &Bytes,
    ) -> Result<(Name, bool), String> {
        let parsed: SnapshotSubject =
            subject.parse().map_err(|error| format!("subject {subject}: {error}"))?;
        let snapshot = wire::decode(&parsed, payload)
            .map_err(|error| format!("a node sends an unreadable message: {error}"))?;
        let name = (snapshot.header.incarnation.0, snapshot.header.seq.0);

        if let Some(before) = self.messages.get(&name) {
            return if before.payload == payload {
                self.take_back(name);
                Ok((name, false))
            } else {
                Err(format!("message {name:?} has other bytes than when it was first sent"))
            };
        }

        if let Some(Bus { former, .. }) = snapshot.body.bus() {
            self.noted.extend(former.iter().map(|noted| (noted.incarnation.0, noted.recorded)));
        }
        let (samples, others) = contents(&snapshot.body);

        let sent = SentMessage {
            at,
            payload: payload.clone(),
            samples,
            others,
            events: events(&snapshot.body),
            recorded: snapshot.header.totals.recorded,
            is_last: snapshot.header.last,
            is_crash_report: snapshot.header.successor.is_some(),
            is_over: is_over(&snapshot.body),
        };

        self.messages.insert(name, sent);
        Ok((name, true))
    }

    /// A message was given up as a dead letter. A node that ended before that was recorded sends it
    /// again: see [`Self::note`].
    pub fn refuse(&mut self, name: Name, samples: u64) {
        if self.refused_messages.insert(name, samples).is_some() {
            return;
        }
        self.refused_count += samples;
        if let Some(sent) = self.messages.get(&name) {
            self.refused.extend(sent.samples.iter().copied());
        }
    }

    /// A message that was given up is sent again, by an incarnation that did not read of that.
    fn take_back(&mut self, name: Name) {
        let Some(samples) = self.refused_messages.remove(&name) else { return };
        self.refused_count -= samples;
        for sample in &self.messages[&name].samples {
            self.refused.remove(sample);
        }
    }

    /// Whether an incarnation without a final message was followed by one with a smaller name,
    /// after the clock was set back. An aggregator cannot distinguish that from a running node
    /// whose former incarnation is delayed. It then reports that the node is silent and its
    /// samples are held, not that it left.
    pub fn seems_to_go_on(&self) -> bool {
        let mut incarnations: BTreeMap<u64, (Time, bool)> = BTreeMap::new();
        for ((incarnation, _), message) in &self.messages {
            let (sent_at, ended) = incarnations.entry(*incarnation).or_default();
            *sent_at = message.at.max(*sent_at);
            *ended |= message.is_last;
        }
        incarnations.iter().any(|(name, (sent_at, ended))| {
            !ended && incarnations.range(..name).any(|(_, (later, _))| later > sent_at)
        })
    }

    /// Why samples may be missing without a name from now on.
    pub fn excuse(&mut self, reason: &'static str) {
        self.excuse = Some(reason);
    }

    /// Whether a message that was sent is the crash report of a later incarnation.
    pub fn is_crash_report(&self, name: &Name) -> bool {
        self.messages.get(name).is_some_and(|sent| sent.is_crash_report)
    }

    /// Whether a message that was sent is a reason to overtake a backlog.
    pub fn is_urgent(&self, name: &Name) -> bool {
        let sent = self.messages.get(name);
        sent.is_some_and(|sent| sent.is_over || sent.is_last || sent.is_crash_report)
    }

    /// Whether a message that was sent has samples of any operation.
    pub fn has_samples(&self, name: &Name) -> bool {
        let sent = self.messages.get(name);
        sent.is_some_and(|sent| !sent.samples.is_empty() || sent.others > 0)
    }

    /// Why one aggregator may lack samples that another one has.
    pub fn excuse_one(&mut self, reason: &'static str) {
        self.excuse_alone = self.excuse.is_none();
        self.excuse.get_or_insert(reason);
    }

    /// Removes that excuse for both aggregators together, unless one `forgets` what it confirmed.
    pub fn excuse_two(&mut self, evicts: bool) {
        if self.excuse_alone && !evicts {
            self.excuse = None;
        }
    }

    /// How many messages were first handed over since then.
    pub fn handed_over_since(&self, since: Time) -> u64 {
        self.messages.values().filter(|sent| sent.at >= since).count() as u64
    }

    /// No sample is there twice, none that was never recorded.
    ///
    /// # Errors
    /// Names the sample.
    pub fn check_merged(&self, merged: &Merged) -> Result<(), String> {
        for (bucket, count) in &merged.reported {
            if *count > 1 {
                return Err(format!("sample {bucket} was merged {count} times"));
            }
            if *bucket == 0 || *bucket > self.recorded {
                return Err(format!("sample {bucket} was merged and never recorded"));
            }
        }
        Ok(())
    }

    fn whereabouts(&self, sample: usize) -> String {
        let carries = |(_, sent): &(&Name, &SentMessage)| sent.samples.contains(&sample);
        match self.messages.iter().find(carries) {
            Some((name, _)) => format!("{sample}, which message {name:?} carried"),
            None => format!("{sample}, which was never sent"),
        }
    }

    fn missing(&self, merged: &Merged) -> impl Iterator<Item = usize> {
        let present: BTreeSet<usize> = merged.reported.iter().map(|(bucket, _)| *bucket).collect();
        (1..=self.recorded).filter(move |bucket| !present.contains(bucket))
    }

    /// Samples that are missing and in nothing that was lost by name.
    fn unnamed(&self, merged: &Merged) -> impl Iterator<Item = usize> {
        let is_named =
            |bucket: &usize| self.unkept.contains(bucket) || self.refused.contains(bucket);
        self.missing(merged).filter(move |bucket| !is_named(bucket))
    }

    /// Merged and recorded samples as sets, at the end of the run.
    pub fn sets(&self, merged: &Merged) -> Sets {
        let is_known = |bucket: usize| (1..=self.recorded).contains(&bucket);
        let mut sets = Sets { recorded: self.recorded as u64, ..Sets::default() };
        for (bucket, count) in &merged.reported {
            let kind = if is_known(*bucket) { &mut sets.merged } else { &mut sets.invented };
            *kind += 1;
            sets.duplicated += count - 1;
        }
        let gone = sets.recorded - sets.merged;
        let unnamed = self.unnamed(merged).count() as u64;
        sets.missing = if self.excuse.is_some() { 0 } else { unnamed.saturating_sub(self.dropped) };
        sets.lost = gone - sets.missing;
        sets
    }

    /// An incarnation was killed.
    pub(super) fn on_killed(&mut self, answered: Answered) {
        self.answered.insert(answered.incarnation, answered.recorded);
        self.last_killed = Some(answered.incarnation);
    }

    /// Notes are gone, or the crash reports made from them.
    pub fn on_notes_lost(&mut self) {
        (self.answered, self.last_killed) = (BTreeMap::new(), None);
    }

    /// An incarnation took over this many samples in drafts, and states them as its own.
    pub fn on_adopted(&mut self, samples: u64) {
        let killed = self.last_killed.take();
        if let Some(recorded) = killed.and_then(|incarnation| self.answered.get_mut(&incarnation)) {
            *recorded = recorded.saturating_sub(samples);
        }
    }

    /// Each incarnation states what it had recorded when it answered, or its crash report does, or
    /// a later one that found its notes.
    ///
    /// # Errors
    /// Names the incarnation.
    pub fn check_answered(&self) -> Result<(), String> {
        for (incarnation, answered) in &self.answered {
            let sent = self.messages.range((*incarnation, 0)..=(*incarnation, u64::MAX));
            let noted = self.noted.get(incarnation).copied();
            let stated = sent.map(|(_, sent)| sent.recorded).max().max(noted).unwrap_or(0);
            if stated < *answered {
                return Err(format!(
                    "{incarnation} answered for {answered} samples and stated {stated}"
                ));
            }
        }
        Ok(())
    }

    /// Compares merged with recorded samples at the end of the run.
    ///
    /// # Errors
    /// Names a sample that is missing without a reason, or there without one.
    pub fn compare(&self, merged: &Merged) -> Result<(), String> {
        self.check_merged(merged)?;
        let Sets { missing, .. } = self.sets(merged);
        match self.unnamed(merged).next().filter(|_| missing > 0) {
            None => Ok(()),
            Some(first) => Err(format!(
                "{missing} samples are missing and no more than {} were dropped; the first is {}",
                self.dropped,
                self.whereabouts(first),
            )),
        }
    }
}

fn events(body: &Body) -> u64 {
    body.event().map_or(0, |events| events.events.len() as u64)
}

fn is_over(body: &Body) -> bool {
    let Some(latency) = body.latency() else { return false };
    let over = |limit_ns: &u64, histogram: &Histogram| histogram.max_ns() > *limit_ns;
    latency.histograms.iter().any(|(series, histogram)| {
        LIMITS.iter().any(|(of, limit_ns)| *of == series.operation && over(limit_ns, histogram))
    })
}

fn contents(body: &Body) -> (Vec<usize>, u64) {
    let Some(latency) = body.latency() else { return (Vec::new(), 0) };
    let (mut samples, mut others) = (Vec::new(), 0);
    for (series, histogram) in &latency.histograms {
        if series.operation.as_str() == REPORTED {
            samples.extend(histogram.counts().iter().map(|(bucket, _)| bucket));
        } else {
            others += histogram.count();
        }
    }
    (samples, others)
}
