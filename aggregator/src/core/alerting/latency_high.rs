//! The event `latency_high`: sent to the bus each time that a budget's alert begins anew, which is
//! before any receiver is notified.

use plimsoll_schemas::alert::{AlertState, Evidence, LatencyHigh, Notification};
use plimsoll_schemas::time::{Wall, seconds};

use super::alert::Change;

/// The event that a change of an alert is, if its budget's latency has just become too high.
pub(super) fn latency_high(
    at: Wall,
    notification: &Notification,
    change: Change,
) -> Option<LatencyHigh> {
    let rested = matches!(change.from, AlertState::Inactive | AlertState::Resolved);
    let begins = rested && matches!(change.to, AlertState::Pending | AlertState::Firing);
    let Evidence::Latency(evidence) = &notification.evidence else { return None };
    begins.then(|| LatencyHigh {
        mesh: notification.mesh.clone(),
        key: notification.key.clone(),
        at_seconds: seconds(at.0),
        evidence: evidence.clone(),
    })
}
