//! `plimsoll query`: the past of one operation, from exact counts.

use anyhow::Result;
use clap::Args;
use jiff::Zoned;
use jiff::tz::TimeZone;
use plimsoll_compare::history::SecondsRange;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::figure::{bytes, counted, percent, quantile};
use plimsoll_schemas::summary::{HistoryPage, HistoryPoint, NodeHistory, OperationsPage};
use plimsoll_schemas::unit::Unit;

use crate::targets::{Targets, with_parameters};
use crate::time_range::{TimeRange, shown};

const PATH: &str = "/api/v1/query";
const OPERATIONS: &str = "/api/v1/operations";

/// Show quantiles of an operation at any past time
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll query epoch_hook --from 10:05 --to 10:10
  plimsoll query epoch_hook --last 2h --step 1m --quantiles 0.5,0.99 --over 18ms
  plimsoll query epoch_hook --rollup run --value v42 --last 1d --json | jq '.points[0].count'
  plimsoll query epoch_hook --node gpu7 --node gpu8 --last 5m --step 1s
  plimsoll query epoch_hook --node '*' --label rank=3 --from 10:05:00 --to 10:05:30
  plimsoll query                              list what the history has

Ranges are widened to whole slots of 10 s, 1 min, 10 min or 1 h: the finest that the history still
has at the start of the range. With --node, nodes are asked for their own histories (plimsoll-node
--history), which have every second; missing answers are stated. A sample belongs to the time at
which its node's interval ended. A time of day later than now is yesterday's; times without a time
zone are in the time zone of this machine ($TZ). COMPLETE is the share of the nodes' time that was
received.

Roll-ups without settings: run, rank and role, each by the label of this name.")]
pub struct QueryArgs {
    /// The operation; without it, the operations that the history has
    operation: Option<String>,
    /// The operation, as a flag
    #[arg(long = "operation", value_name = "OPERATION", conflicts_with = "operation")]
    named: Option<String>,
    #[command(flatten)]
    range: TimeRange,
    /// Duration of a point, such as 1m; without it, one point
    #[arg(long, value_name = "SPAN")]
    step: Option<String>,
    /// Quantiles, 0 to 1, separated by commas [default: 0.5,0.9,0.99,0.999]
    #[arg(long, value_name = "LIST")]
    quantiles: Option<String>,
    /// Limits over which samples are counted, such as 18ms,25ms
    #[arg(long, value_name = "LIST")]
    over: Option<String>,
    /// The roll-up, such as run; without it, the fleet
    #[arg(long, value_name = "NAME", requires = "value")]
    rollup: Option<String>,
    /// Value of a label of the roll-up; repeat it for each label, in their order
    #[arg(long, value_name = "VALUE", requires = "rollup")]
    value: Vec<String>,
    /// A node to ask for its own history, by the second; may be repeated, '*' asks all
    #[arg(long, value_name = "NAME", conflicts_with = "rollup")]
    node: Vec<String>,
    /// Label that series or their nodes must have, with --node; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "node")]
    label: Vec<String>,
    /// Include the samples by bucket, with --json
    #[arg(long)]
    distribution: bool,
    #[command(flatten)]
    at: Targets,
}

/// Shows the answer of each aggregator.
///
/// # Errors
/// When a time is not understood, or an aggregator does not respond or rejects the request.
pub async fn query(args: &QueryArgs) -> Result<Exit> {
    let given = args.operation.as_ref().or(args.named.as_ref());
    let Some(operation) = given else {
        return args.at.show(OPERATIONS, |page| list(page, &TimeZone::system())).await;
    };

    let now = Zoned::now();
    let range = args.range.seconds(&now)?;

    let mut parameters = vec![
        ("operation", Some(operation.clone())),
        ("from", Some(range.from.to_string())),
        ("to", Some(range.to.to_string())),
        ("step", args.step.clone()),
        ("quantiles", args.quantiles.clone()),
        ("over", args.over.clone()),
        ("rollup", args.rollup.clone()),
        ("distribution", args.distribution.then(|| "true".to_owned())),
    ];

    let repeated = [("value", &args.value), ("node", &args.node), ("label", &args.label)];
    for (key, values) in repeated {
        parameters.extend(values.iter().map(|value| (key, Some(value.clone()))));
    }
    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
    let path = with_parameters(PATH, &parameters);

    args.at.show(&path, |page| table(page, now.time_zone())).await
}

#[cfg(test)]
impl QueryArgs {
    /// The operation as an argument and as a flag.
    pub(crate) fn operations_given(self) -> (Option<String>, Option<String>) {
        (self.operation, self.named)
    }
}

fn table(page: &HistoryPage, zone: &TimeZone) -> String {
    let scope = match (&page.rollup, &page.values, &page.nodes) {
        (Some(rollup), Some(values), _) => format!("{rollup} {}", values.join(", ")),
        (_, _, Some(nodes)) if nodes.len() == 1 => nodes[0].node.clone(),
        (_, _, Some(nodes)) => counted(nodes.len() as u64, "node"),
        _ => "fleet".to_owned(),
    };

    let (from, to) = (shown(page.from_seconds, zone), shown(page.to_seconds, zone));
    let (operation, resolution) = (&page.operation, &page.resolution);
    let unit = Unit::of(operation);
    let mut text = format!("{operation} of {scope}, {from} to {to}, slots of {resolution}\n");

    // Points without samples have no quantiles, and the first may be one of them.
    let columns = page.points.iter().find(|point| point.count > 0);
    let quantiles = columns.map_or(&[][..], |point| &point.quantiles);
    text += &format!("{:<25} {:>11} {:>8}", "FROM", "SAMPLES", "COMPLETE");
    for found in quantiles {
        text += &format!(" {:>10}", quantile(found.quantile).to_uppercase());
    }
    text += &format!(" {:>10}", "MAX");
    for over in page.points.first().iter().flat_map(|point| &point.over) {
        text += &format!(" {:>12}", format!("> {}", unit.text(over.limit)));
    }
    text.push('\n');

    text.extend(page.points.iter().map(|point| row(point, zone, quantiles.len(), unit)));
    let range = SecondsRange { from: page.from_seconds, to: page.to_seconds };
    text.extend(page.nodes.iter().flatten().map(|node| missing(node, range, zone)));
    text
}

/// What a node's own history lacks of the range, if anything, a line for each reason.
pub(crate) fn missing(node: &NodeHistory, range: SecondsRange, zone: &TimeZone) -> String {
    let name = &node.node;
    let mut text = match (&node.error, node.kept_from_seconds) {
        (Some(error), _) if node.answered_from_seconds < range.to => {
            let until = shown(node.answered_from_seconds, zone);
            format!("{name}: nothing before {until}: {error}\n")
        }
        (Some(error), _) => format!("{name}: {error}\n"),
        (None, None) => format!("{name}: its history is empty\n"),
        (None, Some(kept)) if kept > range.from + 1.0 => {
            format!("{name}: its history starts at {}\n", shown(kept, zone))
        }
        (None, Some(_)) => String::new(),
    };

    if node.missing > 0 {
        text += &format!("{name}: its history lacks {}\n", counted(node.missing, "message"));
    }
    text
}

fn row(point: &HistoryPoint, zone: &TimeZone, quantiles: usize, unit: Unit) -> String {
    let value = |shown: Option<f64>| shown.map_or("-".to_owned(), |shown| unit.text(shown));
    let from = shown(point.from_seconds, zone);
    let complete = point.completeness.map_or("?".to_owned(), percent);
    let mut text = format!("{from:<25} {:>11} {complete:>8}", point.count);

    for place in 0..quantiles {
        let found = point.quantiles.get(place).map(|found| found.value);
        text += &format!(" {:>10}", value(found));
    }

    text += &format!(" {:>10}", value(point.max));

    for over in &point.over {
        let uncertain =
            if over.uncertain > 0 { format!("+{}", over.uncertain) } else { String::new() };
        text += &format!(" {:>12}", format!("{}{uncertain}", over.over));
    }

    text + "\n"
}

fn list(page: &OperationsPage, zone: &TimeZone) -> String {
    let mut text = format!("history since {}\n", shown(page.kept_from_seconds, zone));
    for tier in &page.tiers {
        let (from, bytes) = (shown(tier.kept_from_seconds, zone), bytes(tier.bytes as f64));
        text += &format!("{:>4} slots since {from}, {bytes}\n", tier.resolution);
    }
    text.push_str("\nOPERATION\n");
    text.extend(page.operations.iter().map(|operation| format!("{operation}\n")));
    for group in &page.groups {
        let values: String = group.values.iter().map(|value| format!(" --value {value}")).collect();
        text += &format!("{} --rollup {}{values}\n", group.operation, group.rollup);
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_point_and_states_what_is_missing() {
        let page = r#"{"mesh":"m","operation":"fetch","unit":"seconds","from_seconds":0.0,
            "to_seconds":20.0,"resolution":"10s","step_seconds":10.0,"kept_from_seconds":0.0,
            "points":[{"from_seconds":0.0,"to_seconds":10.0,"count":3,"mean":0.01,"min":0.001,
            "max":0.02,"approximate":false,"quantiles":[{"quantile":0.99,"value":0.02,
            "lower":0.0199,"upper":0.02}],"over":[{"limit":0.018,"over":1,"uncertain":2}],
            "completeness":0.5},{"from_seconds":10.0,"to_seconds":20.0,"count":0,"mean":null,
            "min":null,"max":null,"approximate":false,"quantiles":[],
            "over":[{"limit":0.018,"over":0,"uncertain":0}],"completeness":null}]}"#;
        let zone = TimeZone::fixed(Offset::from_hours(1).unwrap());
        let text = table(&serde_json::from_str(page).unwrap(), &zone);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..3], ["fetch", "of", "fleet,"]);
        assert_eq!(rows[1], ["FROM", "SAMPLES", "COMPLETE", "P99", "MAX", ">", "18", "ms"]);
        let first = ["1970-01-01", "01:00:00+01:00", "3", "50", "%", "20", "ms", "20", "ms", "1+2"];
        assert_eq!(rows[2], first);
        assert_eq!(rows[3][2..], ["0", "?", "-", "-", "0"]);
    }
}
