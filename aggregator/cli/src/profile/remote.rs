//! `plimsoll profile cpu --node` and `plimsoll profile list`: captures that the aggregator orders.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::tz::TimeZone;
use plimsoll_clock::Stopwatch;
use plimsoll_profile::limits::ENCODED_BYTES_MAX;
use plimsoll_profile::{Profile, pprof};
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_schemas::figure::{bytes, count, counted};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::summary::{ProfileRow, ProfileState, ProfilesPage};
use plimsoll_schemas::wire::capture::CaptureFacts;
use serde_json::json;

use crate::targets::{Target, Targets, page, with_parameters};
use crate::terminal_text::safe;
use crate::time_range::shown;

const PATH: &str = "/api/v1/profiles";
/// Time between two requests for the state of a capture.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Time beyond the capture in which the aggregator has ended it, whatever the node does.
const WAIT_MAX: Duration = Duration::from_secs(150);

/// A process of a node, and how it is captured.
pub(super) struct RemoteOrder {
    pub(super) node: String,
    pub(super) pid: Option<i32>,
    pub(super) job: Option<String>,
    pub(super) labels: Vec<String>,
    pub(super) seconds: u32,
    pub(super) hz: u32,
}

/// List captures that an aggregator has ordered, and the profiles that it keeps
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile list
  plimsoll profile list --node n7
  plimsoll profile list --json | jq -r '.profiles[] | [.id, .state] | @tsv'

The page of the aggregator shows each as a flame graph, and the difference of two.")]
pub(super) struct ListArgs {
    /// Only captures of this node
    #[arg(long)]
    node: Option<String>,
    /// At most this many of the newest, up to 1000 [default: 100]
    #[arg(long)]
    limit: Option<String>,
    #[command(flatten)]
    at: Targets,
}

/// A capture that has a profile.
pub(super) struct RemoteProfile {
    pub(super) row: ProfileRow,
    pub(super) profile: Profile,
}

/// Orders a capture and waits for its profile; if there is none, the reason is printed.
pub(super) async fn capture(
    at: &Target,
    order: RemoteOrder,
) -> Result<Result<RemoteProfile, Exit>> {
    let api = at.api()?;
    let body = order.body()?;
    let text = api.request("POST", PATH, Some(&body)).await?;
    let row: ProfileRow = serde_json::from_str(&text).context("the order's answer")?;
    let id = row.id;
    eprintln!(
        "plimsoll: capture {id} of node {} starts at {}",
        row.node,
        shown(row.start_seconds, &TimeZone::system())
    );

    let Some(row) = ended(&api, row).await? else {
        bail!("capture {id} has not ended; `plimsoll profile list` shows its state");
    };
    if !row.state.has_profile() {
        fail("plimsoll", Exit::Failure, &why_none(&row));
        return Ok(Err(Exit::Failure));
    }
    let path = format!("{PATH}/{id}/pprof");
    let bytes = api.fetch(&path, "application/octet-stream", ENCODED_BYTES_MAX).await?;
    let profile = pprof::decode(&bytes).with_context(|| path)?;
    Ok(Ok(RemoteProfile { row, profile }))
}

/// The capture once it has ended; `None` if it does not.
async fn ended(api: &Api, ordered: ProfileRow) -> Result<Option<ProfileRow>> {
    let waiting = Stopwatch::start();
    let wait_max = WAIT_MAX + Duration::from_secs(ordered.seconds.into());
    let path = format!("{PATH}/{}", ordered.id);
    let mut found_pid = 0;
    while waiting.elapsed() < wait_max {
        tokio::time::sleep(POLL_EVERY).await;
        let row: ProfileRow = page(api, &path).await?;
        if row.state != ProfileState::Running {
            return Ok(Some(row));
        }
        if row.facts.pid != found_pid {
            found_pid = row.facts.pid;
            eprintln!("plimsoll: process {found_pid} {}", safe(&row.facts.command));
        }
    }
    Ok(None)
}

/// Why a capture has no profile, and what to change.
fn why_none(row: &ProfileRow) -> String {
    let ProfileRow { id, node, state, reason, facts, .. } = row;
    let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let fix = match facts.fix.as_str() {
        "" => String::new(),
        fix => format!("; {}", safe(fix)),
    };
    format!("capture {id} of node {node} is {}{reason}{fix}", state.as_str())
}

/// How a capture went, in one line.
pub(super) fn facts(row: &ProfileRow) -> String {
    let CaptureFacts { command, pid, python, samples, torn, lost, rung, fix, .. } = &row.facts;
    let part =
        if row.state == ProfileState::Torn { ", until it could no longer be read" } else { "" };
    let fix = if fix.is_empty() { String::new() } else { format!("; {}", safe(fix)) };
    format!(
        "{} (process {pid}, CPython {}) by the {}: {}; {} torn and {} lost{part}{fix}",
        safe(command),
        safe(python),
        safe(rung),
        counted(*samples, "stack"),
        count(*torn),
        count(*lost)
    )
}

/// Lists the captures of each aggregator.
pub(super) async fn list(args: &ListArgs) -> Result<Exit> {
    let given = [("node", &args.node), ("limit", &args.limit)];
    args.at.show(&with_parameters(PATH, &given), |page| table(page, &TimeZone::system())).await
}

fn table(page: &ProfilesPage, zone: &TimeZone) -> String {
    let mut text = format!(
        "{:<32} {:<8} {:<25} {:<16} {:>9}  WHAT\n",
        "ID", "STATE", "STARTED", "NODE", "SIZE"
    );
    text.extend(page.profiles.iter().map(|row| line(row, zone)));
    text
}

fn line(row: &ProfileRow, zone: &TimeZone) -> String {
    let ProfileRow { id, node, state, facts, .. } = row;
    let size = if state.has_profile() { bytes(row.bytes as f64) } else { "-".to_owned() };
    let operation = row.operation.iter().map(ToString::to_string);
    let labels = row.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let pid = (facts.pid > 0).then(|| format!("pid {}", facts.pid));
    let rule = row.rule.iter().map(|rule| format!("for {rule}"));
    let what = operation.chain(labels).chain(pid).chain(rule).chain(row.reason.clone());
    let what = what.collect::<Vec<_>>().join(" ");
    let (state, started) = (state.as_str(), shown(row.start_seconds, zone));
    let line = format!("{id:<32} {state:<8} {started:<25} {node:<16} {size:>9}  {what}");
    format!("{}\n", line.trim_end())
}

impl RemoteOrder {
    fn body(&self) -> Result<serde_json::Value> {
        let Self { node, pid, job, labels, seconds, hz } = self;
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => bail!("--label {text}: write it as KEY=VALUE"),
        };
        let labels = labels.iter().map(pair).collect::<Result<Vec<_>>>()?;
        let labels = Labels::new(labels).context("--label")?;
        Ok(json!({
            "node": node, "pid": pid, "operation": job, "labels": labels, "seconds": seconds,
            "hz": hz,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ProfileRow {
        serde_json::from_value(json!({
            "id": "0a".repeat(16), "node": "n7", "operation": "step", "labels": { "rank": "3" },
            "seconds": 10, "hz": 100, "start_seconds": 1_000_000, "rule": "step_slow",
            "peer": null, "state": "kept", "reason": null, "bytes": 2048,
            "facts": {
                "rung": "profiler", "pid": 42, "command": "train\u{1b}[31m", "python": "3.12.1",
                "samples": 990, "torn": 4, "lost": 6
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_capture_is_one_line_with_what_was_selected() {
        let refused = ProfileRow {
            state: ProfileState::Refused,
            reason: Some("no_key".to_owned()),
            rule: None,
            facts: CaptureFacts::default(),
            ..row()
        };
        let page = ProfilesPage { mesh: "m".to_owned(), profiles: vec![row(), refused] };
        let text = table(&page, &TimeZone::UTC);
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert!(lines[0].starts_with(&"0a".repeat(16)), "{text}");
        assert!(lines[0].contains(" kept ") && lines[0].contains(" 2 KiB  "), "{text}");
        assert!(lines[0].ends_with("step rank=3 pid 42 for step_slow"), "{text}");
        assert!(lines[1].ends_with("-  step rank=3 no_key"), "{text}");
    }

    #[test]
    fn facts_and_reasons_are_stated_with_the_fix_and_without_control_characters() {
        let text = facts(&row());
        assert!(
            text.contains("(process 42, CPython 3.12.1) by the profiler: 990 stacks"),
            "{text}"
        );
        assert!(text.contains("4 torn and 6 lost") && !text.contains('\u{1b}'), "{text}");
        let fix = "systemctl enable --now plimsoll-profiler.socket".to_owned();
        let failed = ProfileRow {
            state: ProfileState::Failed,
            reason: Some("no_profiler".to_owned()),
            facts: CaptureFacts { fix, ..CaptureFacts::default() },
            ..row()
        };
        let end =
            "of node n7 is failed (no_profiler); systemctl enable --now plimsoll-profiler.socket";
        assert!(why_none(&failed).ends_with(end), "{}", why_none(&failed));
    }

    #[test]
    fn an_order_names_a_label_that_is_none() {
        let order = |labels: &[&str]| RemoteOrder {
            node: "n7".to_owned(),
            pid: None,
            job: Some("step".to_owned()),
            labels: labels.iter().map(ToString::to_string).collect(),
            seconds: 10,
            hz: 50,
        };
        let body = order(&["rank=3", "role=a=b"]).body().unwrap();
        assert_eq!(body["labels"], json!({ "rank": "3", "role": "a=b" }));
        let error = order(&["rank"]).body().unwrap_err().to_string();
        assert_eq!(error, "--label rank: write it as KEY=VALUE");
    }
}
