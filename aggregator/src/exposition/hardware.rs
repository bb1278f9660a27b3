//! The families of sensors: one for each in the catalogue, and what could not be read and why.
//! Looks at each reading once, however many sensors there are.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{CATALOGUE, Reading, SensorState};

use super::families::Page;
use super::jobs::Numbers;
use super::writer::{Family, LabelSet, Rows, Value, Writer};
use crate::core::catalogue;

/// A reading under its node's labels.
type Told<'v> = (&'v LabelSet, &'v Reading);

impl Page<'_> {
    pub(super) fn hardware(&self, writer: &mut Writer) {
        for (sensor, told) in CATALOGUE.iter().zip(self.by_sensor()) {
            let name = format!("plimsoll_{}", sensor.name);
            let family = if sensor.cumulative { Family::counter } else { Family::gauge };
            writer.family(family(&name, sensor.help), |rows| {
                let of_one_node = |one: &Told<'_>, two: &Told<'_>| std::ptr::eq(one.0, two.0);
                told.chunk_by(of_one_node).for_each(|told| values(rows, told));
            });
        }
        let help = "Sensors that have no current value, by state and reason";
        writer.family(Family::gauge("plimsoll_sensors_unread", help), |rows| {
            for (labels, node) in self.nodes().filter(|(_, node)| node.speaks) {
                unread(rows, labels, &node.node.readings.value);
            }
        });
    }

    /// Readings of each sensor of the catalogue, node by node.
    fn by_sensor(&self) -> Vec<Vec<Told<'_>>> {
        let mut told = vec![Vec::new(); CATALOGUE.len()];
        for (labels, node) in self.nodes().filter(|(_, node)| node.speaks) {
            for reading in &node.node.readings.value {
                if let Some(place) = catalogue::place(&reading.sensor) {
                    told[place].push((labels, reading));
                }
            }
        }
        told
    }
}

/// What one node tells of one sensor.
fn values<'v>(rows: &mut Rows<'_>, told: &[Told<'v>]) {
    let mut numbers = Numbers::default();
    let known = told.iter().filter_map(|(_, reading)| Some((&reading.labels, reading.value?)));
    known.for_each(|(labels, value): (&'v _, _)| *numbers.at(None, labels) = value);
    if let Some((node, _)) = told.first() {
        numbers.write(rows, node);
    }
}

/// A node of before gives no reason.
fn unread(rows: &mut Rows<'_>, node: &LabelSet, readings: &[Reading]) {
    let mut causes: BTreeMap<(&str, SensorState, Option<&str>), u64> = BTreeMap::new();
    for reading in readings.iter().filter(|reading| reading.state != SensorState::Ok) {
        let cause = (reading.sensor.as_str(), reading.state, reading.reason.as_deref());
        *causes.entry(cause).or_default() += 1;
    }
    for ((sensor, state, reason), n) in causes {
        let reason = reason.map(|reason| ("reason", reason));
        let labels = [("sensor", sensor), ("state", state.as_str())].into_iter().chain(reason);
        rows.add(&[node, &rows.labels(labels)], Value::Count(n));
    }
}
