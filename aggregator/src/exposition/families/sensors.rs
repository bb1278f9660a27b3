//! Hardware sensors: one family for each in the catalogue, and the readings without a value. Each
//! reading is visited once, however many sensors there are.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{CATALOGUE, SensorState};

use super::external_numbers::ExternalNumbers;
use crate::core::fleet::{KnownReading, ReadingTable};
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, LabelSet, Rows, Value, Writer};

type LabelledReading<'v> = (&'v LabelSet, KnownReading<'v>);

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    for (sensor, readings) in CATALOGUE.iter().zip(by_sensor(page)) {
        let name = format!("plimsoll_node_{}", sensor.name);
        let family = if sensor.cumulative { Family::counter } else { Family::gauge };

        writer.family(family(&name, sensor.help), |rows| {
            let same_node =
                |one: &LabelledReading<'_>, two: &LabelledReading<'_>| std::ptr::eq(one.0, two.0);
            // A counter below zero, which no sensor has, would make readers reject the page.
            let is_valid = |value: f64| !sensor.cumulative || value >= 0.0;
            let of_nodes = readings.chunk_by(same_node);
            of_nodes.for_each(|readings| write_values(rows, readings, is_valid));
        });
    }

    let help = "Sensor readings of the node without a current value, by state and reason";
    writer.family(Family::gauge("plimsoll_node_missing_readings", help), |rows| {
        for (labels, node) in page.up_nodes() {
            write_missing(rows, labels, node.readings.get());
        }
    });
}

/// The readings of each sensor of the catalogue, node by node.
fn by_sensor<'p>(page: &'p LabelledView<'_>) -> Vec<Vec<LabelledReading<'p>>> {
    let mut by_sensor = vec![Vec::new(); CATALOGUE.len()];
    for (labels, node) in page.up_nodes() {
        for reading in node.readings.get().iter() {
            by_sensor[reading.place].push((labels, reading));
        }
    }
    by_sensor
}

fn write_values(
    rows: &mut Rows<'_>,
    readings: &[LabelledReading<'_>],
    is_valid: impl Fn(f64) -> bool,
) {
    let mut numbers = ExternalNumbers::default();
    for (_, reading) in readings {
        if let Some(value) = reading.value.filter(|value| is_valid(*value)) {
            *numbers.entry(reading.labels) = value;
        }
    }
    if let Some((node, _)) = readings.first() {
        numbers.write(rows, node);
    }
}

/// Counts of readings without a value. Nodes of older versions send no reason.
fn write_missing(rows: &mut Rows<'_>, node: &LabelSet, readings: &ReadingTable) {
    let mut causes: BTreeMap<(&str, SensorState, Option<&str>), u64> = BTreeMap::new();
    for reading in readings.iter().filter(|reading| reading.state != SensorState::Ok) {
        let cause = (reading.sensor().name, reading.state, reading.reason);
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
        CPU_USAGE_RATIO, DISK_USED_BYTES, LOAD1, MissingReading, Reading, TEMPERATURE_CELSIUS,
    };
    use plimsoll_schemas::ids::Labels;
    use plimsoll_schemas::wire::{Body, Hardware};

    use crate::core::tests::{Speaker, core, deliver, start};
    use crate::exposition::{Format, PageOptions, nodes_page};

    #[test]
    fn sensor_families_follow_the_catalogue_in_any_order_of_readings() {
        let mut core = core();
        let disk = |name| Labels::new([("device", name)]).unwrap();
        let of_a = vec![
            Reading::ok(&DISK_USED_BYTES, disk("sdb"), 2.0),
            Reading::absent(
                &TEMPERATURE_CELSIUS,
                disk("x"),
                MissingReading::unsupported("no_driver"),
            ),
            Reading::ok(&LOAD1, Labels::default(), 0.5),
            Reading::absent(
                &TEMPERATURE_CELSIUS,
                disk("y"),
                MissingReading::unsupported("no_driver"),
            ),
            Reading::ok(&DISK_USED_BYTES, disk("sda"), 1.0),
            Reading::ok(&CPU_USAGE_RATIO, Labels::default(), 0.25),
            Reading::absent(&TEMPERATURE_CELSIUS, disk("z"), MissingReading::failed("io")),
        ];
        let mut of_b = vec![Reading::ok(&LOAD1, Labels::default(), 1.5)];
        let mut stale =
            Reading::absent(&CPU_USAGE_RATIO, Labels::default(), MissingReading::stale("x"));
        stale.reason = None;
        of_b.push(stale);
        for (name, readings) in [("a", of_a), ("b", of_b)] {
            let body = Body::Hardware(Hardware::all(readings));
            deliver(&mut core, start(), &Speaker::new(name).message(start(), body, false));
        }
        let view = core.view(start().wall, "t");
        let page = nodes_page(&view, PageOptions { budgets: &[], aliases: false }, Format::Text);
        let page = String::from_utf8(page).unwrap();
        let names = ["cpu_usage", "load1", "disk_used", "missing_readings"];
        let names = names.map(|name| format!("plimsoll_node_{name}"));
        let is_ours = |line: &&str| names.iter().any(|name| line.starts_with(name));
        assert_eq!(
            page.lines().filter(is_ours).collect::<Vec<_>>(),
            [
                r#"plimsoll_node_cpu_usage_ratio{node="a"} 0.25"#,
                r#"plimsoll_node_load1{node="a"} 0.5"#,
                r#"plimsoll_node_load1{node="b"} 1.5"#,
                r#"plimsoll_node_disk_used_bytes{node="a",device="sda"} 1"#,
                r#"plimsoll_node_disk_used_bytes{node="a",device="sdb"} 2"#,
                concat!(
                    r#"plimsoll_node_missing_readings{node="a",sensor="temperature_celsius","#,
                    r#"state="unsupported",reason="no_driver"} 2"#
                ),
                concat!(
                    r#"plimsoll_node_missing_readings{node="a",sensor="temperature_celsius","#,
                    r#"state="failed",reason="io"} 1"#
                ),
                r#"plimsoll_node_missing_readings{node="b",sensor="cpu_usage_ratio",state="stale"} 1"#,
            ]
        );
    }
}
