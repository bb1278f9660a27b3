//! Has done what people want done about alerts, and writes down who wanted it.

use plimsoll_schemas::alert::{Acknowledgement, Silence};

use super::Driver;
use crate::core::alerting::alerts_page::{Done, Order};
use crate::core::alerting::silences::Refused;

impl Driver {
    pub(super) fn on_order(&mut self, order: Order) -> Result<Done, Refused> {
        let told = order.clone();
        let done = self.core.on_order(self.clock.now().wall, order)?;
        log(&told, &done);
        // The next question is to see it.
        self.looks.forget();
        Ok(done)
    }
}

fn log(order: &Order, done: &Done) {
    match order {
        Order::Silence(Silence { matches, by, comment, until, .. }) => {
            let id = if let Done::Silence(row) = done { row.id } else { 0 };
            let matches = serde_json::to_string(matches).unwrap_or_default();
            tracing::info!(id, matches, by, comment, %until, "alerts silenced");
        }
        Order::EndSilence(id) => tracing::info!(id, "silence ended"),
        Order::Acknowledge(key, Acknowledgement { by, comment, until }) => {
            tracing::info!(%key, by, comment, %until, "alert acknowledged");
        }
        Order::Unacknowledge(key) => tracing::info!(%key, "alert not acknowledged any more"),
    }
}
