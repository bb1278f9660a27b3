//! Which families a page holds, and in which order.

use plimsoll_schemas::summary::Presence;

use super::Shown;
use super::sets::Sets;
use super::writer::{Family, LabelSet, NONE, Value, Writer};
use crate::core::view::{NodeView, View};

/// A page in the making: what is known, and the label sets that its families share.
pub(super) struct Page<'v> {
    pub(super) view: &'v View,
    pub(super) shown: Shown<'v>,
    pub(super) sets: Sets<'v>,
}

impl<'v> Page<'v> {
    pub(super) fn new(view: &'v View, shown: Shown<'v>, writer: &Writer) -> Self {
        Self { view, shown, sets: Sets::new(view, writer) }
    }

    /// All families. Until the past has been read only the constant ones: a counter that climbs
    /// from zero to where it was would look like new samples to `rate`.
    pub(super) fn write(&self, writer: &mut Writer) {
        self.constants(writer);
        if self.view.summary.ready {
            self.thresholds(writer);
            self.error_budgets(writer);
            self.fleet_account(writer);
            self.alert_counts(writer);
            self.write_all(writer);
        }
    }

    fn constants(&self, writer: &mut Writer) {
        let budgets = self.shown.budgets;
        let help = "What the budget's quantile may reach and must not pass";
        writer.family(Family::gauge("plimsoll_budget_limit_seconds", help), |rows| {
            for budget in budgets {
                let labels = rows.labels([
                    ("budget", budget.name.as_str()),
                    ("operation", budget.operation.as_str()),
                    ("window", budget.window.as_str()),
                ]);
                rows.add(&[&labels], Value::nanos(budget.limit_ns));
            }
        });
        let help = "The quantile that the budget judges, 0 to 1";
        writer.family(Family::gauge("plimsoll_budget_quantile_ratio", help), |rows| {
            for budget in budgets {
                let labels = rows.labels([("budget", budget.name.as_str())]);
                rows.add(&[&labels], Value::Float(budget.quantile));
            }
        });
        let help = "Samples below which the budget says nothing";
        writer.family(Family::gauge("plimsoll_budget_samples_min", help), |rows| {
            for budget in budgets {
                let labels = rows.labels([("budget", budget.name.as_str())]);
                rows.add(&[&labels], Value::Count(budget.min_samples));
            }
        });
        writer.family(Family::gauge("plimsoll_nodes", "Nodes by presence"), |rows| {
            for presence in Presence::ALL {
                let n = self.view.summary.presence.get(&presence).copied().unwrap_or_default();
                rows.add(&[&rows.labels([("state", presence.as_str())])], Value::Count(n));
            }
        });
        let help = "Nodes with series of their own on this page";
        writer.family(Family::gauge("plimsoll_nodes_shown", help), |rows| {
            rows.add(&[NONE], Value::Count(self.view.nodes.len() as u64));
        });
        let help = "1 once everything the stream held at the start has been read";
        writer.family(Family::gauge("plimsoll_ready", help), |rows| {
            rows.add(&[NONE], Value::flag(self.view.summary.ready));
        });
    }

    fn write_all(&self, writer: &mut Writer) {
        self.latencies(writer);
        self.judgements(writer);
        self.alerts(writer);
        self.accounts(writer);
        self.presence(writer);
        self.delivery(writer);
        self.events(writer);
        self.job_numbers(writer);
        self.hardware(writer);
        if self.shown.aliases {
            self.aliases(writer);
        }
    }

    /// Only the nodes' own families.
    pub(super) fn write_nodes(&self, writer: &mut Writer) {
        if self.view.summary.ready {
            self.write_all(writer);
        }
    }

    /// Each node's labels with what is known of it.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&LabelSet, &'v NodeView)> {
        self.sets.nodes.iter().zip(&self.view.nodes)
    }
}
