//! Shares of nodes in a table of names: one node cannot take all of it. A node that brings a new
//! name while the table is full gets the place of another node's, if that one alone brings more
//! names than the node does. What several nodes bring belongs to none.
//!
//! Nothing of it is stored: who brings a name shows again with its next samples.
//!
//! DESIGN A150, A175.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::NodeName;

/// Who brings the entries of a table.
#[derive(Debug)]
pub(super) struct Shares<K> {
    /// The only node that brings an entry; `None` of one that several bring.
    by_key: BTreeMap<K, Option<NodeName>>,
    /// Entries that a node alone brings.
    by_node: BTreeMap<NodeName, usize>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_node: BTreeMap::new() }
    }
}

impl<K: Clone + Ord> Shares<K> {
    /// A node brings an entry that has a place in the table.
    pub(super) fn on_brought(&mut self, node: &NodeName, key: &K) {
        match self.by_key.get_mut(key) {
            None => {
                self.by_key.insert(key.clone(), Some(node.clone()));
                *self.by_node.entry(node.clone()).or_default() += 1;
            }
            Some(of) if of.as_ref().is_some_and(|of| of != node) => {
                let before = of.take();
                self.release(before);
            }
            Some(_) => {}
        }
    }

    /// An entry has left the table.
    pub(super) fn on_evicted(&mut self, key: &K) {
        let before = self.by_key.remove(key).flatten();
        self.release(before);
    }

    /// The table has room: nothing is kept.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The entries of the node with the largest share, if it is larger than this node's would be
    /// with one more.
    pub(super) fn largest_beside(&self, node: &NodeName) -> impl Iterator<Item = &K> {
        let own = self.by_node.get(node).copied().unwrap_or_default();
        let largest = self.by_node.iter().max_by_key(|(_, entries)| **entries);
        // With just one entry more the two would evict each other in turns.
        let largest = largest.filter(|(_, entries)| **entries > own + 1);
        largest.into_iter().flat_map(|(largest, _)| {
            let of = self.by_key.iter().filter(move |(_, of)| of.as_ref() == Some(largest));
            of.map(|(key, _)| key)
        })
    }

    fn release(&mut self, node: Option<NodeName>) {
        let Some(node) = node else { return };
        if let Some(entries) = self.by_node.get_mut(&node) {
            *entries -= 1;
            if *entries == 0 {
                self.by_node.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::Operation;
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
                let largest = (0..4).map(alone).max().unwrap();
                for n in 0..4 {
                    let found = shares.largest_beside(&node(n)).count();
                    let expected = if largest > alone(n) + 1 { largest } else { 0 };
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
