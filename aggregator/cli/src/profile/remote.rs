//! `plimsoll profile cpu --node`: a capture that the aggregator orders.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::tz::TimeZone;
use plimsoll_clock::Stopwatch;
use plimsoll_profile::limits::ENCODED_BYTES_MAX;
use plimsoll_profile::{Profile, pprof};
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::summary::{NodesSummed, ProfileRow, ProfileState};
use plimsoll_schemas::wire::capture::{CaptureFacts, CaptureKind};
use serde_json::{Value, json};

use super::captured::Captured;
use super::{CpuArgs, text};
use crate::targets::page;
use crate::terminal_text::safe;
use crate::time_range::shown;

pub(super) const PATH: &str = "/api/v1/profiles";
/// Time between two requests for the state of a capture.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Time beyond the capture in which the aggregator has ended it, whatever the node does.
const WAIT_MAX: Duration = Duration::from_secs(150);

/// Orders a capture and waits for its profile; if there is none, the reason is printed.
pub(super) async fn captured(node: &str, args: &CpuArgs) -> Result<Result<Captured, Exit>> {
    kept(&args.at.api()?, &body(node, args)?).await
}

/// The same for an order as the API takes it.
pub(super) async fn kept(api: &Api, body: &Value) -> Result<Result<Captured, Exit>> {
    let row = match ordered(api, body).await? {
        Ok(row) => row,
        Err(exit) => return Ok(Err(exit)),
    };
    let id = row.id.to_string();
    let path = format!("{PATH}/{id}/pprof");
    let bytes = api.fetch(&path, "application/octet-stream", ENCODED_BYTES_MAX).await?;
    let profile = pprof::decode(&bytes).with_context(|| path)?;
    let process = match row.facts.pid {
        0 => String::new(),
        pid => format!(", process {pid}"),
    };
    let facts = if row.kind == CaptureKind::Past { of_past(&row, &profile) } else { facts(&row) };
    Ok(Ok(Captured { title: row.subject() + &process, id: Some(id), facts, profile }))
}

/// Orders a capture and waits until its result is kept; if there is none, the reason is printed.
pub(super) async fn ordered(api: &Api, body: &Value) -> Result<Result<ProfileRow, Exit>> {
    let text = api.request("POST", PATH, Some(body)).await?;
    let row: ProfileRow = serde_json::from_str(&text).context("the order's answer")?;
    let (id, starts) = (row.id, shown(row.made_at(), &TimeZone::system()));
    let of = match &row.nodes {
        Some(NodesSummed { asked, left_out: 0, .. }) => format!("{asked} nodes"),
        Some(NodesSummed { asked, left_out, .. }) => {
            format!("{asked} nodes ({left_out} are left out: name others)")
        }
        None => format!("node {}", row.node),
    };
    eprintln!("plimsoll: capture {id} of {of} starts at {starts}");

    let row = ended(api, row).await?;
    if !row.state.has_profile() {
        fail("plimsoll", Exit::Failure, &why_none(&row));
        return Ok(Err(Exit::Failure));
    }
    Ok(Ok(row))
}

fn body(node: &str, args: &CpuArgs) -> Result<Value> {
    let CpuArgs { pid, job, seconds, rate, native, .. } = args;
    let labels = labels(&args.labels)?;
    Ok(json!({
        "node": node, "pid": pid, "operation": job, "labels": labels, "seconds": seconds,
        "hz": rate, "native": native,
    }))
}

/// Labels as options state them.
pub(super) fn labels(texts: &[String]) -> Result<Labels> {
    let labels = texts.iter().map(|text| {
        text.split_once('=').with_context(|| format!("--label {text}: write it as KEY=VALUE"))
    });
    Labels::new(labels.collect::<Result<Vec<_>>>()?).context("--label")
}

/// The capture once it has ended.
async fn ended(api: &Api, ordered: ProfileRow) -> Result<ProfileRow> {
    let waiting = Stopwatch::start();
    let wait_max = WAIT_MAX + Duration::from_secs(ordered.seconds.into());
    let path = format!("{PATH}/{}", ordered.id);
    while waiting.elapsed() < wait_max {
        tokio::time::sleep(POLL_EVERY).await;
        let row: ProfileRow = page(api, &path).await?;
        if row.state != ProfileState::Running {
            return Ok(row);
        }
    }
    bail!("capture {} has not ended; the page of the aggregator shows its state", ordered.id)
}

/// Why a capture has no profile, and what to change.
fn why_none(row: &ProfileRow) -> String {
    let ProfileRow { id, state, reason, facts, .. } = row;
    let of = match row.nodes {
        Some(_) => row.subject(),
        None => format!("node {}", row.node),
    };
    let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("capture {id} of {of} is {}{reason}{}", state.as_str(), fix(facts))
}

/// How a capture went, in one line.
fn facts(row: &ProfileRow) -> String {
    let CaptureFacts { command, pid, python, rung, samples, torn, lost, .. } = &row.facts;
    let read = match row.kind {
        CaptureKind::Memory => counted(*samples, "block"),
        _ => text::stacks(*samples, *torn, *lost),
    };
    let is_torn = row.state == ProfileState::Torn;
    let part = if is_torn { ", until it could no longer be read" } else { "" };
    format!(
        "{} (process {pid}, CPython {}) by the {}{part}: {}{}",
        safe(command),
        safe(python),
        safe(rung),
        read,
        fix(&row.facts)
    )
}

/// What a stretch of the past is made of, and which nodes are missing.
fn of_past(row: &ProfileRow, profile: &Profile) -> String {
    let summed = row.nodes.as_ref();
    let nodes = summed.map_or_else(|| "1 of 1 nodes".to_owned(), |_| row.subject());
    let missing = summed.into_iter().flat_map(|of| &of.missing);
    let missing = missing.map(|(node, why)| format!("; node {node}: {why}"));
    let comments = profile.comments().filter_map(|of| of.as_str().strip_prefix("plimsoll."));
    let comments: Vec<&str> = comments.collect();
    format!("{nodes}{}; {}", missing.collect::<String>(), comments.join(", "))
}

fn fix(facts: &CaptureFacts) -> String {
    if facts.fix.is_empty() { String::new() } else { format!("; {}", safe(&facts.fix)) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        args: CpuArgs,
    }

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
    fn facts_and_reasons_are_stated_with_the_fix_and_without_control_characters() {
        let text = facts(&row());
        assert!(
            text.contains("(process 42, CPython 3.12.1) by the profiler: 990 stacks"),
            "{text}"
        );
        assert!(text.contains("4 torn and 6 lost") && !text.contains('\u{1b}'), "{text}");
        let kind = CaptureKind::Memory;
        let text = facts(&ProfileRow { kind, ..row() });
        assert!(text.ends_with("by the profiler: 990 blocks"), "{text}");
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
        let order = |labels: &[&str]| {
            let labels = labels.iter().flat_map(|label| ["--label", *label]);
            let given = ["plimsoll", "--node", "n7", "--job", "step"].into_iter().chain(labels);
            body("n7", &Parsed::parse_from(given).args)
        };
        let body = order(&["rank=3", "role=a=b"]).unwrap();
        assert_eq!(body["labels"], json!({ "rank": "3", "role": "a=b" }));
        let error = order(&["rank"]).unwrap_err().to_string();
        assert_eq!(error, "--label rank: write it as KEY=VALUE");
    }
}
