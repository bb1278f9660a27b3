//! `plimsoll statistics`: summary statistics of one operation at running aggregators.

use anyhow::Result;
use clap::Args;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::figure::{counted, span};
use plimsoll_schemas::summary::StatisticsPage;
use plimsoll_schemas::unit::Unit;

use crate::targets::{Targets, with_parameters};

const PATH: &str = "/api/v1/statistics";

/// Show count, mean, deviation and percentiles of an operation
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll statistics epoch_hook
  plimsoll statistics epoch_hook --node n7 --window 5m --json | jq .p999")]
pub struct StatisticsArgs {
    /// The operation
    #[arg(required_unless_present = "named")]
    operation: Option<String>,
    /// The operation, as a flag
    #[arg(long = "operation", value_name = "OPERATION", conflicts_with = "operation")]
    named: Option<String>,
    /// The node; without it, the fleet
    #[arg(long)]
    node: Option<String>,
    /// The window that ends now: 10s, 1m, 5m, 30m, 1h, 2h, 6h, 1d, 3d or 30d; without it, the total
    #[arg(long)]
    window: Option<String>,
    #[command(flatten)]
    at: Targets,
}

/// Shows the statistics of each aggregator.
///
/// # Errors
/// When an aggregator does not respond, or rejects the request.
pub async fn statistics(args: &StatisticsArgs) -> Result<Exit> {
    // One of the two is there, or the arguments were rejected.
    let operation = if args.operation.is_some() { &args.operation } else { &args.named };
    let query = [("operation", operation), ("node", &args.node), ("window", &args.window)];
    let path = with_parameters(PATH, &query);
    args.at.show(&path, lines).await
}

fn lines(page: &StatisticsPage) -> String {
    let window = page.window.map_or("total".to_owned(), |window| window.to_string());
    let (operation, scope, stats) = (&page.operation, &page.scope, &page.stats);
    let about = if page.approximate { " (approximate)" } else { "" };
    let age = page.freshness.age_seconds(page.at_seconds).filter(|_| page.freshness.stale);
    let old =
        age.map_or(String::new(), |age| format!(", stale: no data for {}", span(age.round())));
    let samples = counted(stats.count, "sample");
    let mut text = format!("{operation} of {scope}, {window}: {samples}{about}{old}\n");

    let unit = Unit::of(operation);
    for (name, value) in [
        ("mean", stats.mean),
        ("std", stats.std),
        ("min", stats.min),
        ("p50", stats.p50),
        ("p90", stats.p90),
        ("p95", stats.p95),
        ("p99", stats.p99),
        ("p999", stats.p999),
        ("max", stats.max),
    ] {
        let shown = value.map_or("-".to_owned(), |value| unit.text(value));
        text += &format!("{name:<4} {shown:>12}\n");
    }

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_an_argument_or_a_flag_here_and_of_a_query() {
        use clap::Parser;

        use crate::args::{Cli, Command};

        for command in ["statistics", "query"] {
            let parse = |words: &[&str]| {
                let all = [&["plimsoll", command], words].concat();
                Cli::try_parse_from(all).map(|cli| match cli.command {
                    Command::Statistics(args) => (args.operation, args.named),
                    Command::Query(args) => args.operations_given(),
                    other => panic!("{other:?}"),
                })
            };
            let name = || Some("fetch".to_owned());
            assert_eq!(parse(&["fetch", "--json"]).unwrap(), (name(), None), "{command}");
            assert_eq!(parse(&["--operation", "fetch"]).unwrap(), (None, name()), "{command}");
            assert!(parse(&["fetch", "--operation", "fetch"]).is_err(), "{command}");
            assert_eq!(parse(&[]).is_ok(), command == "query", "{command}");
        }
    }

    #[test]
    fn statistics_are_shown_in_fitting_units_and_absent_ones_as_a_dash() {
        let page = r#"{"mesh":"m","at_seconds":1.0,"ready":true,"operation":"fetch",
            "scope":{"node":"n7"},"window":"5m","unit":"seconds","approximate":true,"count":4,
            "mean":0.0125,"std":null,"min":0.0000055,"max":2.25,"p50":0.0125,"p90":null,
            "p95":null,"p99":null,"p999":null}"#;
        let shown = lines(&serde_json::from_str(page).unwrap());
        let old = page.replace("\"ready\"", "\"as_of_seconds\":-28.0,\"stale\":true,\"ready\"");
        let old = lines(&serde_json::from_str(&old).unwrap());
        assert!(old.contains("4 samples (approximate), stale: no data for 29 s\n"), "{old}");
        let sizes = page.replace("fetch", "fetch:bytes").replace("2.25", "3145728");
        let sizes = lines(&serde_json::from_str(&sizes).unwrap());
        assert!(sizes.ends_with("max         3 MiB\n"), "{sizes}");
        let (head, rows) = shown.split_once('\n').unwrap();
        assert_eq!(head, "fetch of node n7, 5m: 4 samples (approximate)");
        let rows: Vec<Vec<&str>> =
            rows.lines().map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["mean", "12.5", "ms"]);
        assert_eq!(rows[1..3], [vec!["std", "-"], vec!["min", "5.5", "µs"]]);
        assert_eq!((rows.len(), &rows[8]), (9, &vec!["max", "2.25", "s"]));
    }
}
