//! The samples of one node as sets: sent by its job, merged, and lost by reason.
//!
//! Counts alone decide. What was merged beyond what was sent is a duplicate; what was sent, is
//! not merged, and is named by no ledger is unexplained; a ledger whose own figures do not add
//! up is unexplained too, by as much as they are off.
//!
//! DESIGN D1.

use std::collections::BTreeMap;
use std::fmt::Write;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::own_operations::{OWN_LOST, PUBLISH};
use plimsoll_schemas::summary::Summary;
use serde::Serialize;

use crate::live::expectation::Look;
use crate::live::ledger::Raw;

/// Where the samples of one node ended up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub drill: String,
    pub node: String,
    /// Samples that its job sent, by the job's own file.
    pub sent: u64,
    /// Samples that the node timed itself: what its ledger has beyond those of its job.
    pub own: u64,
    pub merged: u64,
    /// Samples lost, by the reason that the ledger names.
    pub lost: BTreeMap<String, u64>,
    /// Samples that are still held.
    pub held: u64,
    /// Samples that the ledger reports as missing, without a reason.
    pub unaccounted: u64,
    /// Samples merged more often than they were sent.
    pub duplicated: u64,
    /// Samples that nothing explains.
    pub unexplained: u64,
}

/// The accounts of all nodes.
pub fn accounts(drill: &str, raw: &Raw, summary: &Summary) -> Vec<Account> {
    raw.iter().map(|(node, samples)| account(drill, node, samples, summary)).collect()
}

fn account(drill: &str, node: &NodeName, samples: &[(String, u64)], summary: &Summary) -> Account {
    let ledger = summary.nodes.iter().find(|row| row.node == node.as_str());
    let ledger = ledger.map(|row| row.ledger.clone()).unwrap_or_default();
    // Operation: sent and merged.
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (operation, _) in samples {
        counts.entry(operation).or_default().0 += 1;
    }
    let scope = Scope::Node(node.clone());
    for row in summary.operations.iter().filter(|row| row.scope == scope) {
        counts.entry(&row.operation).or_default().1 += row.total.count;
    }
    let (_, own_merged) = counts.remove(PUBLISH).unwrap_or_default();
    let merged: u64 = counts.values().map(|(_, merged)| merged).sum();
    let surplus = |(sent, merged): &(u64, u64)| merged.saturating_sub(*sent);
    let missing = |(sent, merged): &(u64, u64)| sent.saturating_sub(*merged);
    let sent = samples.len() as u64;
    let named: u64 = ledger.lost.values().sum();
    let unaccounted = ledger.unaccounted + ledger.unread;
    let explained = named + unaccounted + ledger.held;
    let missing: u64 = counts.values().map(missing).sum();
    // The job's samples are missing for no reason of the system's own.
    let lost_own = ledger.lost.get(OWN_LOST).copied().unwrap_or(0);
    let unnamed = missing.saturating_sub(explained - lost_own);
    let unbalanced = ledger.recorded.abs_diff(ledger.merged + explained);
    let unmerged = ledger.merged.abs_diff(merged + own_merged);

    Account {
        drill: drill.to_owned(),
        node: node.to_string(),
        sent,
        own: (ledger.recorded + unnamed).saturating_sub(sent),
        merged: ledger.merged,
        held: ledger.held,
        unaccounted,
        duplicated: counts.values().map(surplus).sum(),
        unexplained: unnamed + unbalanced + unmerged,
        lost: ledger.lost,
    }
}

/// What a fault may cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Reasons for which samples may be lost; where there is one, the node's own may be too.
    pub reasons: &'static [&'static str],
    /// Samples of one node that may be lost without a named reason.
    pub unexplained_max: u64,
}

impl Terms {
    /// Nothing at all may be lost.
    pub const NOTHING: Self = Self { reasons: &[], unexplained_max: 0 };
    /// Samples of an interval that a killed node had not closed.
    pub const CRASH: Self = Self { reasons: &["crash"], unexplained_max: 0 };

    fn allow(self, reason: &str) -> bool {
        self.reasons.contains(&reason) || !self.reasons.is_empty() && reason == OWN_LOST
    }

    /// What it is in words.
    pub fn words(&self) -> String {
        match self {
            Self { reasons: [], unexplained_max: 0 } => "none lost".to_owned(),
            Self { reasons, unexplained_max: 0 } => format!("or lost for {}", reasons.join(", ")),
            Self { reasons, unexplained_max } => {
                let reasons = reasons.join(", ");
                format!("or lost for {reasons}, at most {unexplained_max} of a node unexplained")
            }
        }
    }
}

/// Whether every sample is merged once, or lost on these terms.
pub fn judge(accounts: &[Account], terms: Terms) -> Look {
    let faults: Vec<String> = accounts.iter().filter_map(|account| fault(account, terms)).collect();
    let sum = |part: fn(&Account) -> u64| accounts.iter().map(part).sum::<u64>();
    let lost = sum(|account| account.lost.values().sum());
    let all = format!(
        "{} sent and {} of the nodes' own: {} merged, {lost} lost, none twice, {} unexplained",
        sum(|account| account.sent),
        sum(|account| account.own),
        sum(|account| account.merged),
        sum(|account| account.unexplained),
    );
    let proven = accounts.iter().all(|account| account.sent > 0) && !accounts.is_empty();
    Look::new(faults.is_empty() && proven, if faults.is_empty() { all } else { faults.join("; ") })
}

fn fault(account: &Account, terms: Terms) -> Option<String> {
    let Account { node, lost, held, unaccounted, duplicated, unexplained, .. } = account;
    let strange: BTreeMap<_, _> =
        lost.iter().filter(|(reason, count)| **count > 0 && !terms.allow(reason)).collect();
    let sound = strange.is_empty()
        && (*held, *unaccounted, *duplicated) == (0, 0, 0)
        && *unexplained <= terms.unexplained_max;
    (!sound).then(|| {
        format!(
            "{node}: {duplicated} duplicated, {unexplained} unexplained, {unaccounted} \
             unaccounted, {held} held, lost {strange:?}"
        )
    })
}

/// The accounts for people; nothing when there are none.
pub fn table(accounts: &[Account]) -> String {
    if accounts.is_empty() {
        return String::new();
    }

    let mut text = format!(
        "\n{:<18} {:<8} {:>8} {:>6} {:>8} {:>6} {:>6} {:>11} {:>10} {:>11}  LOST BY REASON\n",
        "FAULT",
        "NODE",
        "SENT",
        "OWN",
        "MERGED",
        "LOST",
        "HELD",
        "UNACCOUNTED",
        "DUPLICATED",
        "UNEXPLAINED",
    );

    for account in accounts {
        let Account { drill, node, sent, own, merged, lost, held, .. } = account;
        let Account { unaccounted, duplicated, unexplained, .. } = account;
        let reasons = lost.iter().map(|(reason, count)| format!("{reason} {count}"));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        let lost: u64 = lost.values().sum();

        // Writing to a string cannot fail.
        let _written = writeln!(
            text,
            "{drill:<18} {node:<8} {sent:>8} {own:>6} {merged:>8} {lost:>6} {held:>6} \
             {unaccounted:>11} {duplicated:>10} {unexplained:>11}  {reasons}"
        );
    }

    text + "\n"
}

#[cfg(test)]
mod tests;
