//! What a checkpoint writes: what has changed since the one before, taken from every room at once.

use std::sync::Arc;

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Mono;

use super::confirmations::PendingConfirmation;
use super::record::{Content, Record, Rest};
use crate::core::alerting::AlertsRecord;
use crate::core::fleet::{BudgetsRecord, Node, Pool, Pools};
use crate::core::history::HistoryBatch;
use crate::core::ingest::ReadUpTo;

/// What a checkpoint has to write; cheap to take, since nodes are shared and not copied.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Whether they replace everything that is stored.
    pub everything: bool,
    pub read_up_to: ReadUpTo,
    /// Nodes that have changed, `None` for those that are gone.
    pub nodes: Vec<(NodeName, Option<Arc<Node>>)>,
    pub pools: Arc<Pools>,
    /// As they are stored, if that is known.
    pub pools_before: Option<Arc<Pools>>,
    /// Each room's own part.
    pub rest: Rest,
    /// What is to be added to the history before the records are written.
    pub history: Option<Arc<HistoryBatch>>,
    /// What receivers are owed, to be kept beside the records, if it has changed.
    pub alerts: Option<AlertsRecord>,
    /// What is left of error budgets, to be kept beside the records, if it is time for that.
    pub budgets: Option<BudgetsRecord>,
}

impl Changes {
    /// The same where the history could not be written: its state is that of the batch before.
    pub fn without_history(mut self) -> Self {
        if let Some(batch) = self.history.take() {
            self.rest.history_generation = batch.id.generation.saturating_sub(1);
        }
        self
    }

    /// The records to write, one after the other. A node is released with its record, so that the
    /// core need not copy it any longer in order to change it.
    pub fn into_records(self) -> impl Iterator<Item = Record> {
        let pools = self.pools_changed();
        let nodes = self.nodes.into_iter().map(|(name, node)| Content::Node(name, node));
        let rest = std::iter::once(Content::Rest(Box::new(self.rest)));
        pools.into_iter().chain(nodes).chain(rest).map(Record)
    }

    fn pools_changed(&self) -> Vec<Content> {
        let changed = self.pools.changed_since(self.pools_before.as_deref()).into_iter();
        let contents = |(pool, rings): (Pool, Vec<usize>)| {
            let head = Content::Pool(pool.clone(), Arc::clone(&self.pools));
            let ring = |n| Content::PoolRing(pool.clone(), n, Arc::clone(&self.pools));
            std::iter::once(head).chain(rings.into_iter().map(ring)).collect::<Vec<_>>()
        };
        changed.flat_map(contents).collect()
    }

    /// The confirmations for every node in these changes, which were taken at `as_of`. To be sent
    /// only once they are stored. Takes a while for many nodes: not for the driver's thread.
    pub fn confirmations(&self, as_of: Mono) -> Vec<PendingConfirmation> {
        let present = self.nodes.iter().filter_map(|(name, node)| Some((name, node.as_deref()?)));
        let confirmation = |(name, node): (&NodeName, &Node)| {
            PendingConfirmation::new(name, as_of, self.read_up_to, node)
        };
        present.map(confirmation).collect()
    }
}
