//! Shares of nodes in the fleet's table of operations: one node cannot take all of it. A node that
//! brings a new operation while the table is full gets the place of another node's, if that one
//! alone brings more operations than the node does. What several nodes bring belongs to none.
//!
//! Nothing is kept while the table has room, and nothing of it is stored: who brings an operation
//! shows again with its next samples.
//!
//! DESIGN A150.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{NodeName, Operation};

/// Who brings the operations of a table.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The only node that brings an operation; `None` of one that several bring.
    by_operation: BTreeMap<Operation, Option<NodeName>>,
    /// Operations that a node alone brings.
    by_node: BTreeMap<NodeName, usize>,
}

impl Shares {
    /// A node brings an operation that has a place in the table.
    pub(super) fn on_brought(&mut self, node: &NodeName, operation: &Operation) {
        match self.by_operation.get_mut(operation) {
            None => {
                self.by_operation.insert(operation.clone(), Some(node.clone()));
                *self.by_node.entry(node.clone()).or_default() += 1;
            }
            Some(of) if of.as_ref().is_some_and(|of| of != node) => {
                let before = of.take();
                self.release(before);
            }
            Some(_) => {}
        }
    }

    /// An operation has left the table.
    pub(super) fn on_evicted(&mut self, operation: &Operation) {
        let before = self.by_operation.remove(operation).flatten();
        self.release(before);
    }

    /// The table has room: nothing is kept.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The operations of the node with the greatest share, if it is greater than this node's would
    /// be with one more.
    pub(super) fn greatest_beside(&self, node: &NodeName) -> impl Iterator<Item = &Operation> {
        let own = self.by_node.get(node).copied().unwrap_or_default();
        let greatest = self.by_node.iter().max_by_key(|(_, operations)| **operations);
        let greatest = greatest.filter(|(_, operations)| **operations > own + 1);
        greatest.into_iter().flat_map(|(greatest, _)| {
            let of = self.by_operation.iter().filter(move |(_, of)| of.as_ref() == Some(greatest));
            of.map(|(operation, _)| operation)
        })
    }

    fn release(&mut self, node: Option<NodeName>) {
        let Some(node) = node else { return };
        if let Some(operations) = self.by_node.get_mut(&node) {
            *operations -= 1;
            if *operations == 0 {
                self.by_node.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_are_those_of_a_model_that_counts_each_time(
            steps in prop::collection::vec((0..4_u8, 0..9_u8, any::<bool>()), 0..80),
        ) {
            let (mut shares, mut model) = (Shares::default(), BTreeMap::<u8, Vec<u8>>::new());
            let node = |n: u8| NodeName::new(format!("n{n}")).unwrap();
            let operation = |n: u8| Operation::new(format!("o{n}")).unwrap();
            for (from, of, is_brought) in steps {
                if is_brought {
                    shares.on_brought(&node(from), &operation(of));
                    model.entry(of).or_default().push(from);
                } else {
                    shares.on_evicted(&operation(of));
                    model.remove(&of);
                }
                let alone = |n: u8| {
                    let of_one = |from: &&Vec<u8>| from.iter().all(|other| *other == n);
                    model.values().filter(of_one).count()
                };
                let greatest = (0..4).map(alone).max().unwrap();
                for n in 0..4 {
                    let found = shares.greatest_beside(&node(n)).count();
                    let expected = if greatest > alone(n) + 1 { greatest } else { 0 };
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
