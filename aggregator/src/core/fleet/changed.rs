//! What has changed of the fleet since the last checkpoint.

use std::collections::BTreeSet;

use crate::limits::NODES_MAX;
use plimsoll_schemas::ids::NodeName;

/// Nodes that have changed, or are gone.
#[derive(Debug, Default)]
pub(super) struct ChangedNodes {
    any: bool,
    /// More have changed than are remembered by name.
    too_many: bool,
    names: BTreeSet<NodeName>,
}

impl ChangedNodes {
    /// A node has changed, or is gone.
    pub(super) fn touch(&mut self, node: &NodeName) {
        self.any = true;
        if self.too_many || self.names.contains(node) {
            return;
        }
        self.names.insert(node.clone());
        if self.names.len() > NODES_MAX {
            self.too_many = true;
            self.names.clear();
        }
    }

    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// The names, from here on none; `None` where there are too many of them.
    pub(super) fn take(&mut self) -> Option<BTreeSet<NodeName>> {
        let Self { too_many, names, .. } = std::mem::take(self);
        (!too_many).then_some(names)
    }
}
