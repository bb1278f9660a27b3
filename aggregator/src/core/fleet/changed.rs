//! What has changed of the fleet since the last checkpoint.
//!
//! DESIGN A67.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::NODES_MAX;
use plimsoll_schemas::ids::NodeName;

use super::node::Node;

/// Names of nodes that are remembered, some of them several times: a tree of names would be
/// searched with each message.
const NAMES_MAX: usize = 4 * NODES_MAX;

/// Nodes that have changed, or are gone.
#[derive(Debug, Default)]
pub(super) struct ChangedNodes {
    pub(super) any: bool,
    /// More have changed than are remembered by name.
    too_many: bool,
    /// In the order of changes.
    names: Vec<NodeName>,
}

impl ChangedNodes {
    pub(super) fn touch(&mut self, node: &NodeName) {
        self.any = true;
        if self.too_many || self.names.last() == Some(node) {
            return;
        }
        self.names.push(node.clone());
        if self.names.len() > NAMES_MAX {
            self.names.sort_unstable();
            self.names.dedup();
            self.too_many = self.names.len() > NODES_MAX;
        }
        if self.too_many {
            // From here on a checkpoint stores all nodes, for which no name is needed.
            self.names = Vec::new();
        }
    }

    /// The names, from here on none; `None` where there are too many of them.
    pub(super) fn take(&mut self) -> Option<BTreeSet<NodeName>> {
        let Self { too_many, names, .. } = std::mem::take(self);
        (!too_many).then(|| names.into_iter().collect())
    }
}

/// These names with their nodes, `None` for those that are gone. Mostly nearly all nodes have
/// changed, so both are passed through side by side once, instead of searching for each.
pub(super) fn with_nodes(
    names: &BTreeSet<NodeName>,
    nodes: &BTreeMap<NodeName, Arc<Node>>,
) -> Vec<(NodeName, Option<Arc<Node>>)> {
    let mut nodes = nodes.iter().peekable();
    let found = names.iter().map(|name| {
        while nodes.next_if(|(other, _)| *other < name).is_some() {}
        let node = nodes.next_if(|(other, _)| *other == name).map(|(_, node)| Arc::clone(node));
        (name.clone(), node)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_remembered_once_however_often_nodes_change() {
        let name = |n: usize| NodeName::new(format!("n{n}")).unwrap();
        let names: Vec<NodeName> = (0..=NODES_MAX).map(name).collect();
        let mut changed = ChangedNodes::default();
        for _ in 0..6 {
            names[..NODES_MAX].iter().for_each(|name| changed.touch(name));
            assert!(changed.names.len() <= NAMES_MAX);
        }
        assert!(changed.any && changed.take().is_some_and(|all| all.len() == NODES_MAX));
        assert!(!changed.any && changed.take().is_some_and(|all| all.is_empty()));
        (0..5).for_each(|_| names.iter().for_each(|name| changed.touch(name)));
        assert!(changed.any && changed.take().is_none());
    }

    proptest! {
        #[test]
        fn each_name_comes_with_its_node_or_none(
            names in prop::collection::btree_set(0..40_u8, 0..20),
            nodes in prop::collection::btree_set(0..40_u8, 0..20),
        ) {
            let name = |n: &u8| NodeName::new(format!("n{n}")).unwrap();
            let names: BTreeSet<NodeName> = names.iter().map(name).collect();
            let nodes: BTreeMap<NodeName, Arc<Node>> =
                nodes.iter().map(|n| (name(n), Arc::default())).collect();
            let found = with_nodes(&names, &nodes);
            prop_assert!(found.iter().map(|(name, _)| name).eq(&names));
            for (name, node) in found {
                let known = nodes.get(&name);
                prop_assert_eq!(node.is_some(), known.is_some());
                prop_assert!(node.zip(known).is_none_or(|(one, two)| Arc::ptr_eq(&one, two)));
            }
        }
    }
}
