//! The readings of nodes and the rate of a run, judged by the targets of a platform. Pure.

use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::hardware::SensorState;
use plimsoll_schemas::summary::{NodeHardware, Presence, ReadingRow};
use serde::Serialize;

use super::platform::{Figure, Placement, Platform, Target};

/// A platform's targets and what was found.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct CheckReport {
    pub(super) baseline: String,
    pub(super) verdict: CheckVerdict,
    pub(super) rows: Vec<CheckRow>,
    /// Whether there are nodes beyond those that are checked.
    pub(super) has_more_nodes: bool,
}

/// The verdict of the whole, the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckVerdict {
    /// A figure is outside of its target.
    Missed,
    /// A figure is not measured.
    NotMeasured,
    Met,
}

/// One target.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct CheckRow {
    /// The node, or the run, that the value is of.
    pub(super) of: String,
    #[serde(flatten)]
    pub(super) target: Target,
    pub(super) value: Option<f64>,
    pub(super) placement: Option<Placement>,
    pub(super) is_met: bool,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_measured: Option<String>,
}

/// The rate of tokens, of what, or why it is unknown.
pub(super) struct TokenRate {
    pub(super) of: String,
    pub(super) value: Result<f64, String>,
}

impl CheckReport {
    pub(super) fn of(
        platform: &Platform,
        rate: &TokenRate,
        nodes: &[NodeHardware],
        has_more_nodes: bool,
    ) -> Self {
        let mut rows = Vec::new();
        for target in &platform.targets {
            if target.figure == Figure::TokensPerSecond {
                rows.push(CheckRow::of(rate.of.clone(), *target, rate.value.clone()));
            }
        }

        let of_machine = |target: &&Target| target.figure != Figure::TokensPerSecond;
        for node in nodes {
            for target in platform.targets.iter().filter(of_machine) {
                let value = reading(target.figure, node);
                rows.push(CheckRow::of(node.node.clone(), *target, value));
            }
        }

        let is_missed = |row: &CheckRow| row.placement.is_some() && !row.is_met;
        let verdict = match &rows {
            rows if rows.iter().any(is_missed) => CheckVerdict::Missed,
            rows if rows.iter().all(|row| row.is_met) && !nodes.is_empty() => CheckVerdict::Met,
            _ => CheckVerdict::NotMeasured,
        };
        Self { baseline: platform.name.clone(), verdict, rows, has_more_nodes }
    }

    /// As the verdicts of `plimsoll compare` have them.
    pub(super) fn exit(&self) -> Exit {
        match self.verdict {
            CheckVerdict::Met => Exit::Success,
            CheckVerdict::Missed => Exit::Worse,
            CheckVerdict::NotMeasured => Exit::NotEnoughData,
        }
    }

    pub(super) fn table(&self) -> String {
        let mut text =
            format!("{:<24} {:<16} {:>12}  {:<18} VERDICT\n", "OF", "FIGURE", "VALUE", "TARGET");
        for CheckRow { of, target, value, placement, not_measured, .. } in &self.rows {
            let figure = target.figure;
            let value = value.map_or("-".to_owned(), |value| figure.text(value));
            let verdict = match (placement, not_measured) {
                (Some(placement), _) => placement.as_str().to_owned(),
                (None, why) => format!("not measured: {}", why.as_deref().unwrap_or_default()),
            };
            let (title, target) = (figure.title(), target.text());
            text += &format!("{of:<24} {title:<16} {value:>12}  {target:<18} {verdict}\n");
        }

        let verdict = match self.verdict {
            CheckVerdict::Met => "met",
            CheckVerdict::Missed => "missed",
            CheckVerdict::NotMeasured => "not measured as a whole",
        };
        text += &format!("\n{}: {verdict}\n", self.baseline);
        if self.has_more_nodes {
            text += "There are more nodes: check others with --node.\n";
        }
        text
    }
}

impl CheckRow {
    fn of(of: String, target: Target, value: Result<f64, String>) -> Self {
        // A rate of 0 / 0 is no value.
        let value = value.and_then(|value| match value.is_finite() {
            true => Ok(value),
            false => Err("it is not a number".to_owned()),
        });
        let placement = value.as_ref().ok().map(|value| target.place(*value));
        Self {
            of,
            target,
            is_met: placement.is_some_and(|at| target.is_met(at)),
            placement,
            not_measured: value.as_ref().err().cloned(),
            value: value.ok(),
        }
    }
}

/// The current value of a machine's figure: of several GPUs the hottest, and their mean use.
fn reading(figure: Figure, node: &NodeHardware) -> Result<f64, String> {
    if node.presence != Presence::Up {
        return Err(format!("the node is {}", node.presence.as_str()));
    }
    let (sensor, rows) = match figure {
        Figure::TokensPerSecond => return Err("it is no reading of a machine".to_owned()),
        Figure::MemoryUsedBytes => named(node, "memory_used_bytes"),
        Figure::GpuUtilizationRatio => named(node, "gpu_utilization_ratio"),
        Figure::CpuUsageRatio => named(node, "cpu_usage_ratio"),
        Figure::GpuTemperatureCelsius => match named(node, "gpu_temperature_celsius") {
            (sensor, rows) if rows.iter().any(|row| row.value.is_some()) => (sensor, rows),
            // A Jetson has no NVML for its GPU; the kernel has its thermometer.
            (sensor, _) => (sensor, thermometers(node)),
        },
    };

    let values: Vec<f64> = rows.iter().filter_map(|row| row.value).collect();
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    match figure {
        _ if values.is_empty() => Err(why(sensor, &rows)),
        Figure::GpuUtilizationRatio => Ok(values.iter().sum::<f64>() / f64::from(count)),
        _ => Ok(values.into_iter().fold(f64::MIN, f64::max)),
    }
}

fn named<'n>(node: &'n NodeHardware, sensor: &'static str) -> (&'static str, Vec<&'n ReadingRow>) {
    (sensor, node.readings.iter().filter(|row| row.sensor == sensor).collect())
}

fn thermometers(node: &NodeHardware) -> Vec<&ReadingRow> {
    let is_gpu = |row: &&ReadingRow| {
        let component = row.labels.get("component").unwrap_or_default();
        row.sensor == "temperature_celsius" && component.to_ascii_uppercase().contains("GPU")
    };
    node.readings.iter().filter(is_gpu).collect()
}

fn why(sensor: &str, rows: &[&ReadingRow]) -> String {
    let missing = rows.iter().find(|row| row.state != SensorState::Ok);
    match missing {
        None => format!("the node sends no {sensor}"),
        Some(row) => {
            let reason = row.reason.as_deref().map(|reason| format!(" ({reason})"));
            format!("{sensor} is {}{}", row.state.as_str(), reason.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::platform::shipped;
    use super::*;

    fn node(name: &str, readings: &[(&str, &str, Option<f64>)]) -> NodeHardware {
        let reading = |(sensor, component, value): &(&str, &str, Option<f64>)| {
            let state = if value.is_some() { "ok" } else { "unsupported" };
            json!({"sensor": sensor, "labels": {"component": component}, "unit": null,
                "state": state, "value": value, "reason": value.is_none().then_some("no_driver")})
        };
        let readings: Vec<_> = readings.iter().map(reading).collect();
        serde_json::from_value(json!({"node": name, "presence": "up", "outdated": false,
            "received_at_seconds": 1.0, "readings": readings}))
        .unwrap()
    }

    fn rate(value: Result<f64, &str>) -> TokenRate {
        TokenRate { of: "run:v1".to_owned(), value: value.map_err(str::to_owned) }
    }

    fn platform(name: &str) -> Platform {
        shipped().into_iter().find(|of| of.name == name).unwrap()
    }

    #[test]
    fn a_job_within_all_targets_meets_the_baseline() {
        let nodes = [node(
            "n1",
            &[("memory_used_bytes", "", Some(2e9)), ("cpu_usage_ratio", "", Some(0.8))],
        )];
        let report = CheckReport::of(&platform("x86"), &rate(Ok(9.0)), &nodes, false);
        assert_eq!((report.verdict, report.exit() as u8), (CheckVerdict::Met, 0));
        let expected = "\
OF                       FIGURE                  VALUE  TARGET             VERDICT
run:v1                   tokens/s                    9  5 to 15            within
n1                       memory used          1.86 GiB  under 4 GiB        within
n1                       CPU busy                 80 %  70 % to 90 %       within

x86: met
";
        assert_eq!(report.table(), expected);
        let faster = CheckReport::of(&platform("x86"), &rate(Ok(90.0)), &nodes, false);
        assert_eq!(faster.verdict, CheckVerdict::Met);
    }

    #[test]
    fn what_is_missed_decides_over_what_is_not_measured() {
        let hot = node(
            "orin",
            &[
                ("gpu_temperature_celsius", "", None),
                ("gpu_utilization_ratio", "", None),
                ("temperature_celsius", "GPU-therm", Some(71.0)),
                ("temperature_celsius", "CPU-therm", Some(99.0)),
            ],
        );
        let report = CheckReport::of(&platform("jetson-orin-agx"), &rate(Err("x")), &[hot], true);
        assert_eq!((report.verdict, report.exit() as u8), (CheckVerdict::Missed, 7));
        let text = report.table();
        for part in [
            "not measured: x",
            "71 °C  under 70 °C        above",
            "not measured: gpu_utilization_ratio is unsupported (no_driver)",
            "not measured: the node sends no memory_used_bytes",
            "There are more nodes",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let silent = NodeHardware { presence: Presence::Silent, ..node("s", &[]) };
        let report = CheckReport::of(&platform("x86"), &rate(Ok(9.0)), &[silent], false);
        assert_eq!((report.verdict, report.exit() as u8), (CheckVerdict::NotMeasured, 9));
        assert!(report.table().contains("not measured: the node is silent"));
    }

    #[test]
    fn of_several_gpus_the_hottest_and_their_mean_use_count() {
        let many = node(
            "n",
            &[
                ("gpu_temperature_celsius", "0", Some(50.0)),
                ("gpu_temperature_celsius", "1", Some(60.0)),
                ("gpu_utilization_ratio", "0", Some(0.5)),
                ("gpu_utilization_ratio", "1", Some(1.0)),
            ],
        );
        assert_eq!(reading(Figure::GpuTemperatureCelsius, &many), Ok(60.0));
        assert_eq!(reading(Figure::GpuUtilizationRatio, &many), Ok(0.75));
    }

    proptest! {
        #[test]
        fn the_exit_code_is_zero_exactly_if_all_targets_are_met(
            tokens in 0.0..30.0, memory in 0.0..8e9, cpu in 0.0..1.0,
        ) {
            let readings = [
                ("memory_used_bytes", "", Some(memory)),
                ("cpu_usage_ratio", "", Some(cpu)),
            ];
            let report =
                CheckReport::of(&platform("x86"), &rate(Ok(tokens)), &[node("n", &readings)], false);
            let is_met = tokens >= 5.0 && memory < 4_294_967_296.0 && (0.7..=0.9).contains(&cpu);
            prop_assert_eq!(report.exit() as u8, if is_met { 0 } else { 7 });
        }
    }
}
