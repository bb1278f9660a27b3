//! DogStatsD events and service checks.
//!
//! DESIGN A41.

use plimsoll_schemas::wire::AlertType;

use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Value, Writer};

/// The statuses of service checks: ok, warning, critical, unknown.
const STATUSES: [AlertType; 4] =
    [AlertType::Success, AlertType::Warning, AlertType::Error, AlertType::Info];

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Events and service checks of the node, by source and alert type";
    writer.family(Family::counter("plimsoll_node_events_total", help), |rows| {
        for (labels, node) in page.nodes() {
            for ((source, alert_type), n) in node.events.iter() {
                let of = [("source", source.as_str()), ("alert_type", alert_type.as_str())];
                rows.add(&[labels, &rows.labels(of)], Value::Count(*n));
            }
        }
    });

    let help = "1 for the latest status of a service check, 0 for the others";
    writer.family(Family::gauge("plimsoll_service_check_status", help), |rows| {
        let statuses =
            STATUSES.map(|status| (rows.labels([("status", status.check_status())]), status));
        for (labels, node) in page.up_nodes() {
            for (check, latest) in node.check_statuses() {
                let (name, tags) = check.split_once("|#").unwrap_or((&check, ""));
                let tags = (!tags.is_empty()).then_some(("tags", tags));
                let check = rows.labels([("check", name)].into_iter().chain(tags));
                for (label, status) in &statuses {
                    rows.add(&[labels, &check, label], (*status == latest).into());
                }
            }
        }
    });
}
