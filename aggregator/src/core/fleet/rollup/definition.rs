//! What a roll-up is: which operations, by which labels. Checked once, as the configuration is
//! read.

use crate::limits::{ROLLUP_LABELS_MAX, ROLLUPS_MAX};
use plimsoll_schemas::ids::{Labels, Operation, RuleName};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Labels that every row of a roll-up has of its own.
const RESERVED: [&str; 6] = ["scope", "rollup", "operation", "window", "quantile", "le"];

/// One `[[rollup]]` of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Definition {
    pub name: String,
    pub operations: Vec<String>,
    pub by: Vec<String>,
    pub either_by: Vec<String>,
    pub nodes_by: Vec<String>,
}

/// Why roll-ups were refused; names the roll-up, the key and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("rollup {rollup:?}: {problem}")]
pub struct DefinitionError {
    /// The roll-up at fault.
    pub rollup: String,
    /// The key at fault and what it should be.
    pub problem: String,
}

impl Definition {
    /// The roll-up of one label, of the series or else of the node, under the label's name.
    pub fn of_label(label: &str) -> Self {
        let either_by = vec![label.to_owned()];
        Self { name: label.to_owned(), either_by, ..Self::default() }
    }

    /// Checks all roll-ups of a configuration.
    pub fn check_all(definitions: &[Self]) -> Result<(), DefinitionError> {
        for (place, definition) in definitions.iter().enumerate() {
            let twice = definitions[..place].iter().any(|other| other.name == definition.name);
            let problem = match () {
                () if place >= ROLLUPS_MAX => {
                    let all = definitions.len();
                    Some(format!("{all} roll-ups with rollup_labels, more than {ROLLUPS_MAX}"))
                }
                () if twice => Some("name is given twice; name each roll-up once".to_owned()),
                () => definition.problem(),
            };

            if let Some(problem) = problem {
                return Err(DefinitionError { rollup: definition.name.clone(), problem });
            }
        }
        Ok(())
    }

    fn problem(&self) -> Option<String> {
        if let Err(error) = RuleName::new(&self.name) {
            return Some(format!("name: {error}"));
        }
        if let Some(error) = self.operations.iter().find_map(|name| Operation::check(name).err()) {
            return Some(format!("operations: {error}"));
        }

        if !(1..=ROLLUP_LABELS_MAX).contains(&self.labels().count()) {
            let keys = "by, either_by and nodes_by";
            return Some(format!("{keys} must name 1 to {ROLLUP_LABELS_MAX} labels"));
        }

        if let Some(label) = self.labels().find(|label| RESERVED.contains(label)) {
            return Some(format!("{label:?} is a label of every row; choose another label"));
        }
        let names = self.labels().map(|label| (label, ""));
        Labels::new(names).err().map(|error| format!("by, either_by or nodes_by: {error}"))
    }

    pub fn takes(&self, operation: &Operation) -> bool {
        self.operations.is_empty() || self.operations.iter().any(|name| name == operation.as_str())
    }

    /// The labels in the order of a group's values.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.by.iter().chain(&self.either_by).chain(&self.nodes_by).map(String::as_str)
    }

    /// The values of the group that samples belong to; `None` if they belong to none.
    pub(super) fn values(&self, of_series: &Labels, of_node: &Labels) -> Option<Vec<Box<str>>> {
        let either = |label: &String| given(of_series, label).or_else(|| given(of_node, label));
        if !self.either_by.is_empty() && self.either_by.iter().all(|name| either(name).is_none()) {
            return None;
        }
        let by = self.by.iter().map(|label| of_series.get(label));
        let either_by = self.either_by.iter().map(either);
        let nodes_by = self.nodes_by.iter().map(|label| of_node.get(label));
        let values = by.chain(either_by).chain(nodes_by);
        Some(values.map(|value| value.unwrap_or_default().into()).collect())
    }
}

/// A label's value; an empty one is none.
fn given<'l>(labels: &'l Labels, label: &str) -> Option<&'l str> {
    labels.get(label).filter(|value| !value.is_empty())
}
