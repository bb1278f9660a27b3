//! Which labels a shard keeps: those by which the aggregator above groups or selects samples, and
//! the class of time, by which its history has them. All others are merged, so that a report grows
//! with what is asked for and not with the nodes.

use std::collections::BTreeSet;

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::straggler::CLASS_LABEL;

use crate::core::fleet::Definition;

/// Names of labels, of series and of nodes apart: a roll-up may take one and not the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptLabels {
    of_series: BTreeSet<String>,
    of_nodes: BTreeSet<String>,
}

impl KeptLabels {
    /// Those that roll-ups group by and budgets select.
    pub fn of(rules: &Rules, rollups: &[Definition]) -> Self {
        let mut kept = Self::default();
        kept.of_series.insert(CLASS_LABEL.to_owned());
        for Definition { by, either_by, nodes_by, .. } in rollups {
            kept.of_series.extend(by.iter().chain(either_by).cloned());
            kept.of_nodes.extend(nodes_by.iter().chain(either_by).cloned());
        }
        for budget in &rules.budgets {
            let names = |labels: &Labels| labels.iter().map(|(name, _)| name.to_owned()).collect();
            let (series, nodes): (Vec<_>, Vec<_>) =
                (names(&budget.selector.series), names(&budget.selector.nodes));
            kept.of_series.extend(series);
            kept.of_nodes.extend(nodes);
        }
        kept
    }

    pub(super) fn series(&self, labels: &Labels) -> Labels {
        only(labels, &self.of_series)
    }

    pub(super) fn node(&self, labels: &Labels) -> Labels {
        only(labels, &self.of_nodes)
    }
}

fn only(labels: &Labels, names: &BTreeSet<String>) -> Labels {
    if labels.is_empty() {
        return Labels::default();
    }
    let kept = names.iter().filter_map(|name| Some((name.as_str(), labels.get(name)?)));
    // Cannot fail: they are some of labels that were valid together.
    Labels::new(kept).unwrap_or_default()
}
