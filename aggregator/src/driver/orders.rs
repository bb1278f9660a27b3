//! The log of changes that operators make: silences and acknowledgements, and by whom.

use crate::core::standing::{Done, Order};
use plimsoll_schemas::alert::{Acknowledgement, Silence};

pub(super) fn log(order: &Order, done: &Done) {
    match order {
        Order::Silence(Silence { matches, by, comment, until, .. }) => {
            let id = if let Done::Silence(row) = done { row.id } else { 0 };
            let rule = matches.rule.clone().map(String::from);
            let node = matches.node.clone().map(String::from);
            let operation = matches.operation.clone().map(String::from);
            let severity = matches.severity.map(plimsoll_schemas::rule::Severity::as_str);
            tracing::info!(
                id, rule, node, operation, severity, by, comment, %until,
                "alerts silenced"
            );
        }
        Order::EndSilence(id) => tracing::info!(id, "silence ended"),
        Order::Acknowledge(key, Acknowledgement { by, comment, until }) => {
            let alert = key.to_string();
            tracing::info!(alert, by, comment, %until, "alert acknowledged");
        }
        Order::Unacknowledge(key) => {
            tracing::info!(alert = key.to_string(), "acknowledgement removed");
        }
    }
}
