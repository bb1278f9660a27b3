//! Rules on figures other than latencies: once a second each is compared with its threshold, for
//! every node that is shown, and for the aggregator itself. What nobody knows is no data and moves
//! nothing, so a node that falls silent keeps its alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::GAUGES_STALE_AFTER;
use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::ids::{Labels, NodeName, Series};
use plimsoll_schemas::metric::{Figure, Metric};
use plimsoll_schemas::rule::{Comparison, Threshold};
use plimsoll_schemas::time::Wall;

use crate::core::Core;
use crate::core::alerting::alert::{Finding, Patience};
use crate::core::fleet::node::{NodeAt, Sensed, Worst};

/// What a threshold is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The value; of several the worst.
    pub value: f64,
    /// Which one it is, where there are several.
    pub labels: Labels,
}

/// The same, of which the labels are not asked for each second.
type Found<'n> = Option<(f64, Option<&'n Labels>)>;

impl Core {
    /// Judges every threshold as of `at`, which lies `late` before the present.
    pub(crate) fn judge_thresholds(&mut self, (at, late): (Wall, Duration)) {
        self.watch_itself(at);
        let rules = Arc::clone(&self.rules);
        let found = self.found(at, &rules.thresholds);
        for (threshold, scope, finding) in found {
            let (rule, operation) = (threshold.name.clone(), threshold.metric.operation());
            let key = AlertKey { rule, scope, operation };
            let (fire_after, clear_after) = (threshold.fire_after, threshold.clear_after);
            self.on_found((at, late), key, finding, Patience { fire_after, clear_after });
        }
    }

    /// What is found that may move an alert. Most is as it should be and belongs to none.
    fn found<'t>(
        &self,
        at: Wall,
        thresholds: &'t [Threshold],
    ) -> Vec<(&'t Threshold, Scope, Finding)> {
        let alive = self.alive(thresholds);
        let mut found = Vec::new();
        let mut find = |threshold: &'t Threshold, alive, name: Option<&NodeName>, value: Found| {
            let alive: &BTreeSet<Option<&NodeName>> = alive;
            let finding = compare(threshold, value.map(|(value, _)| value));
            // What stands hears that nobody knows, too.
            let moves = finding == Finding::Breach || alive.contains(&name);
            if moves {
                found.push((threshold, name.map_or(Scope::Fleet, of_node), finding));
            }
        };
        for (threshold, alive) in thresholds.iter().zip(&alive) {
            if let Metric::Fleet(figure) = threshold.metric {
                let value = self.fleet_figure(at, figure).map(|value| (value.value, None));
                find(threshold, alive, None, value);
            }
        }
        for (name, node) in self.nodes.iter().filter(|(_, node)| !node.hidden) {
            let node = NodeAt::new(node, at);
            for (threshold, alive) in thresholds.iter().zip(&alive) {
                if !matches!(threshold.metric, Metric::Fleet(_)) {
                    find(threshold, alive, Some(name), self.node_value(&node, name, threshold));
                }
            }
        }
        found
    }

    /// Of each threshold, whom alerts are about that are not inactive.
    fn alive(&self, thresholds: &[Threshold]) -> Vec<BTreeSet<Option<&NodeName>>> {
        let places = thresholds.iter().enumerate().map(|(place, of)| (&of.name, place));
        let places: BTreeMap<_, _> = places.collect();
        let mut alive = vec![BTreeSet::new(); thresholds.len()];
        for (key, _) in self.alerts.standing() {
            if let Some(place) = places.get(&key.rule) {
                alive[*place].insert(match &key.scope {
                    Scope::Fleet => None,
                    Scope::Node(name) => Some(name),
                });
            }
        }
        alive
    }

    /// What a threshold is compared with in one scope, as of when rules were last judged; `None`
    /// where nobody knows.
    #[must_use]
    pub fn value_of(&self, threshold: &Threshold, scope: &Scope) -> Option<Value> {
        let at = self.judged_at?;
        match (&threshold.metric, scope) {
            (Metric::Fleet(figure), Scope::Fleet) => self.fleet_figure(at, *figure),
            (Metric::Fleet(_), Scope::Node(_)) | (_, Scope::Fleet) => None,
            (_, Scope::Node(name)) => {
                let node = NodeAt::new(self.nodes.get(name)?, at);
                let (value, labels) = match sensed(threshold) {
                    Some(of) => worst_sensed(threshold, &node, of),
                    None => self.node_value(&node, name, threshold),
                }?;
                Some(Value { value, labels: labels.cloned().unwrap_or_default() })
            }
        }
    }

    fn node_value<'n>(
        &self,
        node: &NodeAt<'n>,
        name: &NodeName,
        threshold: &Threshold,
    ) -> Found<'n> {
        let wanted = &threshold.labels;
        let is_whole = || fits(wanted, &Labels::default(), node);
        match &threshold.metric {
            Metric::Fleet(_) => None,
            Metric::Node(Figure::LedgerGap) => {
                #[expect(clippy::cast_precision_loss, reason = "compared with a threshold")]
                let samples = self.gap(name).filter(|_| is_whole())? as f64;
                Some((samples, None))
            }
            Metric::Node(Figure::SilentSeconds) => {
                Some((self.silence(node).filter(|_| is_whole())?, None))
            }
            Metric::Node(figure) => match sensed(threshold) {
                // What was worked out when the readings came is of all of them.
                Some(of) if !wanted.is_empty() => worst_sensed(threshold, node, of),
                _ if is_whole() => Some((node.figure(*figure)?, None)),
                _ => None,
            },
            Metric::Sensor(sensor) => {
                let readings = node.senses().then_some(&node.node.readings.value)?;
                let of = readings.into_iter().filter(|reading| reading.sensor == *sensor);
                let values = of.filter_map(|reading| Some((reading.value?, &reading.labels)));
                worst(threshold, node, values)
            }
            Metric::Counter(operation) => {
                let jobs = node.speaks().then(|| node.node.vitals.jobs(node.at))?;
                let of = jobs.filter(|(series, _)| series.operation == *operation);
                worst(threshold, node, of.map(|(series, grown)| (grown, &series.labels)))
            }
            Metric::Gauge(operation) => {
                let gauges = node.speaks().then_some(&node.node.gauges)?;
                let from = gauges.range(Series::plain(operation.clone())..);
                let of = from.take_while(|(series, _)| series.operation == *operation);
                let fresh = of.filter(|(_, latest)| node.at.since(latest.at) < GAUGES_STALE_AFTER);
                worst(threshold, node, fresh.map(|(series, of)| (of.value, &series.labels)))
            }
        }
    }
}

fn of_node(name: &NodeName) -> Scope {
    Scope::Node(name.clone())
}

/// Whether labels are those that are wanted, its node's being its own too.
fn fits(wanted: &Labels, labels: &Labels, node: &NodeAt<'_>) -> bool {
    let of_node = &node.node.labels.value;
    wanted.iter().all(|(key, value)| labels.get(key).or_else(|| of_node.get(key)) == Some(value))
}

/// What a threshold watches that sensors tell, and of which there may be several.
fn sensed(threshold: &Threshold) -> Option<Sensed> {
    match threshold.metric {
        Metric::Node(figure) => Sensed::of(figure),
        _ => None,
    }
}

fn worst_sensed<'n>(threshold: &Threshold, node: &NodeAt<'n>, of: Sensed) -> Found<'n> {
    let readings = node.senses().then_some(&node.node.readings.value)?;
    let worst = Worst::of(readings, |labels| fits(&threshold.labels, labels, node));
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
pub(crate) mod tests;
