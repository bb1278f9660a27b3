//! `plimsoll runs`: the runs that an aggregator keeps, newest first.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use jiff::tz::TimeZone;
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::summary::{RunRow, RunsPage};

use crate::targets::{Targets, page, with_parameters};
use crate::time_range::shown;

const PATH: &str = "/api/v1/runs";
/// Runs that one answer has: all that an aggregator keeps.
const RUNS_MAX: usize = 1_000;

/// List the runs that an aggregator keeps
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll runs
  plimsoll runs --state running
  plimsoll runs --limit 1000 --json | jq '.runs[] | select(.exit_code > 0) | .name'

A run starts and ends with the command of `plimsoll run`, or over HTTP. Its state is `no_end` if no
end was reported and nothing was received for an hour. To use runs: `plimsoll compare run:A run:B`
and `plimsoll report run:A`.")]
pub struct RunsArgs {
    /// Only runs in this state: running, ended or no_end
    #[arg(long)]
    state: Option<String>,
    /// At most this many of the newest, up to 1000 [default: 100]
    #[arg(long)]
    limit: Option<String>,
    #[command(flatten)]
    at: Targets,
}

/// What an aggregator states of a run; `None` if it does not know it, or keeps no runs.
pub(crate) async fn find(api: &Api, name: &str) -> Option<RunRow> {
    let found: Result<RunsPage> = page(api, &format!("{PATH}?limit={RUNS_MAX}")).await;
    found.ok()?.runs.into_iter().find(|run| run.name.as_str() == name)
}

/// The run that the subject of a command names.
///
/// # Errors
/// When it names none.
pub(crate) fn run_of(subject: &str) -> Result<&str> {
    let named = subject.strip_prefix("run:");
    named.with_context(|| format!("{subject:?}: write run:NAME, or --from and --to"))
}

/// Shows the runs of each aggregator.
///
/// # Errors
/// When an aggregator does not respond, or rejects the request.
pub async fn runs(args: &RunsArgs) -> Result<Exit> {
    let path = with_parameters(PATH, &[("state", &args.state), ("limit", &args.limit)]);
    args.at.show(&path, |page| table(page, &TimeZone::system())).await
}

fn table(page: &RunsPage, zone: &TimeZone) -> String {
    let mut text = format!(
        "{:<24} {:<8} {:<25} {:>12} {:>4} {:>5}  LABELS\n",
        "RUN", "STATE", "STARTED", "DURATION", "EXIT", "NODES"
    );
    text.extend(page.runs.iter().map(|run| line(run, page.at_seconds, zone)));
    let not_kept = page.runs.iter().filter_map(|run| run.not_kept(|_| true));
    text.extend(not_kept.map(|why| format!("\n{why}\n")));
    if !page.ready {
        text.push_str("\nThe aggregator still reads the streams' backlog.\n");
    }
    text
}

fn line(run: &RunRow, now: f64, zone: &TimeZone) -> String {
    let RunRow { name, state, begun_seconds, ended_seconds, exit_code, .. } = run;
    let (name, state) = (name.as_str(), state.as_str());
    let duration = (ended_seconds.unwrap_or(now) - begun_seconds).round();
    let duration = Duration::try_from_secs_f64(duration).unwrap_or_default();
    let duration = humantime::format_duration(duration).to_string();
    let exit = exit_code.map_or("-".to_owned(), |code| code.to_string());

    let more = if run.has_more_nodes { "+" } else { "" };
    let nodes = format!("{}{more}", run.nodes.len());
    let by = run.by.iter().map(|by| format!("by={by}"));
    let labels = run.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let labels = labels.chain(by).collect::<Vec<_>>().join(" ");

    let started = shown(*begun_seconds, zone);
    let row = format!(
        "{name:<24} {state:<8} {started:<25} {duration:>12} {exit:>4} {nodes:>5}  {labels}"
    );
    format!("{}\n", row.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_length_its_exit_code_and_its_nodes() {
        let page = r#"{"mesh":"m","at_seconds":200.0,"ready":true,"runs":[
            {"name":"v42","state":"running","begun_seconds":80.0,"ended_seconds":null,
             "exit_code":null,"origin":"client","by":"ann","labels":{"rank":"3"},"commands":0,
             "nodes":["n1","n2"],"has_more_nodes":true},
            {"name":"v41","state":"ended","begun_seconds":0.0,"ended_seconds":62.0,"exit_code":3,
             "origin":"command","labels":{},"commands":1,"nodes":[],"has_more_nodes":false}]}"#;
        let text = table(&serde_json::from_str(page).unwrap(), &TimeZone::UTC);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["RUN", "STATE", "STARTED", "DURATION", "EXIT", "NODES", "LABELS"]);
        assert_eq!(rows[1][..2], ["v42", "running"]);
        assert_eq!(rows[1][4..], ["2m", "-", "2+", "rank=3", "by=ann"]);
        assert_eq!(rows[2][..2], ["v41", "ended"]);
        assert_eq!(rows[2][4..], ["1m", "2s", "3", "0"]);
    }

    #[test]
    fn a_run_that_is_not_kept_by_itself_is_named_with_the_bound() {
        let page = r#"{"mesh":"m","at_seconds":200.0,"ready":true,"runs":[
            {"name":"v42","state":"ended","begun_seconds":80.0,"ended_seconds":90.0,
             "exit_code":0,"origin":"command","labels":{},"commands":1,"nodes":["n1"],
             "has_more_nodes":false,"folded":{"fetch":7,"step":5}}]}"#;
        let text = table(&serde_json::from_str(page).unwrap(), &TimeZone::UTC);
        assert_eq!(
            text.lines().last().unwrap(),
            "run \"v42\" is not kept by itself: 256 groups of one run and one operation are, and \
             12 of its samples are in the group \"other\" with those of other runs (of fetch, step)"
        );
    }
}
