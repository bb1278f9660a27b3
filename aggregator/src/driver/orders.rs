//! The log of changes that operators make: silences, acknowledgements and runs, and by whom.

use crate::core::alerting::{AlertCommand, CommandResult};
use crate::core::runs::RunError;
use plimsoll_schemas::alert::{Acknowledgement, Silence};
use plimsoll_schemas::summary::{RunRow, RunState};

pub(super) fn log_run(done: &Result<RunRow, RunError>) {
    let Ok(RunRow { name, state, by, exit_code, .. }) = done else { return };
    match state {
        RunState::Ended => tracing::info!(run = name.as_str(), exit_code, "run stopped"),
        RunState::Running | RunState::NoEnd => {
            tracing::info!(run = name.as_str(), by, "run started");
        }
    }
}

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
