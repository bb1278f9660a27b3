//! The families about events and service checks.

use super::FamilyType::{Counter, Gauge};
use super::{Exposition, float};
use crate::core::view::View;

pub(super) fn events(exposition: &mut Exposition, view: &View) {
    let counted = view.nodes.iter().flat_map(|node| {
        node.events.iter().map(|((source, alert_type), n)| {
            let labels = [
                ("node", node.node.as_str()),
                ("source", source.as_str()),
                ("alert_type", alert_type.as_str()),
            ];
            (labels, float(*n))
        })
    });
    let help = "Events and service checks merged, by how bad they were";
    exposition.family("plimsoll_events_total", Counter, help, counted);
    let statuses = view.nodes.iter().flat_map(|node| {
        node.checks.iter().map(|(check, status)| {
            let labels = [("node", node.node.as_str()), ("check", check.as_str())];
            (labels, f64::from(status.check_status()))
        })
    });
    let help = "Latest status of a service check: 0 ok, 1 warning, 2 critical, 3 unknown";
    exposition.family("plimsoll_service_check_status", Gauge, help, statuses);
}
