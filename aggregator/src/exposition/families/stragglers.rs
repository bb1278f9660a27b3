//! Peers that rules about stragglers compare, and what they refused.

use plimsoll_schemas::summary::{CohortRow, CohortState};

use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Writer};

/// A state of peers, and how many of a cohort are in it.
type Counted = (&'static str, fn(&CohortRow) -> u64);

/// A peer may be in several, and is in the first of them unless its cohort is silent.
const STATES: [Counted; 4] = [
    ("reporting", |row| row.peers),
    ("learning", |row| if row.state == CohortState::Learning { row.peers } else { 0 }),
    ("abstained", |row| row.abstained),
    ("named", |row| row.named),
];

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let blame = &page.view.blame;
    let help = "Peers of all cohorts of the rule, by how they could be judged";
    writer.family(Family::gauge("plimsoll_straggler_peers", help), |rows| {
        for rule in &blame.rules {
            for (state, count) in STATES {
                let cohorts = blame.cohorts.iter().filter(|row| row.rule == *rule);
                let peers: u64 = cohorts.map(count).sum();
                let labels = rows.labels([("rule", rule.as_str()), ("state", state)]);
                rows.add(&[&labels], peers.into());
            }
        }
    });

    let help = "Reports of peers that the rule did not judge, by reason";
    let family = Family::counter("plimsoll_straggler_refused_reports_total", help);
    writer.family(family, |rows| {
        for row in &blame.refused {
            let labels = rows.labels([("rule", row.rule.as_str()), ("reason", &row.reason)]);
            rows.add(&[&labels], row.reports.into());
        }
    });
}
