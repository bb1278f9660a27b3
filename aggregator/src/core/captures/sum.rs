//! A stretch of the past of several nodes as one profile: a few nodes are asked at a time, what
//! each has is added, and what was added is stored when all have ended.
//!
//! Owns what is left to ask, and which nodes gave nothing and why. Its parts are captures like
//! others, but none of them is stored or listed by itself.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{NodesSummed, ProfileRow, ProfileState};
use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::capture::{CaptureFacts, CaptureId, CaptureOrder};

use super::breach::next_instant;
use super::capture::{Capture, STOPPED};
use super::effect::CaptureEffect;
use crate::limits::captures::{NODES_SUMMED_MAX, START_WITHIN};

#[derive(Clone, Debug)]
pub(super) struct Sum {
    /// As it is shown.
    pub(super) row: ProfileRow,
    order: CaptureOrder,
    waiting: Vec<NodeName>,
    pub(super) parts: Vec<CaptureId>,
    is_storing: bool,
}

impl Sum {
    /// Of these nodes, of which those beyond the first 64 are left out. `first` is the id of the
    /// order for the first one.
    pub(super) fn new(
        now: Now,
        first: CaptureId,
        order: CaptureOrder,
        mut nodes: Vec<NodeName>,
    ) -> Self {
        let left_out = nodes.len().saturating_sub(NODES_SUMMED_MAX);
        nodes.truncate(NODES_SUMMED_MAX);
        let names = [first.to_string()].into_iter().chain(nodes.iter().map(NodeName::to_string));
        let names: Vec<String> = names.collect();
        let id = CaptureId::derived(&names.iter().map(String::as_bytes).collect::<Vec<_>>());

        let mut row = Capture::new(now, id, nodes[0].clone(), order.clone(), None).row;
        let (asked, missing) = (nodes.len(), BTreeMap::new());
        row.nodes = Some(NodesSummed { asked, answered: 0, left_out, missing });
        nodes.reverse();
        Self { row, order, waiting: nodes, parts: Vec::new(), is_storing: false }
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether all nodes have ended, and it is not stored yet.
    pub(super) fn is_over(&self, captures: &BTreeMap<CaptureId, Capture>) -> bool {
        let is_open = self.row.state == ProfileState::Running && !self.is_storing;
        let mut parts = self.parts.iter().filter_map(|id| captures.get(id));
        is_open && self.waiting.is_empty() && parts.all(|part| part.end().is_some())
    }

    /// The capture of the next node.
    pub(super) fn next_part(&mut self, now: Now) -> Option<Capture> {
        let node = self.waiting.pop()?;
        let start_at = next_instant(now.wall);
        let expires_at = start_at.plus(START_WITHIN);
        let order = CaptureOrder { start_at, expires_at, ..self.order.clone() };
        let names = [self.row.id.to_string(), node.to_string()];
        let id = CaptureId::derived(&names.each_ref().map(String::as_bytes));
        self.parts.push(id);
        Some(Capture::new(now, id, node, order, None))
    }

    /// Takes its parts out of all captures once they have ended.
    pub(super) fn finish(
        &mut self,
        captures: &mut BTreeMap<CaptureId, Capture>,
    ) -> Option<CaptureEffect> {
        if !self.is_over(captures) {
            return None;
        }
        for id in std::mem::take(&mut self.parts) {
            captures.remove(&id).into_iter().for_each(|part| self.count(part.row));
        }

        let summed = self.row.nodes.as_ref()?;
        if summed.answered == 0 {
            self.end(Err("no_node_answered"));
            return None;
        }
        self.is_storing = true;
        let state = if summed.missing.is_empty() { ProfileState::Kept } else { ProfileState::Torn };
        Some(CaptureEffect::StoreSum(Box::new(ProfileRow { state, ..self.row.clone() })))
    }

    /// Asks no more nodes; false if all have ended.
    pub(super) fn stop(&mut self) -> bool {
        let is_stopped = self.row.state == ProfileState::Running && !self.is_storing;
        if is_stopped {
            for node in std::mem::take(&mut self.waiting) {
                self.miss(node, STOPPED);
            }
        }
        is_stopped
    }

    /// A part has ended.
    fn count(&mut self, part: ProfileRow) {
        let CaptureFacts { samples, torn, lost, fix, .. } = part.facts;
        if !part.state.has_profile() {
            self.miss(part.node, part.reason.as_deref().unwrap_or(part.state.as_str()));
            if self.row.facts.fix.is_empty() {
                self.row.facts.fix = fix;
            }
            return;
        }

        let facts = &mut self.row.facts;
        facts.samples += samples;
        facts.torn += torn;
        facts.lost += lost;
        if let Some(summed) = &mut self.row.nodes {
            summed.answered += 1;
        }
    }

    fn miss(&mut self, node: NodeName, why: &str) {
        if let Some(summed) = &mut self.row.nodes {
            summed.missing.insert(node, why.to_owned());
        }
    }

    /// It was stored, or why not.
    pub(super) fn on_stored(&mut self, stored: Result<(), &'static str>) {
        if self.is_storing {
            self.is_storing = false;
            self.end(stored);
        }
    }

    fn end(&mut self, stored: Result<(), &'static str>) {
        self.row.state = if stored.is_ok() { ProfileState::Kept } else { ProfileState::Failed };
        self.row.reason = stored.err().map(str::to_owned);
    }
}
