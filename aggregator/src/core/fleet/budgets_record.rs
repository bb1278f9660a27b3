//! What is left of error budgets, in a form of its own: of each, how many samples were taken and
//! how many were over its limit, by slot.
//!
//! A checkpoint holds all of this too, in pools. This is the copy for a program that cannot read
//! these, or a file that is damaged. It is JSON. Fields are only added, each with a default, and a
//! reader ignores those that it does not define. Only a change of a field's meaning raises the
//! version.
//!
//! DESIGN A166.

use plimsoll_schemas::budget::{Budget, Selector};
use plimsoll_schemas::ids::{Labels, MeshName, Operation, RuleName};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::operations::Operations;
use super::window::CarriedSlot;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetsRecord {
    pub version: u16,
    pub mesh: MeshName,
    /// When it was taken, in nanoseconds since 1970.
    #[serde(rename = "at_ns")]
    pub at: Wall,
    #[serde(default)]
    pub budgets: Vec<SpentBudget>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpentBudget {
    pub budget: RuleName,
    pub operation: Operation,
    pub limit_ns: u64,
    #[serde(default)]
    pub labels: Labels,
    #[serde(default)]
    pub node_labels: Labels,
    #[serde(default)]
    pub slots: Vec<CarriedSlot>,
}

impl BudgetsRecord {
    /// The version that this program writes and reads.
    pub const VERSION: u16 = 1;

    /// The error budgets among these budgets, of samples in these operations.
    pub fn of(mesh: MeshName, at: Wall, budgets: &[Budget], operations: &Operations) -> Self {
        let spent = |budget: &Budget| {
            let slots = operations.judged(budget)?.spent_slots(at, budget.limit_ns);
            let Selector { series, nodes } = budget.selector.clone();

            Some(SpentBudget {
                budget: budget.name.clone(),
                operation: budget.operation.clone(),
                limit_ns: budget.limit_ns,
                labels: series,
                node_labels: nodes,
                slots,
            })
        };

        let budgets = budgets.iter().filter(|budget| budget.objective.is_some());
        Self { version: Self::VERSION, mesh, at, budgets: budgets.filter_map(spent).collect() }
    }
}

impl SpentBudget {
    /// Whether it is of this budget, which has judged the same samples by the same limit.
    pub fn is_of(&self, budget: &Budget) -> bool {
        let Selector { series, nodes } = &budget.selector;
        budget.objective.is_some()
            && (&budget.name, &budget.operation) == (&self.budget, &self.operation)
            && budget.limit_ns == self.limit_ns
            && (series, nodes) == (&self.labels, &self.node_labels)
    }
}
