//! Commands and queries of API clients about alerts.

use plimsoll_schemas::alert::{Acknowledgement, AlertKey, AlertState, Silence, SilenceRow};
use plimsoll_schemas::ids::{NodeName, RuleName};

use super::alert::AlertEntry;

/// Which alerts a client queries; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertsQuery {
    /// Only those in this state.
    pub state: Option<AlertState>,
    /// Only those of this rule.
    pub rule: Option<RuleName>,
    /// Only those about this node.
    pub node: Option<NodeName>,
}

/// What is to be done about alerts.
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
    /// The alert is acknowledged.
    Acknowledged(Acknowledgement),
    /// What was to end has ended.
    Ended,
}

impl AlertsQuery {
    pub(super) fn matches(&self, key: &AlertKey, entry: &AlertEntry) -> bool {
        self.state.is_none_or(|state| state == entry.state)
            && self.rule.as_ref().is_none_or(|rule| *rule == key.rule)
            && self.node.as_ref().is_none_or(|node| node.as_str() == key.scope.node())
    }
}
