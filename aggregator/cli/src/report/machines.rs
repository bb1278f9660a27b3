//! The latest known state of each machine: what `/api/v1/hardware` has, or else what alerts
//! recorded about the worst nodes when they fired.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::alert::AlertRow;
use serde::Deserialize;
use serde_json::Value;

use super::document::{Machines, NodeMachine, RankedNode};
use super::limits::{NODES_MAX, READINGS_MAX};

/// Sensors whose newest reading is a state. A counter's is a sum since the machine started.
const STATES: [&str; 18] = [
    "cpu_usage_ratio",
    "cpu_iowait_ratio",
    "cpu_steal_ratio",
    "cpu_temperature_celsius",
    "cpu_throttled",
    "load1",
    "memory_used_bytes",
    "memory_total_bytes",
    "swap_used_bytes",
    "pressure_full_ratio",
    "tasks_blocked",
    "disk_read_only",
    "gpu_utilization_ratio",
    "gpu_memory_used_bytes",
    "gpu_memory_total_bytes",
    "gpu_temperature_celsius",
    "gpu_power_watts",
    "gpu_throttled",
];

/// What a report reads of `/api/v1/hardware`.
#[derive(Deserialize)]
pub(super) struct HardwarePage {
    nodes: Vec<NodeHardware>,
    /// The value of `after` for the next page.
    #[serde(default)]
    pub(super) next: Option<String>,
}

impl HardwarePage {
    /// Adds the page after this one.
    pub(super) fn add(&mut self, next: Self) {
        self.nodes.extend(next.nodes);
        self.next = next.next;
    }

    /// The names of its nodes.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|of| of.node.as_str())
    }
}

#[derive(Deserialize)]
struct NodeHardware {
    node: String,
    readings: Vec<Reading>,
}

#[derive(Deserialize)]
struct Reading {
    sensor: String,
    /// Which one, if a machine has several.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Absent if it cannot be read.
    value: Option<f64>,
}

impl Machines {
    /// The state of machines from what an aggregator has.
    pub(super) fn of(hardware: Option<&HardwarePage>, alerts: &[AlertRow]) -> Self {
        if let Some(page) = hardware {
            let nodes = page.nodes.iter().map(|row| (row.node.clone(), states(&row.readings)));
            let nodes = nodes.filter(|(_, readings)| !readings.is_empty()).collect();
            let mut source = "/api/v1/hardware, when the report was made".to_owned();
            if page.next.is_some() {
                source += &format!("; of the first {} nodes by name", page.nodes.len());
            }
            return Self { source, nodes, ..Self::default() };
        }

        let nodes = of_alerts(alerts);
        let source = match nodes.is_empty() {
            true => "not available from this aggregator",
            false => {
                "evidence of alerts, when each fired; the other machines' states are not \
                 available from this aggregator"
            }
        };

        Self { source: source.to_owned(), nodes, ..Self::default() }
    }
}

impl Machines {
    /// Adds what the machines with a row are, or the first of them by name where none has one.
    pub(super) fn with_descriptions(mut self, all: &BTreeMap<String, NodeMachine>) -> Self {
        let is_shown = |name: &str| self.nodes.is_empty() || self.nodes.contains_key(name);
        let shown = all.iter().filter(|(name, _)| is_shown(name)).take(NODES_MAX);
        self.described = shown.map(|(name, of)| (name.clone(), of.clone())).collect();
        self
    }

    /// As many as a report shows: those of the ranked nodes first, then by name.
    pub(super) fn shown_beside(mut self, ranked: &[RankedNode]) -> Self {
        let all = self.nodes.len();
        if all <= NODES_MAX {
            return self;
        }
        let ranked: BTreeSet<&str> = ranked.iter().map(|of| of.node.as_str()).collect();
        let is_ranked = |name: &str| ranked.contains(name);
        let mut left = NODES_MAX - self.nodes.keys().filter(|name| is_ranked(name)).count();

        self.nodes.retain(|name, _| {
            let is_shown = is_ranked(name) || left > 0;
            left -= usize::from(is_shown && !is_ranked(name));
            is_shown
        });

        self.source += &format!("; {NODES_MAX} of {all} nodes, those of the ranking first");
        self
    }
}

/// The readings that are states, by sensor and labels, and the used share of the memory.
fn states(readings: &[Reading]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for of in readings.iter().filter(|of| STATES.contains(&of.sensor.as_str())) {
        let Some(value) = of.value.filter(|_| found.len() < READINGS_MAX) else { continue };
        let labels = of.labels.iter().map(|(name, value)| format!(" {name}={value}"));
        found.insert(of.sensor.clone() + &labels.collect::<String>(), value.into());
    }
    let bytes = |name: &str| found.get(name).and_then(Value::as_f64);
    let used = bytes("memory_used_bytes").zip(bytes("memory_total_bytes"));
    if let Some((used, total)) = used.filter(|(_, total)| *total > 0.0) {
        found.insert("memory_used_ratio".to_owned(), (used / total).into());
    }
    found
}

/// What the newest alert about each node recorded.
fn of_alerts(alerts: &[AlertRow]) -> BTreeMap<String, BTreeMap<String, Value>> {
    let mut alerts: Vec<&AlertRow> = alerts.iter().collect();
    // Oldest first, so that the latest evidence of a node replaces what came before.
    alerts.sort_by(|a, b| a.since_seconds.total_cmp(&b.since_seconds));
    let mut nodes = BTreeMap::new();

    for context in alerts.into_iter().filter_map(|alert| alert.context.as_ref()) {
        for worst in &context.worst {
            let readings = serde_json::to_value(worst.hardware).unwrap_or_default();
            let readings = readings.as_object().into_iter().flatten();
            let readings = readings.filter(|(_, value)| !value.is_null());
            let readings: BTreeMap<String, Value> =
                readings.map(|(name, value)| (name.clone(), value.clone())).collect();
            let is_known = nodes.len() < NODES_MAX || nodes.contains_key(worst.node.as_str());
            if is_known && !readings.is_empty() {
                nodes.insert(worst.node.to_string(), readings);
            }
        }
    }

    nodes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_readings_that_are_states_are_shown_by_node() {
        let page = json!({"mesh": "m", "next": null, "nodes": [
            {"node": "n1", "presence": "up", "readings": [
                {"sensor": "memory_used_bytes", "labels": {}, "state": "ok", "value": 3.0},
                {"sensor": "memory_total_bytes", "labels": {}, "state": "ok", "value": 4.0},
                {"sensor": "gpu_throttled", "labels": {"gpu": "0"}, "state": "ok", "value": 1.0},
                {"sensor": "oom_kills_total", "labels": {}, "state": "ok", "value": 7.0},
                {"sensor": "load1", "labels": {}, "state": "absent", "value": null},
            ]},
            {"node": "n2", "presence": "up", "readings": []},
        ]});
        let page: HardwarePage = serde_json::from_value(page).unwrap();
        let machines = Machines::of(Some(&page), &[]);
        let n1 = &machines.nodes["n1"];
        assert_eq!(
            (&n1["memory_used_ratio"], &n1["gpu_throttled gpu=0"]),
            (&0.75.into(), &1.0.into())
        );
        assert_eq!((machines.nodes.len(), n1.len()), (1, 4));
    }

    #[test]
    fn without_any_source_the_reason_is_stated() {
        assert_eq!(Machines::of(None, &[]).source, "not available from this aggregator");
    }

    #[test]
    fn hostile_readings_are_bounded() {
        let reading = |n: usize| {
            let labels = BTreeMap::from([("n".to_owned(), n.to_string())]);
            Reading { sensor: "load1".to_owned(), labels, value: Some(1.0) }
        };
        let node = |n: usize| NodeHardware {
            node: n.to_string(),
            readings: (0..1_000).map(reading).collect(),
        };
        let mut page = HardwarePage { nodes: (0..100).map(node).collect(), next: None };
        page.add(HardwarePage { nodes: (100..200).map(node).collect(), next: Some("199".into()) });
        let ranked = RankedNode { node: "99".to_owned(), ..RankedNode::default() };
        let machines = Machines::of(Some(&page), &[]).shown_beside(&[ranked]);
        assert_eq!(machines.nodes.len(), NODES_MAX);
        assert!(machines.nodes.contains_key("99"), "the last by name, and the first by rank");
        let source = &machines.source;
        assert!(source.contains("first 200 nodes") && source.contains("100 of 200"), "{source}");
        assert!(machines.nodes.values().all(|readings| readings.len() == READINGS_MAX));
    }
}
