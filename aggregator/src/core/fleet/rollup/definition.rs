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
    /// Its name; no two have the same.
    pub name: String,
    /// Operations whose samples it takes; default all.
    pub operations: Vec<String>,
    /// Labels of the series.
    pub by: Vec<String>,
    /// Labels of the node.
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
    /// Checks all roll-ups of a configuration.
    ///
    /// # Errors
    /// On the first one that cannot be.
    pub fn check_all(definitions: &[Self]) -> Result<(), DefinitionError> {
        for (place, definition) in definitions.iter().enumerate() {
            let twice = definitions[..place].iter().any(|other| other.name == definition.name);
            let problem = match () {
                () if place >= ROLLUPS_MAX => {
                    Some(format!("{} roll-ups, more than {ROLLUPS_MAX}", definitions.len()))
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
        let labels = || self.by.iter().chain(&self.nodes_by);
        if !(1..=ROLLUP_LABELS_MAX).contains(&labels().count()) {
            return Some(format!("by and nodes_by must name 1 to {ROLLUP_LABELS_MAX} labels"));
        }
        if let Some(label) = labels().find(|label| RESERVED.contains(&label.as_str())) {
            return Some(format!("{label:?} is a label of every row; choose another one"));
        }
        let names = labels().map(|label| (label.as_str(), ""));
        Labels::new(names).err().map(|error| format!("by or nodes_by: {error}"))
    }

    /// Whether it takes samples of an operation.
    #[must_use]
    pub fn takes(&self, operation: &Operation) -> bool {
        self.operations.is_empty() || self.operations.iter().any(|name| name == operation.as_str())
    }

    /// The labels in the order of a group's values.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.by.iter().chain(&self.nodes_by).map(String::as_str)
    }

    pub(super) fn values(&self, of_series: &Labels, of_node: &Labels) -> Vec<Box<str>> {
        let by = self.by.iter().map(|label| of_series.get(label));
        let nodes_by = self.nodes_by.iter().map(|label| of_node.get(label));
        by.chain(nodes_by).map(|value| value.unwrap_or_default().into()).collect()
    }
}
