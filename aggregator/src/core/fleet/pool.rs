//! Pools: windows that hold samples of many nodes, those of the fleet's operations and of every
//! roll-up's groups. Each is stored ring by ring, since few rings change within a second. This file
//! names them and tracks which of them have changed; it makes no records.

use std::fmt;
use std::sync::Arc;

use plimsoll_schemas::ids::{Operation, RuleName};

use super::operations::Operations;
use super::rollup::{Group, Rollups};
use super::window::Windows;

/// Whose samples a pool holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// All nodes', of one operation.
    Fleet(Operation),
    /// All nodes', that a budget with this name selects.
    Selected(RuleName),
    /// A group's of the roll-up with this name.
    Group(String, Group),
}

/// Windows that hold samples of many nodes, at one point in time.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    pub operations: Arc<Operations>,
    pub rollups: Rollups,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet(operation) => write!(f, "fleet {operation}"),
            Self::Selected(budget) => write!(f, "selected {budget}"),
            Self::Group(rollup, Group { operation, values }) => {
                let values = serde_json::to_string(values).map_err(|_| fmt::Error)?;
                write!(f, "rollup {rollup} {operation} {values}")
            }
        }
    }
}

impl Pool {
    /// The name of its operation, or of its budget.
    pub fn operation_name(&self) -> String {
        match self {
            Self::Fleet(operation) => operation.to_string(),
            Self::Group(_, group) => group.operation.to_string(),
            Self::Selected(budget) => budget.to_string(),
        }
    }

    /// The pool of that name, and what follows the name.
    pub fn named(name: &str) -> Option<(Self, &str)> {
        let (kind, rest) = name.split_once(' ')?;

        if kind != "rollup" {
            let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let pool = match kind {
                "fleet" => Self::Fleet(Operation::new(name).ok()?),
                "selected" => Self::Selected(RuleName::new(name).ok()?),
                _ => return None,
            };
            return Some((pool, rest));
        }

        let (rollup, rest) = rest.split_once(' ')?;
        let (operation, rest) = rest.split_once(' ')?;
        // Values may contain anything, but only a ring's number follows them.
        let (values, rest) = rest.split_at(rest.rfind(']')? + 1);
        let operation = Operation::new(operation).ok()?;
        let group = Group { operation, values: serde_json::from_str(values).ok()? };
        Some((Self::Group(rollup.to_owned(), group), rest.strip_prefix(' ').unwrap_or(rest)))
    }
}

impl Pools {
    pub fn get(&self, pool: &Pool) -> Option<&Windows> {
        match pool {
            Pool::Fleet(operation) => self.operations.get(operation),
            Pool::Selected(budget) => self.operations.get_selected(budget),
            Pool::Group(rollup, group) => {
                let named = |name: &str| self.rollups.iter().find(|r| r.definition.name == name);
                named(rollup)?.group(group)
            }
        }
    }

    /// What is not as it was `before`, of which a copy is still held, or is gone: pools, and
    /// which of their rings.
    pub fn changed_since(&self, before: Option<&Self>) -> Vec<(Pool, Vec<usize>)> {
        let mut changed = Vec::new();
        for (pool, windows) in iter(self) {
            let former = before.and_then(|before| before.get(&pool));
            let rings = windows.rings_changed_since(former);
            if !rings.is_empty() || former.is_none_or(|former| !windows.has_head_of(former)) {
                changed.push((pool, rings));
            }
        }
        let former = before.into_iter().flat_map(iter);
        let gone = former.filter(|(pool, _)| self.get(pool).is_none());
        changed.extend(gone.map(|(pool, windows)| (pool, (0..windows.rings()).collect())));
        changed
    }
}

fn iter(pools: &Pools) -> impl Iterator<Item = (Pool, &Windows)> {
    let fleet = pools.operations.iter();
    let fleet = fleet.map(|(operation, windows)| (Pool::Fleet(operation.clone()), windows));
    let selected = pools.operations.selected();
    let selected = selected.map(|(budget, windows)| (Pool::Selected(budget.clone()), windows));
    let groups = pools.rollups.iter().flat_map(|rollup| {
        let name = &rollup.definition.name;
        rollup.groups().map(|(group, windows)| (Pool::Group(name.clone(), group.clone()), windows))
    });
    fleet.chain(selected).chain(groups)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_returns_its_pool_for_all_values(
            values in prop::collection::vec(any::<String>(), 1..4), ring in 0..10_usize,
        ) {
            let operation = Operation::new("fetch").unwrap();
            let values = values.into_iter().map(String::into_boxed_str).collect();
            let group = Group { operation: operation.clone(), values };
            let selected = Pool::Selected(RuleName::new("p99_of-fetch").unwrap());
            for pool in [Pool::Group("by".to_owned(), group), Pool::Fleet(operation), selected] {
                let name = pool.to_string();
                prop_assert_eq!(Pool::named(&name), Some((pool.clone(), "")));
                let of_ring = format!("{name} {ring}");
                prop_assert_eq!(Pool::named(&of_ring), Some((pool, &*ring.to_string())));
            }
        }
    }
}
