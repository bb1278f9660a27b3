//! The aggregator's core and its store as the simulation calls them.
//!
//! A store takes a checkpoint's records all together, as a transaction does. They are made from
//! the core's changes only when they are read, which costs less and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_aggregator::core::Core;
use plimsoll_aggregator::core::durable::{Part, StoredRecords};
use plimsoll_aggregator::core::fleet::Node;
use plimsoll_schemas::alert::{AlertState, NamePattern};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::{BusEvent, Delivered};
use plimsoll_schemas::urgency::{DeclaredSubject, DeclaredUrgency, Urgency};

use plimsoll_aggregator::core::durable::CommonTerms;
pub use plimsoll_aggregator::core::durable::{Changes, PendingConfirmation};
pub use plimsoll_aggregator::core::ingest::{LaneOrder, Turns};
pub use plimsoll_aggregator::limits::{CHECKPOINT_EVERY, CHECKPOINT_RETRY_PAUSE};

use super::mesh_name::mesh_name;

/// The operation that jobs report.
pub const REPORTED: &str = "epoch_hook";

/// Changes that are kept as such; bounds memory.
const PENDING_MAX: usize = 24;

pub struct ReaderCore(Core);

/// What outlives an aggregator.
#[derive(Debug, Default)]
pub struct Store {
    records: StoredRecords,
    pending: Vec<Changes>,
}

/// What a running aggregator has of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Samples in its histograms, of all operations.
    pub samples: u64,
    /// Of those, samples that jobs reported.
    pub reported: u64,
    /// Events that it has counted.
    pub events: u64,
    /// A bucket of what jobs reported that is there more than once.
    pub doubled: Option<usize>,
    /// Samples that its ledger calls recorded, and those that it calls merged.
    pub recorded: u64,
    /// See `recorded`.
    pub merged: u64,
    /// Samples that the ledger accounts for: merged, held, missing, unread, or lost.
    pub known: u64,
}

/// What was merged of one node.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Samples in each bucket of what jobs reported.
    pub reported: Vec<(usize, u64)>,
    /// Samples of all other operations.
    pub others: u64,
}

impl Merged {
    pub fn unite(&mut self, other: &Self) {
        let both: BTreeMap<usize, u64> =
            self.reported.iter().chain(&other.reported).copied().collect();
        self.reported = both.into_iter().collect();
        self.others = self.others.max(other.others);
    }
}

impl Store {
    /// What a copy of its file holds.
    pub fn copy(&mut self) -> Self {
        self.settle();
        Self { records: self.records.clone(), pending: Vec::new() }
    }

    /// A checkpoint is on the disk.
    pub fn commit(&mut self, changes: Changes) {
        self.pending.push(changes);
        if self.pending.len() >= PENDING_MAX {
            self.settle();
        }
    }

    /// Makes records of pending changes, the newest first: what a later checkpoint replaces need
    /// not be written out for an earlier one.
    fn settle(&mut self) {
        let mut seen = BTreeSet::new();
        for changes in std::mem::take(&mut self.pending).into_iter().rev() {
            let everything = changes.everything;
            for record in changes.into_records() {
                if seen.insert(record.part().to_string()) {
                    self.records.put(&record);
                }
            }
            if everything {
                return self.records.0.retain(|name, _| seen.contains(name));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.records.0.is_empty() && self.pending.is_empty()
    }

    /// What the checkpoint holds of each node, by name.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn merged(&mut self) -> Result<BTreeMap<String, Merged>, String> {
        self.settle();
        if self.is_empty() {
            return Ok(BTreeMap::new());
        }
        let core = restore(&self.records, Now::default())?;
        let names = self.records.0.keys().filter_map(|name| match Part::named(name) {
            Ok(Part::Node(node)) => Some(node),
            _ => None,
        });
        Ok(names.map(|name| (name.to_string(), core.merged(&name))).collect())
    }
}

fn restore(records: &StoredRecords, now: Now) -> Result<ReaderCore, String> {
    let checkpoint = records.read().map_err(|error| error.to_string())?;
    Ok(ReaderCore(Core::restore(mesh_name(), shipped(), now, checkpoint)))
}

fn merged(node: &Node) -> Merged {
    let reported = Operation::new(REPORTED).expect("a constant of plain letters");
    let mut merged = Merged::default();
    for (operation, windows) in node.operations.iter() {
        if *operation == reported {
            merged.reported = windows.total().counts().iter().collect();
        } else {
            merged.others += windows.total_exact().count;
        }
    }
    merged
}

/// Samples that a ledger accounts for.
pub fn known(ledger: &Ledger) -> u64 {
    let lost: u64 = ledger.lost.values().sum();
    ledger.merged + ledger.held + ledger.unaccounted + ledger.unread + lost
}

impl ReaderCore {
    /// An aggregator with the state in its store; returns whether there was a checkpoint.
    ///
    /// # Errors
    /// When there is one that it cannot read.
    pub fn begin(store: &mut Store, now: Now) -> Result<(Self, bool), String> {
        if store.is_empty() {
            return Ok((Self(Core::new(mesh_name(), shipped(), now)), false));
        }
        store.settle();
        Ok((restore(&store.records, now)?, true))
    }

    pub fn on_bus_event(&mut self, now: Now, event: &BusEvent) {
        self.0.on_bus_event(now.mono, event);
    }

    /// Which lane it reads next.
    pub fn lane_order(&self) -> LaneOrder {
        self.0.lane_order()
    }

    /// How far it has read a lane, and in which stream; where it reads on.
    pub fn position(&self, lane: Lane) -> (u64, Option<u64>) {
        let position = self.0.position(lane);
        (position.read, position.stream_id.and_then(|id| id.parse().ok()))
    }

    /// What its confirmations to all nodes have in common, with all operations declared critical or
    /// none.
    pub fn common_terms(&self, declares: bool) -> CommonTerms {
        let all = NamePattern::new("*").map(DeclaredSubject::Operation);
        let all = all.map(|subject| DeclaredUrgency { subject, urgency: Urgency::Critical });
        let urgent = all.ok().filter(|_| declares).into_iter().collect();
        CommonTerms { urgent, ..self.0.common_terms() }
    }

    /// The first and last message of a stream.
    pub fn on_positioned(&mut self, lane: Lane, first: u64, last: u64, stream: u64) {
        self.0.on_positioned(lane, first, last, &stream.to_string());
    }

    /// The stream is another one.
    pub fn on_reset(&mut self, lane: Lane, last: u64) {
        self.0.on_reset(lane, last);
    }

    /// It reads a message.
    ///
    /// # Errors
    /// When it cannot.
    pub fn on_message(&mut self, now: Now, message: &Delivered) -> Result<(), String> {
        self.0.on_message(now, message).map_err(|unreadable| unreadable.text)
    }

    /// What it has merged of a node, straight from its memory.
    pub fn merged(&self, node: &NodeName) -> Merged {
        self.0.node(node).map(merged).unwrap_or_default()
    }

    /// What it has of a node; the default for an unknown one. To search for what is
    /// `doubled` takes a while.
    pub fn held(&self, node: &NodeName, checks_doubled: bool) -> Held {
        let Some(node) = self.0.node(node) else { return Held::default() };
        let mut held = Held { events: node.events.values().sum(), ..Held::default() };

        for (operation, windows) in node.operations.iter() {
            held.samples += windows.total_exact().count;
            if operation.as_str() == REPORTED {
                held.reported = windows.total_exact().count;
                let doubled =
                    checks_doubled.then(|| windows.total().counts().iter().find(|(_, n)| *n > 1));
                held.doubled = doubled.flatten().map(|(bucket, _)| bucket);
            }
        }

        let ledger = node.account.ledger();
        (held.recorded, held.merged, held.known) = (ledger.recorded, ledger.merged, known(&ledger));
        held
    }

    /// Whether it has expired a node and dropped its histograms; `None` of one that it does not
    /// know.
    pub fn hides(&self, node: &NodeName) -> Option<bool> {
        self.0.node(node).map(|node| node.hidden)
    }

    /// Whether it reports a gap in a node's ledger.
    pub fn reports_gap(&self, node: &NodeName) -> bool {
        self.0.gap_alert(node) == AlertState::Firing
    }

    /// Advances the core's time.
    pub fn on_deadline(&mut self, now: Now) -> Mono {
        self.0.on_deadline(now);
        self.0.next_deadline()
    }

    /// What has changed since the last call.
    pub fn take_changes(&mut self, now: Wall) -> Option<Changes> {
        self.0.take_changes(now)
    }

    /// The confirmations to send once these changes, taken at `as_of`, are on the disk.
    pub fn confirmations(changes: &Changes, as_of: Mono) -> Vec<PendingConfirmation> {
        changes.confirmations(as_of)
    }

    /// The changes taken were not written to the disk.
    pub fn on_changes_lost(&mut self) {
        self.0.on_changes_lost();
    }

    /// The ledger entry of a node, expired or not.
    pub fn ledger(&self, node: &NodeName) -> Option<Ledger> {
        self.0.node(node).map(|node| node.account.ledger())
    }

    /// How many repetitions and late samples there were.
    pub fn counts(&self, now: Wall) -> (u64, u64) {
        let view = self.0.view(now, "");
        (view.own.merged.duplicates, view.own.merged.late_samples)
    }
}
