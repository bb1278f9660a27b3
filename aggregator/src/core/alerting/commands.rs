//! Commands and queries of API clients about alerts.

use plimsoll_schemas::alert::{Acknowledgement, AlertKey, AlertState, Silence, SilenceRow};
use plimsoll_schemas::ids::{NodeName, RuleName};
use plimsoll_schemas::rule::Severity;

use super::alert::AlertEntry;

/// Which alerts a client queries; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertsQuery {
    pub state: Option<AlertState>,
    pub rule: Option<RuleName>,
    pub node: Option<NodeName>,
    pub severity: Option<Severity>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertCommand {
    Silence(Silence),
    /// End the silence of this number.
    EndSilence(u64),
    Acknowledge(AlertKey, Acknowledgement),
    /// End an alert's acknowledgement.
    Unacknowledge(AlertKey),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// A silence holds, or will.
    Silence(SilenceRow),
    Acknowledged(Acknowledgement),
    Ended,
}

impl AlertsQuery {
    /// `severity` is that of the alert's rule, which is looked up last.
    pub(super) fn matches(
        &self,
        key: &AlertKey,
        entry: &AlertEntry,
        severity: impl FnOnce() -> Severity,
    ) -> bool {
        self.state.is_none_or(|state| state == entry.state)
            && self.rule.as_ref().is_none_or(|rule| *rule == key.rule)
            && self.node.as_ref().is_none_or(|node| node.as_str() == key.scope.node())
            && self.severity.is_none_or(|wanted| wanted == severity())
    }
}
