//! Alerts of the shipped threshold rules: their keys, and the notifications that are awaited of
//! them, each judged by its own evidence.

use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, Scope};
use plimsoll_schemas::rule::file::shipped;

use super::expectation::{Drill, Expectation, Look, Span};
use super::mesh::Mesh;
use super::notifications::Arrival;

/// The alert of a shipped threshold rule.
///
/// # Panics
/// When no such rule is shipped, which the tests of each drill exclude.
pub fn shipped_alert(rule: &str, scope: Scope) -> AlertKey {
    let thresholds = shipped().thresholds;
    let mut of = thresholds.into_iter().filter(|threshold| threshold.name.as_str() == rule);
    let threshold = of.next().expect("only shipped rules are named, which a test shows");
    AlertKey { operation: threshold.metric.operation(), rule: threshold.name, scope }
}

/// Settings that disable a rule if the drill is to miss an expectation; otherwise none.
pub fn planted_miss(drill: &mut Drill, rule: &str) -> String {
    match drill.take_planted_miss() {
        true => format!("[[rule]]\nname = \"{rule}\"\nenabled = false\n"),
        false => String::new(),
    }
}

/// Waits for a notification of this state on the bus whose evidence supports it.
pub async fn expect_value(
    drill: &mut Drill,
    mesh: &mut Mesh,
    key: &AlertKey,
    state: AlertState,
    span: Span,
) -> bool {
    let notifications = &mut mesh.notifications;
    let look = async || match notifications.find(span.since, key, state) {
        Some(arrival) => judge_arrival(arrival),
        None => Look::new(false, "no such notification"),
    };
    drill.expect(notification(key, state, span), span, look).await
}

/// Waits for the notification that an alert is over; one that never fired cannot clear.
pub async fn expect_cleared(
    drill: &mut Drill,
    mesh: &mut Mesh,
    (key, fired): (&AlertKey, bool),
    span: Span,
) {
    if fired {
        expect_value(drill, mesh, key, AlertState::Resolved, span).await;
    } else {
        drill.skip(notification(key, AlertState::Resolved, span), "it never fired");
    }
}

fn notification(key: &AlertKey, state: AlertState, span: Span) -> Expectation {
    let outcome = match state {
        AlertState::Firing => "beyond the limit",
        _ => "within the limit",
    };
    Expectation::new(
        format!("{} {} ({})", key.rule, state.as_str(), key.scope),
        format!("a notification within {} s, {} {outcome}", span.within.as_secs(), key.operation),
    )
}

fn judge_arrival(Arrival { at, notification }: &Arrival) -> Look {
    let Evidence::Value(evidence) = &notification.evidence else {
        return Look { at: Some(*at), ..Look::new(false, "no evidence of a value") };
    };
    let beyond = evidence.comparison.holds(evidence.value, evidence.threshold);
    let met = beyond == (notification.state == AlertState::Firing);
    let seen = format!(
        "{}, {} {}, limit {}",
        notification.state.as_str(),
        evidence.metric,
        evidence.value,
        evidence.threshold,
    );
    Look { at: Some(*at), ..Look::new(met, seen) }
}
