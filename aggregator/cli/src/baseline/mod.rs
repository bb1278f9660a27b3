//! `plimsoll baseline`: what jobs reach on known platforms, and whether nodes and a run do.
//!
//! Two things are baselines: the targets of a platform, which ship and are checked here, and the
//! samples of a former run, which `plimsoll compare --baseline` saves and checks. `list` has both.
//!
//! DESIGN A191.

mod check;
mod platform;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::stdout::{print, print_line};
use plimsoll_schemas::summary::{HardwarePage, NodeHardware, Presence, RunRow};
use serde::{Deserialize, Serialize};

use crate::compare::saved_baselines;
use crate::runs;
use crate::targets::{Targets, page, with_parameters};
use check::{CheckReport, TokenRate};
use platform::{Platform, find, shipped};

const PATH: &str = "/api/v1/hardware";
/// Nodes that one check shows, the first by name: four pages of readings.
const NODES_MAX: usize = 256;

/// List, show and check baselines: targets of platforms
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll baseline list
  plimsoll baseline show jetson-nano
  plimsoll baseline check jetson-orin-agx --node orin3 --run v42 --tokens llm.tokens
  plimsoll baseline check x86 --json | jq '.rows[] | select(.is_met | not)'

A baseline here is the targets of a platform, which ship with this command. The samples of a former
run are a baseline of another kind: plimsoll compare --baseline save NAME run:v41.")]
pub struct BaselineArgs {
    #[command(subcommand)]
    command: BaselineCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum BaselineCommand {
    /// List the platforms with targets, and the baselines that plimsoll compare saved
    List(ListArgs),
    /// Show the targets of a platform
    Show(ShowArgs),
    /// Judge the current readings of nodes, and the rate of a run, by the targets of a platform
    Check(CheckArgs),
}

#[derive(Args, Clone, Debug)]
struct ListArgs {
    /// Directory of saved baselines [default: $XDG_DATA_HOME/plimsoll/baselines]
    #[arg(long, value_name = "DIR")]
    baseline_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
struct ShowArgs {
    /// The platform
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Readings are the newest of each node that is up: run it while the job
runs. Of several GPUs the hottest counts, and their mean use.

The exit code is 0 if all targets are met, 7 if one is missed, 9 if one is not measured. More
tokens a second than expected meet the target.")]
struct CheckArgs {
    /// The platform
    name: String,
    /// Check only this node [default: all that are up, at most 256]
    #[arg(long)]
    node: Option<String>,
    /// The run whose tokens a second are checked
    #[arg(long, requires = "tokens")]
    run: Option<String>,
    /// The counter that has its tokens
    #[arg(long, value_name = "COUNTER", requires = "run")]
    tokens: Option<String>,
    #[command(flatten)]
    at: Targets,
}

/// What is read of a counter's past.
#[derive(Deserialize)]
struct MetricPast {
    to_seconds: f64,
    points: Vec<MetricSum>,
}

#[derive(Deserialize)]
struct MetricSum {
    sum: f64,
}

#[derive(Serialize)]
struct Listed {
    platforms: Vec<Platform>,
    saved: Vec<String>,
}

/// Lists, shows or checks.
///
/// # Errors
/// When a baseline is unknown, or an aggregator does not respond or knows no such node.
pub async fn baseline(args: &BaselineArgs) -> Result<Exit> {
    match &args.command {
        BaselineCommand::List(args) => {
            let saved = saved_baselines(args.baseline_dir.clone());
            let listed = Listed { platforms: shipped(), saved };
            show(args.json, &listed, list)?;
            Ok(Exit::Success)
        }
        BaselineCommand::Show(args) => {
            show(args.json, &find(&args.name, &saved_baselines(None))?, targets)?;
            Ok(Exit::Success)
        }
        BaselineCommand::Check(args) => check(args).await,
    }
}

fn show<T: Serialize>(json: bool, value: &T, words: impl Fn(&T) -> String) -> Result<()> {
    if json {
        print_line(serde_json::to_string(value)?);
    } else {
        print(words(value));
    }
    Ok(())
}

fn list(listed: &Listed) -> String {
    let mut text = format!("{:<24} TARGETS OF\n", "BASELINE");
    for Platform { name, title, .. } in &listed.platforms {
        text += &format!("{name:<24} {title}\n");
    }
    if !listed.saved.is_empty() {
        text += "\nSaved by plimsoll compare, and checked by its --baseline check NAME:\n";
        text.extend(listed.saved.iter().map(|name| format!("{name}\n")));
    }
    text
}

fn targets(platform: &Platform) -> String {
    let mut text = format!("{}\n\n{:<16} TARGET\n", platform.title, "FIGURE");
    for target in &platform.targets {
        text += &format!("{:<16} {}\n", target.figure.title(), target.text());
    }
    text
}

async fn check(args: &CheckArgs) -> Result<Exit> {
    let platform = find(&args.name, &saved_baselines(None))?;
    let mut exit = Exit::Success;

    for api in args.at.apis()? {
        let rate = token_rate(&api, args).await;
        let mut nodes = readings(&api, &args.node).await?;
        // A node that is named is shown in any state; of a fleet, those that have current readings.
        nodes.retain(|node| args.node.is_some() || node.presence == Presence::Up);
        let has_more = nodes.len() > NODES_MAX;
        nodes.truncate(NODES_MAX);

        let report = CheckReport::of(&platform, &rate, &nodes, has_more);
        args.at.print(&serde_json::to_string(&report)?, || report.table());
        // The first aggregator that does not find all met decides.
        if exit == Exit::Success {
            exit = report.exit();
        }
    }

    Ok(exit)
}

/// The newest readings of one node or of all.
async fn readings(api: &Api, node: &Option<String>) -> Result<Vec<NodeHardware>> {
    let mut nodes = Vec::new();
    let mut after = None;
    loop {
        let path = with_parameters(PATH, &[("node", node), ("after", &after)]);
        let page: HardwarePage = page(api, &path).await?;
        nodes.extend(page.nodes);
        // Each page starts after the one before, so it ends; one more than are shown is known.
        if page.next.is_none() || page.next <= after || nodes.len() > NODES_MAX {
            return Ok(nodes);
        }
        after = page.next;
    }
}

/// Tokens a second of a run: what its counter grew by, over the length of the run.
async fn token_rate(api: &Api, args: &CheckArgs) -> TokenRate {
    let (Some(run), Some(metric)) = (&args.run, &args.tokens) else {
        let why = "name a run with --run and its counter with --tokens".to_owned();
        return TokenRate { of: "-".to_owned(), value: Err(why) };
    };
    let value = match runs::find(api, run).await {
        None => Err("the aggregator does not list this run".to_owned()),
        Some(row) => rate_of(api, metric, &row).await.map_err(|error| format!("{error:#}")),
    };
    TokenRate { of: format!("run:{run}"), value }
}

async fn rate_of(api: &Api, metric: &str, run: &RunRow) -> Result<f64> {
    let parameters = [
        ("metric", &Some(metric.to_owned())),
        ("rollup", &Some("run".to_owned())),
        ("value", &Some(run.name.to_string())),
        ("from", &Some(run.begun_seconds.to_string())),
        ("to", &run.ended_seconds.map(|end| end.to_string())),
    ];
    let past: MetricPast = page(api, &with_parameters("/api/v1/query", &parameters)).await?;
    Ok(past.rate_of(run))
}

impl MetricPast {
    /// The range is widened to whole slots, in which nothing of the run is outside of it.
    fn rate_of(&self, run: &RunRow) -> f64 {
        let grown: f64 = self.points.iter().map(|point| point.sum).sum();
        grown / (run.ended_seconds.unwrap_or(self.to_seconds) - run.begun_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_baselines_are_listed_and_named_as_what_they_are() {
        let listed = |saved| list(&Listed { platforms: shipped(), saved });
        let text = listed(vec!["v1.4".to_owned()]);
        assert!(text.starts_with("BASELINE                 TARGETS OF\njetson-orin-agx"), "{text}");
        assert!(text.ends_with("--baseline check NAME:\nv1.4\n"), "{text}");
        assert!(!listed(Vec::new()).contains("Saved"));
    }

    #[test]
    fn the_rate_of_a_run_is_over_its_own_length() {
        let past = r#"{"mesh":"m","from_seconds":90.0,"to_seconds":210.0,
            "points":[{"sum":600.0},{"sum":900.0}]}"#;
        let past: MetricPast = serde_json::from_str(past).unwrap();
        let run = |ended: &str| -> RunRow {
            let row = format!(
                r#"{{"name":"v1","state":"ended","begun_seconds":100.0,"ended_seconds":{ended},
                "exit_code":0,"origin":"command","labels":{{}},"commands":1,"nodes":[],
                "has_more_nodes":false}}"#
            );
            serde_json::from_str(&row).unwrap()
        };
        assert_eq!((past.rate_of(&run("200.0")), past.rate_of(&run("150.0"))), (15.0, 30.0));
        // One that runs on is measured up to the end of the answer.
        assert!((past.rate_of(&run("null")) - 1_500.0 / 110.0).abs() < 1e-9);
    }

    #[test]
    fn the_targets_of_a_platform_are_shown_with_their_units() {
        let expected = "\
x86 without a GPU

FIGURE           TARGET
tokens/s         5 to 15
memory used      under 4 GiB
CPU busy         70 % to 90 %
";
        assert_eq!(targets(&find("x86", &[]).unwrap()), expected);
    }
}
