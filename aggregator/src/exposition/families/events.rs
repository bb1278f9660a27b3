//! DogStatsD events and service checks.

use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Value, Writer};

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Events and service checks of the node, by source and alert type";
    writer.family(Family::counter("plimsoll_node_events_total", help), |rows| {
        for (labels, node) in page.nodes() {
            for ((source, alert_type), n) in &node.node.events {
                let of = [("source", source.as_str()), ("alert_type", alert_type.as_str())];
                rows.add(&[labels, &rows.labels(of)], Value::Count(*n));
            }
        }
    });
    let help = "Latest status of a service check: 0 ok, 1 warning, 2 critical, 3 unknown";
    writer.family(Family::gauge("plimsoll_service_check_status", help), |rows| {
        for (labels, node) in page.up_nodes() {
            for (check, status) in node.node.check_statuses() {
                let check = rows.labels([("check", check.as_str())]);
                rows.add(&[labels, &check], Value::Count(status.check_status().into()));
            }
        }
    });
}
