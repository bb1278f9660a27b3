//! The log of changes that operators make: silences and acknowledgements, and by whom.

use crate::core::alerting::{AlertCommand, CommandResult};
use plimsoll_schemas::alert::{Acknowledgement, Silence};

pub(super) fn log(order: &AlertCommand, done: &CommandResult) {
    match order {
        AlertCommand::Silence(Silence { matches, by, comment, until, .. }) => {
            let id = if let CommandResult::Silence(row) = done { row.id } else { 0 };
            let rule = matches.rule.clone().map(String::from);
            let node = matches.node.clone().map(String::from);
            let operation = matches.operation.clone().map(String::from);
            let severity = matches.severity.map(plimsoll_schemas::rule::Severity::as_str);
            tracing::info!(
                id, rule, node, operation, severity, by, comment, %until,
                "alerts silenced"
            );
        }
        AlertCommand::EndSilence(id) => tracing::info!(id, "silence ended"),
        AlertCommand::Acknowledge(key, Acknowledgement { by, comment, until }) => {
            let alert = key.to_string();
            tracing::info!(alert, by, comment, %until, "alert acknowledged");
        }
        AlertCommand::Unacknowledge(key) => {
            tracing::info!(alert = key.to_string(), "acknowledgement removed");
        }
    }
}
