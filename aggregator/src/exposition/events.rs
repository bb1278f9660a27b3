//! The families about events and service checks.

use super::families::Page;
use super::writer::{Family, Value, Writer};

impl Page<'_> {
    pub(super) fn events(&self, writer: &mut Writer) {
        let help = "Events and service checks merged, by how bad they were";
        writer.family(Family::counter("plimsoll_events_total", help), |rows| {
            for (labels, node) in self.nodes() {
                for ((source, alert_type), n) in &node.node.events {
                    let kind = rows
                        .labels([("source", source.as_str()), ("alert_type", alert_type.as_str())]);
                    rows.add(&[labels, &kind], Value::Count(*n));
                }
            }
        });
        let help = "Latest status of a service check: 0 ok, 1 warning, 2 critical, 3 unknown";
        writer.family(Family::gauge("plimsoll_service_check_status", help), |rows| {
            for (labels, node) in self.nodes().filter(|(_, node)| node.speaks) {
                for (check, status) in node.node.check_statuses() {
                    let check = rows.labels([("check", check.as_str())]);
                    rows.add(&[labels, &check], Value::Count(status.check_status().into()));
                }
            }
        });
    }
}
