//! The state before a fault: enough samples everywhere, every verdict calm. A drill that starts
//! from any other state proves nothing.
//!
//! DESIGN D2.

use plimsoll_schemas::alert::{AlertState, Scope};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::{Summary, Verdict};

use super::expectation::Look;

#[derive(Clone, Debug)]
pub struct Steady {
    /// The operation that is to be disturbed, which is also its budget's name.
    pub operation: &'static str,
    /// Samples of it that each scope needs within ten seconds.
    pub samples_min: u64,
    /// The fleet and every node.
    pub scopes: Vec<Scope>,
}

impl Steady {
    /// The expectation as text.
    pub fn expected(&self) -> String {
        let Self { operation, samples_min, scopes } = self;
        format!(
            "{operation} within its budget, at least {samples_min} samples in 10 s in each of {} \
             scopes, no alert pending or firing",
            scopes.len()
        )
    }

    /// Whether a summary shows it.
    pub fn look(&self, summary: &Summary) -> Look {
        let counts = self.scopes.iter().map(|scope| (scope, self.samples(summary, scope)));
        let (least, fewest) = counts.min_by_key(|(_, count)| *count).map_or_else(
            || ("no scope".to_owned(), 0),
            |(scope, count)| (scope.to_string(), count),
        );

        if fewest < self.samples_min {
            return Look::new(false, format!("{fewest} samples ({least})"));
        }

        let restless = summary.budgets.iter().find(|row| {
            let alarmed = matches!(row.alert, AlertState::Pending | AlertState::Firing);
            alarmed || (row.operation == self.operation && row.verdict != Verdict::Within)
        });

        if let Some(row) = restless {
            let (verdict, alert) = (row.verdict.as_str(), row.alert.as_str());
            return Look::new(false, format!("{} ({}) {verdict}, {alert}", row.budget, row.scope));
        }

        Look::new(true, format!("calm, at least {fewest} samples"))
    }

    fn samples(&self, summary: &Summary, scope: &Scope) -> u64 {
        let row = summary
            .operations
            .iter()
            .find(|row| row.operation == self.operation && row.scope == *scope);
        let window = row.and_then(|row| row.windows.get(&Window::TenSeconds));
        window.map_or(0, |window| window.quantiles.count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_schemas::ids::NodeName;
    use plimsoll_schemas::summary::{BudgetRow, Freshness, OperationRow, Quantiles, WindowRow};

    use super::*;

    fn scopes() -> Vec<Scope> {
        vec![Scope::Fleet, Scope::Node(NodeName::new("a").unwrap())]
    }

    fn summary(samples: [u64; 2], verdict: Verdict, alert: AlertState) -> Summary {
        let operations = scopes().into_iter().zip(samples).map(|(scope, count)| {
            let quantiles = Quantiles { count, ..Quantiles::default() };
            let window = WindowRow { quantiles, nodes: 1, nodes_expected: 1, nodes_late: 0 };
            OperationRow {
                scope,
                operation: "op".into(),
                unit: None,
                own: false,
                freshness: Freshness::default(),
                total: Quantiles::default(),
                windows: BTreeMap::from([(Window::TenSeconds, window)]),
            }
        });
        let budget = BudgetRow {
            budget: "op".into(),
            operation: "op".into(),
            unit: None,
            scope: Scope::Fleet,
            quantile: 0.99,
            limit_ns: 1,
            window: Window::TenSeconds,
            samples: 1,
            value_ns: None,
            within_ns: None,
            lower_ns: None,
            verdict,
            alert,
            upper_ns: None,
            over: 0,
            uncertain: 0,
            completeness: (0, 0),
            nodes_late: 0,
            nodes_reporting: 1,
            overdispersion: 1.0,
            learning: false,
            freshness: Freshness::default(),
            since_limit: None,
            objective: None,
            budget_remaining: None,
            burns: Vec::new(),
        };
        let (operations, budgets) = (operations.collect(), vec![budget]);
        Summary { operations, budgets, ..Summary::default() }
    }

    #[test]
    fn calm_needs_samples_everywhere_a_good_verdict_and_no_alert() {
        use AlertState::{Firing, Inactive, Pending, Resolved};
        let steady = Steady { operation: "op", samples_min: 100, scopes: scopes() };
        for (samples, verdict, alert, met, seen) in [
            ([200, 100], Verdict::Within, Inactive, true, "calm, at least 100 samples"),
            ([200, 100], Verdict::Within, Resolved, true, "calm, at least 100 samples"),
            ([200, 99], Verdict::Within, Inactive, false, "99 samples (node a)"),
            ([0, 100], Verdict::Within, Inactive, false, "0 samples (fleet)"),
            ([200, 100], Verdict::Breach, Inactive, false, "op (fleet) breach, inactive"),
            (
                [200, 100],
                Verdict::Insufficient,
                Inactive,
                false,
                "op (fleet) insufficient, inactive",
            ),
            ([200, 100], Verdict::Within, Pending, false, "op (fleet) within, pending"),
            ([200, 100], Verdict::Within, Firing, false, "op (fleet) within, firing"),
        ] {
            let look = steady.look(&summary(samples, verdict, alert));
            assert_eq!(look, Look::new(met, seen));
        }
    }

    #[test]
    fn no_scopes_are_no_steady_state() {
        let steady = Steady { operation: "op", samples_min: 1, scopes: Vec::new() };
        assert!(!steady.look(&summary([9, 9], Verdict::Within, AlertState::Inactive)).met);
    }
}
