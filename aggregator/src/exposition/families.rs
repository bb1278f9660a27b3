//! The families of fleet metrics: names, help, and which figure of a view each one shows.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertState, LEDGER, LEDGER_GAP, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::hardware::{CATALOGUE, SensorState};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::summary::{BudgetRow, OperationRow, Presence, Quantiles};
use plimsoll_schemas::time::seconds;

use super::FamilyType::{Counter, Gauge};
use super::accounts::{delivery, ledger, nodes};
use super::events::events;
use super::{Exposition, float, label_key};
use crate::core::view::View;

/// All fleet metrics. Until the past has been read only the constant ones: a counter that
/// climbs from zero to where it was would look like new samples to `rate`.
#[must_use]
pub fn fleet(view: &View, budgets: &[Budget]) -> String {
    let mut exposition = Exposition::default();
    constants(&mut exposition, view, budgets);
    if view.summary.ready {
        latencies(&mut exposition, view);
        judgements(&mut exposition, view);
        ledger(&mut exposition, view);
        nodes(&mut exposition, view);
        delivery(&mut exposition, view);
        events(&mut exposition, view);
        job_numbers(&mut exposition, view);
        hardware(&mut exposition, view);
    }
    exposition.finish()
}

fn constants(exposition: &mut Exposition, view: &View, budgets: &[Budget]) {
    let limits = budgets.iter().map(|budget| {
        let labels = vec![
            ("budget", budget.name.as_str()),
            ("operation", budget.operation.as_str()),
            ("window", budget.window.as_str()),
        ];
        (labels, seconds(budget.limit_ns))
    });
    let help = "What the budget's quantile may reach and must not pass";
    exposition.family("plimsoll_budget_limit_seconds", Gauge, help, limits);
    let mut family = |name, help, of: fn(&Budget) -> f64| {
        let rows =
            budgets.iter().map(|budget| (vec![("budget", budget.name.as_str())], of(budget)));
        exposition.family(name, Gauge, help, rows);
    };
    let help = "The quantile that the budget judges, 0 to 1";
    family("plimsoll_budget_quantile_ratio", help, |budget| budget.quantile);
    let help = "Samples below which the budget says nothing";
    family("plimsoll_budget_samples_min", help, |budget| float(budget.min_samples));
    let presence = Presence::ALL.map(|presence| {
        let has = view.summary.nodes.iter().filter(|node| node.presence == presence).count();
        (vec![("state", presence.as_str())], float(has as u64))
    });
    exposition.family("plimsoll_nodes", Gauge, "Nodes by presence", presence);
    let help = "1 once everything the stream held at the start has been read";
    let ready = f64::from(u8::from(view.summary.ready));
    exposition.family("plimsoll_ready", Gauge, help, [(Vec::new(), ready)]);
}

fn scope_labels<'a>(scope: &'a Scope, operation: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![("scope", scope.as_str()), ("node", scope.node()), ("operation", operation)]
}

/// One figure of every window of every operation, and of all samples as window `total`.
fn windows<'a>(
    view: &'a View,
    figure: impl Fn(&Quantiles) -> Option<u64> + Copy + 'a,
) -> impl Iterator<Item = (Vec<(&'a str, &'a str)>, u64)> {
    let of_row = move |row: &'a OperationRow| {
        let total = [("total", &row.total)].into_iter();
        let windows = row.windows.iter().map(|(window, row)| (window.as_str(), &row.quantiles));
        total.chain(windows).filter_map(move |(window, quantiles)| {
            let mut labels = scope_labels(&row.scope, &row.operation);
            labels.push(("window", window));
            figure(quantiles).map(|figure| (labels, figure))
        })
    };
    view.summary.operations.iter().flat_map(of_row)
}

fn latencies(exposition: &mut Exposition, view: &View) {
    let mut quantiles = |name, help, figure: fn(&Quantiles) -> Option<u64>| {
        let rows = windows(view, figure).map(|(labels, ns)| (labels, seconds(ns)));
        exposition.family(name, Gauge, help, rows);
    };
    let help = "Median latency from merged counts, upper end of its bucket";
    quantiles("plimsoll_latency_p50_seconds", help, |q| q.p50_ns);
    let help = "99th percentile of latency from merged counts, upper end of its bucket";
    quantiles("plimsoll_latency_p99_seconds", help, |q| q.p99_ns);
    let counts = windows(view, |q| Some(q.count)).filter(|(l, _)| l[3].1 != "total");
    let counts = counts.map(|(labels, n)| (labels, float(n)));
    let help = "Samples in the window";
    exposition.family("plimsoll_latency_window_samples", Gauge, help, counts);
    let rows = || view.summary.operations.iter();
    let totals =
        rows().map(|row| (scope_labels(&row.scope, &row.operation), float(row.total.count)));
    let help = "Samples merged";
    exposition.family("plimsoll_latency_samples_total", Counter, help, totals);
    let sums = rows().zip(&view.sums_ns).map(|(row, sum)| {
        let whole = seconds(u64::try_from(*sum).unwrap_or(u64::MAX));
        (scope_labels(&row.scope, &row.operation), whole)
    });
    exposition.family("plimsoll_latency_seconds_total", Counter, "Sum of all latencies", sums);
    let reporting = rows().filter(|row| row.scope == Scope::Fleet).flat_map(|row| {
        row.windows.iter().map(|(window, windows)| {
            let labels = vec![("operation", row.operation.as_str()), ("window", window.as_str())];
            (labels, float(windows.nodes))
        })
    });
    let help = "Nodes whose samples are in the fleet's window";
    exposition.family("plimsoll_latency_window_nodes", Gauge, help, reporting);
}

fn judgements(exposition: &mut Exposition, view: &View) {
    let rows = |key: &'static str| {
        view.summary.budgets.iter().map(move |row| {
            let mut labels = vec![(key, row.budget.as_str())];
            labels.extend(scope_labels(&row.scope, &row.operation));
            (labels, row)
        })
    };
    let states = rows("budget").map(|(labels, row)| (labels, f64::from(row.alert.as_number())));
    let help = "Alert state: 0 inactive, 1 pending, 2 firing, 3 resolved";
    exposition.family("plimsoll_budget_state", Gauge, help, states);
    let verdicts = rows("budget").map(|(mut labels, row)| {
        labels.push(("verdict", row.verdict.as_str()));
        (labels, 1.0)
    });
    let help = "1 under the verdict that the window's samples support";
    exposition.family("plimsoll_budget_verdict", Gauge, help, verdicts);
    let samples = rows("budget").map(|(labels, row)| (labels, float(row.samples)));
    let help = "Samples in the budget's window";
    exposition.family("plimsoll_budget_samples", Gauge, help, samples);
    let mut bound = |name, help, of: fn(&BudgetRow) -> Option<u64>| {
        let rows = rows("budget").filter_map(|(labels, row)| Some((labels, seconds(of(row)?))));
        exposition.family(name, Gauge, help, rows);
    };
    let help = "The budget's quantile over its window";
    bound("plimsoll_budget_value_seconds", help, |row| row.value_ns);
    let help = "Lower confidence bound of that quantile; a breach has it above the limit";
    bound("plimsoll_budget_lower_bound_seconds", help, |row| row.lower_ns);
    let firing = rows("rule").map(|(labels, row)| (labels, row.alert));
    let gaps = view.nodes.iter().filter(|node| node.gap_alert != AlertState::Inactive);
    let gaps = gaps.map(|node| {
        let scope = [("scope", "node"), ("node", node.node.as_str()), ("operation", LEDGER)];
        let labels = [("rule", LEDGER_GAP)].into_iter().chain(scope).collect();
        (labels, node.gap_alert)
    });
    let firing = firing.chain(gaps);
    let firing =
        firing.map(|(labels, state)| (labels, f64::from(u8::from(state == AlertState::Firing))));
    exposition.family("plimsoll_alert_firing", Gauge, "1 while the alert fires", firing);
}

fn job_numbers(exposition: &mut Exposition, view: &View) {
    let (mut counters, mut gauges) = (Rows::default(), Rows::default());
    for node in &view.nodes {
        for (series, sum) in &node.counters {
            *counters.at(
                &node.node,
                Some(("counter", series.operation.as_str())),
                &series.labels,
            ) += sum;
        }
        for (series, value) in &node.gauges {
            *gauges.at(&node.node, Some(("gauge", series.operation.as_str())), &series.labels) =
                *value;
        }
    }
    // A DogStatsD counter may be given negative amounts, which a Prometheus counter cannot show.
    exposition.family("plimsoll_job_increments", Gauge, "Sum of a job's counter", counters.iter());
    exposition.family("plimsoll_job_value", Gauge, "Latest value of a job's gauge", gauges.iter());
}

/// Rows with labels from outside. Two sets of labels that differ only in what Prometheus cannot
/// hold become one row here: the same series twice would cost the whole scrape.
#[derive(Default)]
struct Rows(BTreeMap<Vec<(String, String)>, f64>);

impl Rows {
    fn at(&mut self, node: &str, name: Option<(&str, &str)>, labels: &Labels) -> &mut f64 {
        let own = [("node", node)].into_iter().chain(name);
        let mut row: Vec<(String, String)> =
            own.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        // To Prometheus a label without a value is a label that is not there.
        let told = labels.iter().filter(|(_, value)| !value.is_empty());
        let mended: BTreeMap<String, String> =
            told.map(|(key, value)| (label_key(key), value.to_owned())).collect();
        row.extend(mended);
        self.0.entry(row).or_default()
    }

    fn iter(&self) -> impl Iterator<Item = (Vec<(&str, &str)>, f64)> {
        self.0.iter().map(|(labels, value)| {
            (labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(), *value)
        })
    }
}

fn hardware(exposition: &mut Exposition, view: &View) {
    for sensor in CATALOGUE {
        let mut rows = Rows::default();
        for node in &view.nodes {
            for reading in node.readings.iter().filter(|reading| reading.sensor == sensor.name) {
                if let Some(value) = reading.value {
                    *rows.at(&node.node, None, &reading.labels) = value;
                }
            }
        }
        let family_type = if sensor.cumulative { Counter } else { Gauge };
        let name = format!("plimsoll_{}", sensor.name);
        exposition.family(&name, family_type, sensor.help, rows.iter());
    }
    let unread = view.nodes.iter().flat_map(|node| {
        let mut states: BTreeMap<(&str, SensorState), u64> = BTreeMap::new();
        for reading in node.readings.iter().filter(|reading| reading.state != SensorState::Ok) {
            *states.entry((&reading.sensor, reading.state)).or_default() += 1;
        }
        states.into_iter().map(|((sensor, state), n)| {
            let labels =
                vec![("node", node.node.as_str()), ("sensor", sensor), ("state", state.as_str())];
            (labels, float(n))
        })
    });
    let help = "Sensors that have no current value, by reason";
    exposition.family("plimsoll_sensors_unread", Gauge, help, unread);
}
