//! Threshold rules: once a second metrics other than latencies are compared with their thresholds,
//! for every node that is shown, and for the aggregator itself. A metric that is not known is no
//! data and moves no alert, so a node that falls silent keeps its alerts.

use crate::limits::GAUGES_STALE_AFTER;
use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::ids::{Labels, NodeName, Operation, Series};
use plimsoll_schemas::metric::{Metric, NodeMetric, Share};
use plimsoll_schemas::rule::{Comparison, Threshold};
use plimsoll_schemas::time::Wall;

use super::finding::{ActiveAlerts, AlertFinding, Finding, Hysteresis, Inputs, Value};
use super::self_monitoring::SelfMonitoring;
use crate::core::fleet::{NodeAt, SensedFigure, WorstReadings, catalogue};

/// A value with its labels by reference, since each second they are compared and not kept.
type Found<'n> = Option<(f64, Option<&'n Labels>)>;

/// Judges every threshold as of `at`. Returns what may move an alert.
pub(super) fn judge_thresholds(
    at: Wall,
    thresholds: &[Threshold],
    inputs: Inputs<'_>,
    own: &SelfMonitoring,
    active: &ActiveAlerts<'_>,
) -> Vec<AlertFinding> {
    let active: Vec<_> = thresholds.iter().map(|threshold| active.of(&threshold.name)).collect();
    let mut found = Vec::new();

    let mut find = |index: usize, name: Option<&NodeName>, finding: Finding| {
        let threshold = &thresholds[index];
        // An active alert takes findings without data too.
        if finding == Finding::Breach || active[index].contains(&name) {
            let (rule, operation) = (threshold.name.clone(), threshold.metric.operation());
            let scope = name.map_or(Scope::Fleet, |name| Scope::Node(name.clone()));
            let (fire_after, clear_after) = (threshold.fire_after, threshold.clear_after);
            let hysteresis = Hysteresis { fire_after, clear_after };
            let finding =
                AlertFinding { key: AlertKey { rule, scope, operation }, finding, hysteresis };
            found.push(finding);
        }
    };

    for (index, threshold) in thresholds.iter().enumerate() {
        if is_of_fleet(&threshold.metric) {
            let value = value_of(at, threshold, &Scope::Fleet, inputs, own);

            let is_lower_bound = match threshold.metric {
                Metric::Fleet(figure) => own.is_lower_bound(at, figure),
                _ => false,
            };

            let finding = match own.regression(at, &threshold.name) {
                Some(None) => Finding::Insufficient,
                _ => compare(threshold, value.map(|value| value.value)),
            };

            let finding = match finding {
                // What this process has not seen may be above the
                // threshold: a restart clears nothing (A177).
                Finding::Clear if is_lower_bound => Finding::NoData,
                finding => finding,
            };

            find(index, None, finding);
        }
    }

    // A node is judged by all rules before the next one: it is fetched from memory once (A73).
    for (name, node) in inputs.fleet.shown() {
        let node = NodeAt::new(node, at);
        for (index, threshold) in thresholds.iter().enumerate() {
            if !is_of_fleet(&threshold.metric) {
                let value = node_value(inputs, &node, name, threshold);
                find(index, Some(name), compare(threshold, value.map(|(value, _)| value)));
            }
        }
    }

    found
}

/// What a threshold is compared with in one scope; `None` if it is unknown.
pub(super) fn value_of(
    at: Wall,
    threshold: &Threshold,
    scope: &Scope,
    inputs: Inputs<'_>,
    own: &SelfMonitoring,
) -> Option<Value> {
    match (&threshold.metric, scope) {
        (Metric::Fleet(figure), Scope::Fleet) => own.figure(at, *figure, inputs),
        (Metric::Regression(_), Scope::Fleet) => own.regression(at, &threshold.name).flatten(),
        (Metric::Fleet(_) | Metric::Regression(_), Scope::Node(_)) | (_, Scope::Fleet) => None,
        (_, Scope::Node(name)) => {
            let node = NodeAt::new(inputs.fleet.nodes().get(name)?, at);
            let (value, labels) = match sensed(threshold) {
                Some(of) => worst_sensed(threshold, &node, of),
                None => node_value(inputs, &node, name, threshold),
            }?;
            Some(Value { value, labels: labels.cloned().unwrap_or_default() })
        }
    }
}

/// Whether there is one value for all nodes.
fn is_of_fleet(metric: &Metric) -> bool {
    matches!(metric, Metric::Fleet(_) | Metric::Regression(_))
}

fn node_value<'n>(
    inputs: Inputs<'_>,
    node: &NodeAt<'n>,
    name: &NodeName,
    threshold: &Threshold,
) -> Found<'n> {
    let wanted = &threshold.labels;
    let is_whole = || fits(wanted, &Labels::default(), node);

    match &threshold.metric {
        Metric::Fleet(_) | Metric::Regression(_) => None,
        Metric::Node(NodeMetric::LedgerGap) => {
            #[expect(clippy::cast_precision_loss, reason = "compared with a threshold")]
            let samples = inputs.fleet.gaps.lasting(name).filter(|_| is_whole())? as f64;
            Some((samples, None))
        }
        Metric::Node(NodeMetric::LinkDelaySeconds) => {
            let delay = inputs.broker.link_delay(node.way()?).filter(|_| is_whole())?;
            Some((delay.as_secs_f64(), None))
        }
        Metric::Node(NodeMetric::SilentSeconds) => {
            let silent = inputs.broker.silence(node.figure(NodeMetric::SilentSeconds)?)?;
            is_whole().then_some((silent, None))
        }
        Metric::Node(figure) => match sensed(threshold) {
            // What was worked out when the readings came is of all of them.
            Some(of) if !wanted.is_empty() => worst_sensed(threshold, node, of),
            _ if is_whole() => Some((node.figure(*figure)?, node.counted_labels(*figure))),
            _ => None,
        },
        Metric::Sensor(sensor) => {
            let readings = node.has_fresh_readings().then_some(node.node.readings.get())?;
            let place = catalogue::place(sensor)?;
            let of = readings.iter().filter(|reading| reading.place == place);
            let values = of.filter_map(|reading| Some((reading.value?, reading.labels)));
            worst(threshold, node, values)
        }
        Metric::Counter(operation) => {
            let jobs = node.is_reporting().then(|| node.node.metrics.jobs(node.at))?;
            let of = jobs.filter(|(series, _)| series.operation == *operation);
            worst(threshold, node, of.map(|(series, grown)| (grown, &series.labels)))
        }
        Metric::Rate(operation) => {
            let rates = node.is_reporting().then(|| node.node.metrics.rates(node.at))?;
            let of = rates.filter(|(series, _)| series.operation == *operation);
            worst(threshold, node, of.map(|(series, rate)| (rate, &series.labels)))
        }
        Metric::Share(Share { of, beside }) => {
            let grown = |name: &Operation| -> f64 {
                let jobs = node.node.metrics.jobs(node.at);
                let of_name = jobs.filter(|(series, _)| series.operation == *name);
                of_name
                    .filter(|(of, _)| fits(wanted, &of.labels, node))
                    .map(|(_, grown)| grown)
                    .sum()
            };
            let first = node.is_reporting().then(|| grown(of))?;
            let all = first + beside.iter().map(grown).sum::<f64>();
            (all > 0.0).then_some((first / all, None))
        }
        Metric::Gauge(operation) => {
            let gauges = node.is_reporting().then_some(&node.node.gauges)?;
            let from = gauges.range(Series::plain(operation.clone())..);
            let of = from.take_while(|(series, _)| series.operation == *operation);
            let fresh = of.filter(|(_, latest)| node.at.since(latest.at) < GAUGES_STALE_AFTER);
            worst(threshold, node, fresh.map(|(series, of)| (of.value, &series.labels)))
        }
    }
}

/// Whether labels are those that are wanted, its node's being its own too.
fn fits(wanted: &Labels, labels: &Labels, node: &NodeAt<'_>) -> bool {
    let of_node = &node.node.labels.value;
    wanted.iter().all(|(key, value)| labels.get(key).or_else(|| of_node.get(key)) == Some(value))
}

/// The sensor figure that a threshold watches, of which there may be several.
fn sensed(threshold: &Threshold) -> Option<SensedFigure> {
    match threshold.metric {
        Metric::Node(figure) => SensedFigure::of(figure),
        _ => None,
    }
}

fn worst_sensed<'n>(threshold: &Threshold, node: &NodeAt<'n>, of: SensedFigure) -> Found<'n> {
    let readings = node.has_fresh_readings().then_some(node.node.readings.get())?;
    let worst = WorstReadings::of(readings, |labels| fits(&threshold.labels, labels, node));
    worst.get(of).map(|(value, labels)| (value, Some(labels)))
}

/// The value that is the nearest to what the rule warns of, or the furthest beyond.
fn worst<'n>(
    threshold: &Threshold,
    node: &NodeAt<'_>,
    values: impl Iterator<Item = (f64, &'n Labels)>,
) -> Found<'n> {
    let badness = |value: f64| match threshold.comparison {
        Comparison::Greater => value,
        Comparison::Less => -value,
        Comparison::Equal => -(value - threshold.value).abs(),
    };
    let fitting = values.filter(|(_, labels)| fits(&threshold.labels, labels, node));
    let worst = fitting.max_by(|(a, _), (b, _)| badness(*a).total_cmp(&badness(*b)));
    worst.map(|(value, labels)| (value, Some(labels)))
}

fn compare(threshold: &Threshold, value: Option<f64>) -> Finding {
    match value {
        None => Finding::NoData,
        Some(value) if threshold.comparison.holds(value, threshold.value) => Finding::Breach,
        Some(_) => Finding::Clear,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::rule::file::shipped;

    use super::*;
    use crate::core::fleet::Node;

    #[test]
    fn of_several_values_the_worst_is_the_nearest_to_what_the_rule_warns_of() {
        let node = Node::default();
        let node = NodeAt::new(&node, Wall(0));
        let none = Labels::default();
        for (comparison, worst_of) in
            [(Comparison::Greater, 9.0), (Comparison::Less, -4.0), (Comparison::Equal, 2.0)]
        {
            let threshold = Threshold {
                labels: Labels::default(),
                comparison,
                value: 2.0,
                ..shipped().thresholds.remove(0)
            };
            let values = [5.0, 9.0, 2.0, -4.0].map(|value| (value, &none));
            let found = worst(&threshold, &node, values.into_iter());
            assert_eq!(found.map(|(value, _)| value), Some(worst_of), "{comparison:?}");
        }
    }
}
