//! One run. Reports of its commands may come in any order and lead to the same run.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::ids::{Labels, NodeName, Operation, RunName};
use plimsoll_schemas::run::{RunChange, RunReport};
use plimsoll_schemas::summary::{RunOrigin, RunRow, RunState};
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::unit::Unit;
use serde::{Deserialize, Serialize};

use crate::limits::runs::{RUN_NO_END_AFTER, RUN_NODES_MAX, RUN_OPERATIONS_MAX};

/// A run, without its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NamedRun {
    origin: RunOrigin,
    by: Option<String>,
    /// The labels of its first command.
    labels: Labels,
    pub(super) begun: Wall,
    /// The latest end that was reported.
    ended: Option<Wall>,
    exit_code: Option<u8>,
    /// Whether a client began it and has not stopped it.
    is_open: bool,
    commands_begun: u32,
    commands_ended: u32,
    /// Commands that a client has stopped, and whose end was not reported yet.
    commands_stopped: u32,
    nodes: BTreeSet<NodeName>,
    has_more_nodes: bool,
    /// When its newest sample was taken, or the newest report was sent.
    seen: Wall,
    /// Samples with its label that found no room in a group of their own, by operation; at most
    /// [`RUN_OPERATIONS_MAX`] and one for all others.
    #[serde(default)]
    folded: BTreeMap<Operation, u64>,
}

/// Whose share of the room a run is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// The only node that reported it or brought samples of it.
    Node(NodeName),
    /// Clients of the API, which have the token.
    Clients,
    Several,
}

impl NamedRun {
    pub(super) fn begun_by_client(now: Wall, labels: Labels, by: Option<String>) -> Self {
        Self { by, is_open: true, ..Self::new(RunOrigin::Client, now, labels) }
    }

    /// What the first report of it states.
    pub(super) fn reported(at: Wall, report: &RunReport) -> Self {
        let mut run = Self::new(RunOrigin::Command, at, report.labels.clone());
        run.on_report(at, report);
        run
    }

    fn new(origin: RunOrigin, begun: Wall, labels: Labels) -> Self {
        Self {
            origin,
            by: None,
            labels,
            begun,
            ended: None,
            exit_code: None,
            is_open: false,
            commands_begun: 0,
            commands_ended: 0,
            commands_stopped: 0,
            nodes: BTreeSet::new(),
            has_more_nodes: false,
            seen: begun,
            folded: BTreeMap::new(),
        }
    }

    /// One of its commands has begun or ended at `at`.
    pub(super) fn on_report(&mut self, at: Wall, report: &RunReport) {
        // A client's begin and labels stay.
        if self.origin == RunOrigin::Command && (at, &report.labels) < (self.begun, &self.labels) {
            (self.begun, self.labels) = (at, report.labels.clone());
        }
        match report.change {
            RunChange::Begun => self.commands_begun = self.commands_begun.saturating_add(1),
            RunChange::Ended { exit_code } => {
                self.commands_stopped = self.commands_stopped.saturating_sub(1);
                self.commands_ended = self.commands_ended.saturating_add(1);
                self.end(at, exit_code);
            }
        }
    }

    /// A client stops it with all its commands.
    pub(super) fn stop(&mut self, now: Wall, exit_code: Option<u8>) {
        self.commands_stopped = self.commands_begun.saturating_sub(self.commands_ended);
        self.is_open = false;
        self.end(now, exit_code);
    }

    fn end(&mut self, at: Wall, exit_code: Option<u8>) {
        self.ended = self.ended.max(Some(at));
        self.exit_code = self.exit_code.max(exit_code);
    }

    /// Whether [`Self::touch`] would change nothing.
    pub(super) fn is_touched(&self, node: &NodeName, taken: Wall) -> bool {
        let is_listed = self.nodes.contains(node);
        self.seen >= taken && (is_listed || self.has_more_nodes)
    }

    /// A node sent something of it.
    pub(super) fn touch(&mut self, node: &NodeName, taken: Wall) {
        self.seen = self.seen.max(taken);
        if self.nodes.len() < RUN_NODES_MAX {
            self.nodes.insert(node.clone());
        } else if !self.nodes.contains(node) {
            self.has_more_nodes = true;
        }
    }

    /// Samples of it are in the group of what finds no room.
    pub(super) fn on_folded(&mut self, operation: &Operation, samples: u64) {
        let is_new = !self.folded.contains_key(operation);
        let is_full = is_new && self.folded.len() >= RUN_OPERATIONS_MAX;
        let other = || Unit::of(operation.as_str()).overflow();
        let operation = if is_full { other() } else { operation.clone() };
        let folded = self.folded.entry(operation).or_default();
        *folded = folded.saturating_add(samples);
    }

    /// Whose share of the room it is in.
    pub(super) fn holder(&self) -> Holder {
        match (self.origin, self.nodes.first()) {
            (RunOrigin::Client, _) => Holder::Clients,
            (RunOrigin::Command, Some(node)) if self.nodes.len() == 1 => Holder::Node(node.clone()),
            (RunOrigin::Command, _) => Holder::Several,
        }
    }

    fn is_running(&self) -> bool {
        let over = self.commands_ended.saturating_add(self.commands_stopped);
        self.is_open || self.commands_begun > over
    }

    pub(super) fn state(&self, now: Wall) -> RunState {
        // A client that began a run may stop it any time later, and its jobs may be without label.
        let is_awaited = self.is_open && self.nodes.is_empty();
        match self.is_running() {
            false => RunState::Ended,
            true if is_awaited || now.since(self.seen) < RUN_NO_END_AFTER => RunState::Running,
            true => RunState::NoEnd,
        }
    }

    /// When it ended, or was last seen.
    pub(super) fn last_active(&self) -> Wall {
        self.ended.filter(|_| !self.is_running()).unwrap_or(self.seen)
    }

    pub(super) fn row(&self, name: &RunName, now: Wall) -> RunRow {
        let ended = self.ended.filter(|_| !self.is_running());
        RunRow {
            name: name.clone(),
            state: self.state(now),
            begun_seconds: seconds(self.begun.0),
            ended_seconds: ended.map(|at| seconds(at.0)),
            exit_code: self.exit_code,
            origin: self.origin,
            by: self.by.clone(),
            labels: self.labels.clone(),
            commands: self.commands_begun,
            nodes: self.nodes.iter().cloned().collect(),
            has_more_nodes: self.has_more_nodes,
            folded: self.folded.clone(),
        }
    }
}
