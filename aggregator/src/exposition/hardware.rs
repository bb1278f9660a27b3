//! The families of sensors: one for each in the catalogue, and what could not be read and why.
//! Looks at each reading once, however many sensors there are.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{CATALOGUE, Reading, SensorState};

use super::families::Page;
use super::jobs::Numbers;
use super::writer::{Family, LabelSet, Rows, Value, Writer};
use crate::core::fleet::catalogue;

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

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{
        CPU_USAGE_RATIO, DISK_USED_BYTES, LOAD1, Missing, Reading, TEMPERATURE_CELSIUS,
    };
    use plimsoll_schemas::ids::Labels;
    use plimsoll_schemas::wire::{Body, Hardware};

    use crate::core::tests::{Speaker, core, deliver, start};
    use crate::exposition::{Format, Shown, nodes_page};

    #[test]
    fn each_sensor_has_its_family_in_the_order_of_the_catalogue_however_readings_come() {
        let mut core = core();
        let disk = |name| Labels::new([("device", name)]).unwrap();
        let of_a = vec![
            Reading::ok(&DISK_USED_BYTES, disk("sdb"), 2.0),
            Reading::absent(&TEMPERATURE_CELSIUS, disk("x"), Missing::unsupported("no_driver")),
            Reading::ok(&LOAD1, Labels::default(), 0.5),
            Reading::absent(&TEMPERATURE_CELSIUS, disk("y"), Missing::unsupported("no_driver")),
            Reading::ok(&DISK_USED_BYTES, disk("sda"), 1.0),
            Reading::ok(&CPU_USAGE_RATIO, Labels::default(), 0.25),
            Reading::absent(&TEMPERATURE_CELSIUS, disk("z"), Missing::failed("io")),
        ];
        let mut of_b = vec![Reading::ok(&LOAD1, Labels::default(), 1.5)];
        let mut silent = Reading::absent(&CPU_USAGE_RATIO, Labels::default(), Missing::stale("x"));
        silent.reason = None;
        of_b.push(silent);
        for (name, readings) in [("a", of_a), ("b", of_b)] {
            let body = Body::Hardware(Hardware { readings });
            deliver(&mut core, start(), &Speaker::new(name).message(start(), body, false));
        }
        let view = core.view(start().wall, "t");
        let page = nodes_page(&view, Shown { budgets: &[], aliases: false }, Format::Text);
        let page = String::from_utf8(page).unwrap();
        let names = ["cpu_usage", "load1", "disk_used", "sensors_unread"];
        let names = names.map(|name| format!("plimsoll_{name}"));
        let is_told = |line: &&str| names.iter().any(|name| line.starts_with(name));
        assert_eq!(
            page.lines().filter(is_told).collect::<Vec<_>>(),
            [
                r#"plimsoll_cpu_usage_ratio{node="a"} 0.25"#,
                r#"plimsoll_load1{node="a"} 0.5"#,
                r#"plimsoll_load1{node="b"} 1.5"#,
                r#"plimsoll_disk_used_bytes{node="a",device="sda"} 1"#,
                r#"plimsoll_disk_used_bytes{node="a",device="sdb"} 2"#,
                concat!(
                    r#"plimsoll_sensors_unread{node="a",sensor="temperature_celsius","#,
                    r#"state="unsupported",reason="no_driver"} 2"#
                ),
                concat!(
                    r#"plimsoll_sensors_unread{node="a",sensor="temperature_celsius","#,
                    r#"state="failed",reason="io"} 1"#
                ),
                r#"plimsoll_sensors_unread{node="b",sensor="cpu_usage_ratio",state="stale"} 1"#,
            ]
        );
    }
}
