//! `plimsoll blame`: which rank of a job holds up the others, or why none is named.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::alert::DataStatus;
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::summary::{BlamePage, CohortRow, CohortState, StragglerRow};

use crate::targets::Targets;

const PATH: &str = "/api/v1/blame";

/// Show which rank of a job holds up the others
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll blame
  plimsoll blame --json | jq '.alerts[] | {node, class: .evidence.class}'
  plimsoll blame --json | jq '.cohorts[] | {operation, state, peers}'

Without a straggler each cohort has a line: whether it is learning, and how many ranks report. A
job is seen once it records its steps in phases.")]
pub struct BlameArgs {
    #[command(flatten)]
    at: Targets,
}

/// Shows the stragglers of each aggregator.
///
/// # Errors
/// When an aggregator does not respond.
pub async fn blame(args: &BlameArgs) -> Result<Exit> {
    args.at.show(PATH, text).await
}

fn text(page: &BlamePage) -> String {
    let lines: Vec<String> = match page {
        BlamePage { rules, .. } if rules.is_empty() => {
            vec!["no rule about stragglers is in force".to_owned()]
        }
        BlamePage { alerts, .. } if !alerts.is_empty() => alerts.iter().map(of_alert).collect(),
        BlamePage { cohorts, .. } if cohorts.is_empty() => vec![nothing_seen(page)],
        // Of several rules each judges the same cohorts in its own way.
        BlamePage { cohorts, .. } => {
            let lines: BTreeSet<String> = cohorts.iter().map(of_cohort).collect();
            lines.into_iter().collect()
        }
    };
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn of_alert(row: &StragglerRow) -> String {
    match row.data {
        DataStatus::Enough => row.sentence.clone(),
        DataStatus::Insufficient => format!("{} (too little data to judge it now)", row.sentence),
        DataStatus::NoData => format!("{} (it sends no steps now)", row.sentence),
    }
}

fn of_cohort(row: &CohortRow) -> String {
    let labels: String = row.cohort.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let peers = counted(row.peers, &row.by);
    let state = match row.state {
        CohortState::Learning => {
            format!("{peers}, learning how much steps vary: two to six minutes")
        }
        CohortState::Judged => format!("{peers}, none is slow"),
        CohortState::TooFewPeers => format!("{peers}, and at least 3 are compared"),
        CohortState::SharedPeers => format!(
            "several nodes report the same {}: start each job as a run of its own, or name a label \
             that divides them in the rule's cohort",
            row.by
        ),
    };
    format!("{}{labels}: {state}", row.operation)
}

fn nothing_seen(page: &BlamePage) -> String {
    let unlabelled: u64 =
        page.refused.iter().filter(|row| row.reason == "unlabelled").map(|row| row.reports).sum();
    match unlabelled {
        0 => "no phases are seen: jobs record steps with phases of a class".to_owned(),
        n => format!("phases are seen without a rank: {} of them", counted(n, "sample")),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{Labels, Operation, RuleName};
    use plimsoll_schemas::summary::RefusedRow;

    use super::*;

    fn page(state: CohortState, peers: u64) -> BlamePage {
        let rule = RuleName::new("straggler").unwrap();
        let row = CohortRow {
            rule: rule.clone(),
            operation: Operation::new("train_step").unwrap(),
            cohort: Labels::new([("run", "v42")]).unwrap(),
            by: "rank".to_owned(),
            state,
            peers,
            abstained: 0,
            named: 0,
        };
        BlamePage { rules: vec![rule], cohorts: vec![row], ..BlamePage::default() }
    }

    #[test]
    fn without_a_straggler_each_cohort_states_why() {
        for (state, peers, words) in [
            (CohortState::Learning, 4, "4 ranks, learning how much steps vary: two to six minutes"),
            (CohortState::Judged, 8, "8 ranks, none is slow"),
            (CohortState::TooFewPeers, 1, "1 rank, and at least 3 are compared"),
        ] {
            assert_eq!(text(&page(state, peers)), format!("train_step run=v42: {words}\n"));
        }
        assert!(text(&page(CohortState::SharedPeers, 8)).contains("several nodes"));
    }

    #[test]
    fn a_mesh_without_steps_states_what_it_lacks() {
        let without = BlamePage { cohorts: Vec::new(), ..page(CohortState::Judged, 4) };
        assert!(text(&without).starts_with("no phases are seen"));
        let rule = RuleName::new("straggler").unwrap();
        let refused = RefusedRow { rule, reason: "unlabelled".to_owned(), reports: 7 };
        let unlabelled = BlamePage { refused: vec![refused], ..without };
        assert_eq!(text(&unlabelled), "phases are seen without a rank: 7 samples of them\n");
        assert_eq!(text(&BlamePage::default()), "no rule about stragglers is in force\n");
    }
}
