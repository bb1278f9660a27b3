//! One evaluation of all rules, which any thread may carry out: it has a frozen fleet, so messages
//! are merged meanwhile.
//!
//! DESIGN A70.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::time::Wall;

use super::finding::{AlertFinding, Inputs};
use super::self_monitoring::SelfMonitoring;
use super::{ActiveAlerts, budgets, burn_rate, thresholds};
use crate::core::fleet::Fleet;
use crate::core::ingest::BrokerHealth;

/// As of when rules are judged.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationTime {
    pub at: Wall,
    /// By how much that lies before the present.
    pub behind: Duration,
}

impl EvaluationTime {
    pub fn present(now: Wall) -> Self {
        Self { at: now, behind: Duration::ZERO }
    }
}

/// An evaluation that is still to be carried out.
#[derive(Debug)]
pub struct Evaluation {
    pub(super) time: EvaluationTime,
    pub(super) rules: Arc<Rules>,
    pub(super) fleet: Fleet,
    pub(super) broker: BrokerHealth,
    pub(super) active: Vec<AlertKey>,
    pub(super) own: SelfMonitoring,
    /// What other rooms have found already.
    pub(in crate::core) found: Vec<AlertFinding>,
}

#[derive(Debug)]
pub struct Judged {
    pub time: EvaluationTime,
    pub rules: Arc<Rules>,
    /// The fleet as it was judged.
    pub fleet: Fleet,
    pub broker: BrokerHealth,
    /// What may move an alert.
    pub found: Vec<AlertFinding>,
    /// Of nodes with samples over a limit, how great their share is, in thousandths of what the
    /// budget allows.
    pub shares: BTreeMap<NodeName, u64>,
}

impl Evaluation {
    /// Judges every rule. With thousands of nodes that takes a tenth of a second.
    pub fn judge(self) -> Judged {
        let Self { time, rules, fleet, broker, active, own, found } = self;
        let inputs = Inputs { fleet: &fleet, broker };
        let active: ActiveAlerts<'_> = active.iter().collect();
        let (mut judged, shares) = judge(time.at, &rules, inputs, &active, &own);
        judged.extend(found);
        Judged { time, rules, fleet, broker, found: judged, shares }
    }
}

/// What may move an alert as of `at`, and the shares of samples over limits by node.
pub(super) fn judge(
    at: Wall,
    rules: &Rules,
    inputs: Inputs<'_>,
    active: &ActiveAlerts<'_>,
    own: &SelfMonitoring,
) -> (Vec<AlertFinding>, BTreeMap<NodeName, u64>) {
    let (mut found, shares) = budgets::judge_budgets(at, &rules.budgets, inputs.fleet, active);
    found.extend(thresholds::judge_thresholds(at, &rules.thresholds, inputs, own, active));
    found.extend(burn_rate::judge_burn_rates(at, rules, inputs.fleet, active));
    (found, shares)
}
