//! Has done what people want done about alerts, and writes down who wanted it.

use plimsoll_schemas::alert::{Acknowledgement, Silence};

use super::Driver;
use crate::core::alerting::CommandError;
use crate::core::alerting::{AlertCommand, CommandResult};

impl Driver {
    pub(super) fn on_order(&mut self, order: AlertCommand) -> Result<CommandResult, CommandError> {
        let told = order.clone();
        let done = self.core.on_order(self.clock.now().wall, order)?;
        log(&told, &done);
        // The next question is to see it.
        self.looks.forget();
        Ok(done)
    }
}

fn log(order: &AlertCommand, done: &CommandResult) {
    match order {
        AlertCommand::Silence(Silence { matches, by, comment, until, .. }) => {
            let id = if let CommandResult::Silence(row) = done { row.id } else { 0 };
            let matches = serde_json::to_string(matches).unwrap_or_default();
            tracing::info!(id, matches, by, comment, %until, "alerts silenced");
        }
        AlertCommand::EndSilence(id) => tracing::info!(id, "silence ended"),
        AlertCommand::Acknowledge(key, Acknowledgement { by, comment, until }) => {
            tracing::info!(%key, by, comment, %until, "alert acknowledged");
        }
        AlertCommand::Unacknowledge(key) => tracing::info!(%key, "alert not acknowledged any more"),
    }
}
