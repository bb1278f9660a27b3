//! `plimsoll alerts`, `silence` and `acknowledge`: requests to running aggregators. The two
//! aggregators of a pair do not share silences: pass `--url` for each.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Args;
use jiff::tz::TimeZone;
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::alert::{AlertRow, AlertState, AlertsPage, Notification, SilencesPage};
use plimsoll_schemas::figure::span;
use plimsoll_schemas::summary::Summary;
use plimsoll_schemas::time::Wall;
use serde_json::{Map, Value, json};

use crate::targets::{Targets, page, with_parameters};
use crate::time_range::shown;

/// The summary of the fleet without its nodes: it has the latest changes of all alerts.
const FLEET_SUMMARY: &str = "/metrics/summary?nodes=0";

/// List alerts
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll alerts
  plimsoll alerts --state firing --node n7 --json | jq '.alerts[].evidence'
  plimsoll alerts --severity critical
  plimsoll alerts --history                    what fired and resolved, newest first
  plimsoll alerts --history --rule epoch_hook --state firing

The list has active alerts, and those that resolved in the last five minutes. The history has the
latest 256 changes of all alerts, and survives a restart of an aggregator that has a state file.
`plimsoll report` has the changes of a range.")]
pub struct AlertsArgs {
    /// List the latest changes of alerts, newest first, including ended alerts
    #[arg(long)]
    history: bool,
    /// Only alerts in this state: firing, pending or resolved; with --history, changes to it
    #[arg(long, value_parser = ["firing", "pending", "resolved"])]
    state: Option<String>,
    /// Only alerts of this rule
    #[arg(long)]
    rule: Option<String>,
    /// Only alerts about this node
    #[arg(long)]
    node: Option<String>,
    /// Only alerts of this severity: info, warning or critical
    #[arg(long, value_parser = ["info", "warning", "critical"])]
    severity: Option<String>,
    #[command(flatten)]
    at: Targets,
}

/// Silence alerts: receivers are not notified until the silence ends; the bus still is
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll silence --rule epoch_hook --for 2h --by ann --comment 'new disks'
  plimsoll silence --node 'rack7-*' --for 30m --by ann --url http://a:9900 --url http://b:9900
  plimsoll silence --list
  plimsoll silence --end 3")]
pub struct SilenceArgs {
    /// List the silences
    #[arg(long, conflicts_with_all = ["end", "lasts"])]
    list: bool,
    /// End the silence with this id
    #[arg(long, value_name = "ID", conflicts_with = "lasts")]
    end: Option<u64>,
    /// Alerts of this rule; a trailing `*` matches any ending
    #[arg(long)]
    rule: Option<String>,
    /// Alerts about this node, not about the fleet; a trailing `*` matches any ending
    #[arg(long)]
    node: Option<String>,
    /// Alerts about this operation; a trailing `*` matches any ending
    #[arg(long)]
    operation: Option<String>,
    /// Alerts of this severity: info, warning or critical
    #[arg(long, value_parser = ["info", "warning", "critical"])]
    severity: Option<String>,
    /// Duration, such as 2h
    #[arg(long = "for", value_name = "SPAN", required_unless_present_any = ["list", "end"])]
    lasts: Option<String>,
    /// Who sets the silence
    #[arg(long, env = "USER", default_value = "")]
    by: String,
    /// The reason
    #[arg(long, default_value = "")]
    comment: String,
    #[command(flatten)]
    at: Targets,
}

/// Acknowledge an alert: receivers are notified only of its end
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll acknowledge --rule epoch_hook --for 4h --by bob           the alert about the fleet
  plimsoll acknowledge --rule epoch_hook --node n7 --for 4h --by bob
  plimsoll acknowledge --rule epoch_hook --node n7 --remove")]
pub struct AcknowledgeArgs {
    /// The alert's rule
    #[arg(long)]
    rule: String,
    /// The node it is about; without it, the fleet
    #[arg(long)]
    node: Option<String>,
    /// Its operation, if its rule has several
    #[arg(long)]
    operation: Option<String>,
    /// Duration, such as 4h
    #[arg(long = "for", value_name = "SPAN", default_value = "8h")]
    lasts: String,
    /// Who acknowledges the alert
    #[arg(long, env = "USER", default_value = "")]
    by: String,
    /// A comment, such as the work in progress
    #[arg(long, default_value = "")]
    comment: String,
    /// Remove the acknowledgement
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    at: Targets,
}

/// Calls every aggregator even if one fails: each failure is printed, and the exit code reports it.
async fn call_each(at: &Targets, call: impl AsyncFn(Api) -> Result<()>) -> Result<Exit> {
    let mut exit = Exit::Success;
    for api in at.apis()? {
        let url = api.url().to_owned();
        if let Err(error) = call(api).await {
            eprintln!("{url}: {error:#}");
            exit = Exit::Failure;
        }
    }
    Ok(exit)
}

/// Lists alerts.
///
/// # Errors
/// When an aggregator does not respond, or rejects the request.
pub async fn alerts(args: &AlertsArgs) -> Result<Exit> {
    if args.history {
        return history(args).await;
    }
    let filters = [
        ("state", &args.state),
        ("rule", &args.rule),
        ("node", &args.node),
        ("severity", &args.severity),
    ];
    let path = with_parameters("/api/v1/alerts", &filters);
    args.at.show(&path, |page: &AlertsPage| page.alerts.iter().map(line).collect()).await
}

async fn history(args: &AlertsArgs) -> Result<Exit> {
    for api in args.at.apis()? {
        let mut summary: Summary = page(&api, FLEET_SUMMARY).await?;
        summary.changes.retain(|change| is_wanted(args, change));
        summary.changes.reverse();
        let text = json!({"changes": summary.changes}).to_string();
        let zone = TimeZone::system();
        args.at.print(&text, || summary.changes.iter().map(|row| change(row, &zone)).collect());
    }
    Ok(Exit::Success)
}

fn is_wanted(args: &AlertsArgs, change: &Notification) -> bool {
    let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|of| of == found);
    is(&args.state, change.state.as_str())
        && is(&args.rule, change.key.rule.as_str())
        && is(&args.node, change.key.scope.node())
        && is(&args.severity, change.severity.as_str())
}

/// Starts, ends or lists silences.
///
/// # Errors
/// When the arguments do not fit. A failure of one aggregator is printed and sets the exit code.
pub async fn silence(args: &SilenceArgs) -> Result<Exit> {
    if args.end.is_some() && args.at.has_several() {
        bail!(
            "--end with several --url: each aggregator has silence ids of its own; see --list, and \
             give one --url for each --end"
        );
    }

    call_each(&args.at, async |api| {
        if args.list {
            let text = api.request("GET", "/api/v1/silences", None).await?;
            let page: SilencesPage = serde_json::from_str(&text)?;
            args.at.print(&text, || silences(&page));
        } else if let Some(id) = args.end {
            api.request("DELETE", &format!("/api/v1/silences/{id}"), None).await?;
        } else {
            let text = api.request("POST", "/api/v1/silences", Some(&silence_body(args))).await?;
            let row: Value = serde_json::from_str(&text)?;
            args.at.print(&text, || format!("silence {} at {}\n", row["id"], api.url()));
        }
        Ok(())
    })
    .await
}

fn silence_body(args: &SilenceArgs) -> Value {
    let all = [
        ("rule", &args.rule),
        ("node", &args.node),
        ("operation", &args.operation),
        ("severity", &args.severity),
    ];
    let given =
        all.into_iter().filter_map(|(key, value)| Some((key.into(), json!(value.as_ref()?))));
    let matches: Map<String, Value> = given.collect();
    json!({"match": matches, "by": args.by, "comment": args.comment, "for": args.lasts})
}

/// Acknowledges the given alerts, or removes their acknowledgement.
///
/// # Errors
/// When the arguments do not fit. A failure of one aggregator is printed and sets the exit code.
pub async fn acknowledge(args: &AcknowledgeArgs) -> Result<Exit> {
    call_each(&args.at, async |api| acknowledge_at(args, &api).await).await
}

async fn acknowledge_at(args: &AcknowledgeArgs, api: &Api) -> Result<()> {
    let rule = Some(args.rule.clone());
    let path = with_parameters("/api/v1/alerts", &[("rule", &rule), ("node", &args.node)]);
    let page: AlertsPage = page(api, &path).await?;
    // Looked up first: one rule may have an alert for each
    // operation, and the API acknowledges one by its whole key.
    let named: Vec<&AlertRow> = page.alerts.iter().filter(|row| is_match(args, row)).collect();
    if named.is_empty() {
        bail!("no such alert is firing or pending; `plimsoll alerts` lists all");
    }

    for row in named {
        let operation = row.key.operation.to_string();
        if args.remove {
            let operation = Some(operation);
            let named = [("rule", &rule), ("node", &args.node), ("operation", &operation)];
            let path = with_parameters("/api/v1/alerts/acknowledge", &named);
            api.request("DELETE", &path, None).await?;
            continue;
        }

        let mut body = json!({
            "rule": args.rule, "operation": operation, "by": args.by,
            "comment": args.comment, "for": args.lasts,
        });

        if let Some(node) = &args.node {
            body["node"] = json!(node);
        }

        let text = api.request("POST", "/api/v1/alerts/acknowledge", Some(&body)).await?;
        args.at.print(&text, || format!("acknowledged at {}: {}\n", api.url(), row.key));
    }

    Ok(())
}

fn is_match(args: &AcknowledgeArgs, row: &AlertRow) -> bool {
    row.key.scope.node() == args.node.as_deref().unwrap_or_default()
        && args.operation.as_ref().is_none_or(|name| *name == row.key.operation.to_string())
        && matches!(row.state, AlertState::Firing | AlertState::Pending)
}

/// One alert as a line.
fn line(row: &AlertRow) -> String {
    let (state, severity) = (row.state.as_str(), row.severity.as_str());
    let mut text = format!("{state:<8} {severity:<8} {}: {}", row.key, row.summary);
    if row.data != plimsoll_schemas::alert::DataStatus::Enough {
        text += &format!(" [data: {}]", row.data.as_str());
    }
    if row.flaps > 0 {
        text += &format!(" [flaps: {}]", row.flaps);
    }
    if let Some(of) = &row.acknowledged {
        text += &format!(" [acknowledged by {}]", of.by);
    }
    if !row.silenced_by.is_empty() {
        text += &format!(" [silenced by {:?}]", row.silenced_by);
    }
    text + "\n"
}

/// One change of an alert as a line.
fn change(row: &Notification, zone: &TimeZone) -> String {
    let Notification { key, state, severity, summary, .. } = row;
    let (at, state) = (shown(row.at_seconds, zone), state.as_str());
    let mut text = format!("{at} {state:<8} {:<8} {key}: {summary}", severity.as_str());
    if row.late_seconds >= 1.0 {
        text += &format!(" [found {} late]", span(row.late_seconds.round()));
    }
    if let Some(reason) = row.ended {
        text += &format!(" [ended: {}]", reason.in_words());
    }
    if let Some(by) = &row.acknowledged_by {
        text += &format!(" [acknowledged by {by}]");
    }
    if row.silenced {
        text.push_str(" [receivers not notified]");
    }
    text + "\n"
}

fn silences(page: &SilencesPage) -> String {
    let mut text = String::new();
    for row in &page.silences {
        let of = &row.silence;
        let matches = serde_json::to_string(&of.matches).unwrap_or_default();
        let date = |at: Wall| {
            let since = Duration::from_secs(at.0 / 1_000_000_000);
            humantime::format_rfc3339_seconds(UNIX_EPOCH + since)
        };
        let (from, until) = (date(of.from), date(of.until));
        let (id, by, comment) = (row.id, &of.by, &of.comment);
        text += &format!("{id} {matches} from {from} until {until} by {by}: {comment}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_shown_with_its_times_in_utc() {
        let page = r#"{"silences":[{"id":3,"match":{"rule":"r"},"by":"ann","comment":"disks",
            "from_seconds":1700000000.0,"until_seconds":1700007200.5}]}"#;
        assert_eq!(
            silences(&serde_json::from_str(page).unwrap()),
            "3 {\"rule\":\"r\"} from 2023-11-14T22:13:20Z until 2023-11-15T00:13:20Z \
             by ann: disks\n"
        );
    }

    #[test]
    fn a_past_change_is_shown_with_its_time_its_delay_and_its_end() {
        let read = |rest: &str| {
            let text = format!(
                r#"{{"mesh":"m","rule":"r","scope":{{"node":"n7"}},"operation":"o","from":"firing",
                "at_seconds":1700000000.0,"severity":"critical","evidence":{{"gap_samples":1}},
                {rest}}}"#
            );
            serde_json::from_str::<Notification>(&text).unwrap()
        };
        let resolved = read(
            r#""state":"resolved","late_seconds":72.4,"summary":"p99 1 ms","ended":"node_left",
            "acknowledged_by":"bob","silenced":true"#,
        );
        assert_eq!(
            change(&resolved, &TimeZone::UTC),
            format!(
                "2023-11-14 22:13:20+00:00 resolved critical {}: p99 1 ms [found 72 s late] \
                 [ended: its node left normally] [acknowledged by bob] \
                 [receivers not notified]\n",
                resolved.key
            )
        );

        let args = |words: &[&str]| {
            use clap::Parser;

            let all = [&["plimsoll", "alerts", "--history"], words].concat();
            match crate::args::Cli::parse_from(all).command {
                crate::args::Command::Alerts(args) => args,
                other => panic!("{other:?}"),
            }
        };
        for (words, wanted) in [
            (&[][..], true),
            (&["--state", "resolved", "--rule", "r", "--node", "n7"], true),
            (&["--state", "firing"], false),
            (&["--rule", "other"], false),
            (&["--node", "n8"], false),
            (&["--severity", "critical"], true),
            (&["--severity", "warning"], false),
        ] {
            assert_eq!(is_wanted(&args(words), &resolved), wanted, "{words:?}");
        }
    }

    #[test]
    fn a_severity_that_there_is_not_is_named_with_those_that_there_are() {
        use clap::Parser;

        let parse = |word| {
            let words = ["plimsoll", "silence", "--for", "2h", "--severity", word];
            crate::args::Cli::try_parse_from(words).map_err(|error| error.to_string())
        };
        assert!(parse("critical").is_ok());
        let error = parse("urgent").map(drop).unwrap_err();
        assert!(
            error.contains("--severity") && error.contains("info, warning, critical"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn every_aggregator_is_called_and_an_id_belongs_to_one_aggregator() {
        let url = ["http://127.0.0.1:1", "http://127.0.0.1:1/b"].map(str::to_owned).to_vec();
        let at = Targets::of_urls(url);
        let calls = std::cell::Cell::new(0);
        let exit = call_each(&at, async |api| {
            calls.set(calls.get() + 1);
            if api.url().ends_with('b') { Ok(()) } else { bail!("unreachable") }
        });
        assert_eq!((exit.await.unwrap(), calls.get()), (Exit::Failure, 2));

        let args = SilenceArgs {
            list: false,
            end: Some(3),
            rule: None,
            node: None,
            operation: None,
            severity: None,
            lasts: None,
            by: String::new(),
            comment: String::new(),
            at,
        };
        let error = silence(&args).await.unwrap_err().to_string();
        assert!(error.contains("give one --url for each --end"), "{error}");
    }

    #[test]
    fn an_address_without_a_scheme_names_its_flag_and_what_to_write() {
        use clap::Parser;

        use crate::args::Cli;

        let statistics = &["statistics", "o"];
        let acknowledge = &["acknowledge", "--rule", "r"];
        for command in [&["alerts"][..], &["silence", "--list"], acknowledge, statistics] {
            let parse = |url: &'static str| {
                let arguments = [&["plimsoll"], command, &["--url", url]].concat();
                Cli::try_parse_from(arguments).map_err(|error| error.to_string())
            };
            for url in ["127.0.0.1:9900", "localhost:9900", "a", "//a:9900", "ftp://a", "http://"] {
                let error = parse(url).map(drop).unwrap_err();
                assert!(error.contains("--url <URL>") && error.contains(url), "{error}");
                assert!(error.contains("such as http://127.0.0.1:9900"), "{error}");
            }
            assert!(parse("http://127.0.0.1:9900/").is_ok());
            assert!(parse("https://aggregator.example").is_ok());
        }
    }
}
