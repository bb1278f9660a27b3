//! The families of sensors: one for each in the catalogue, and what could not be read.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{CATALOGUE, SensorState};

use super::families::Page;
use super::jobs::Numbers;
use super::writer::{Family, Value, Writer};

impl Page<'_> {
    pub(super) fn hardware(&self, writer: &mut Writer) {
        let speaking = || self.nodes().filter(|(_, node)| node.speaks);
        for sensor in CATALOGUE {
            let name = format!("plimsoll_{}", sensor.name);
            let family = if sensor.cumulative { Family::counter } else { Family::gauge };
            writer.family(family(&name, sensor.help), |rows| {
                for (labels, node) in speaking() {
                    let mut numbers = Numbers::default();
                    for reading in &node.node.readings.value {
                        if let Some(value) = reading.value.filter(|_| reading.sensor == sensor.name)
                        {
                            *numbers.at(None, &reading.labels) = value;
                        }
                    }
                    numbers.write(rows, labels);
                }
            });
        }
        let help = "Sensors that have no current value, by reason";
        writer.family(Family::gauge("plimsoll_sensors_unread", help), |rows| {
            for (labels, node) in speaking() {
                let mut states: BTreeMap<(&str, SensorState), u64> = BTreeMap::new();
                for reading in &node.node.readings.value {
                    if reading.state != SensorState::Ok {
                        *states.entry((&reading.sensor, reading.state)).or_default() += 1;
                    }
                }
                for ((sensor, state), n) in states {
                    let unread = rows.labels([("sensor", sensor), ("state", state.as_str())]);
                    rows.add(&[labels, &unread], Value::Count(n));
                }
            }
        });
    }
}
