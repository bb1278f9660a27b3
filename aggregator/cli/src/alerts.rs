//! `plimsoll alerts`, `silence` and `acknowledge`: what an aggregator says of alerts, and what
//! people say to it. The two of a pair do not talk to each other: name both with `--url`.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::alert::{AlertRow, AlertState, AlertsPage, SilencesPage};
use plimsoll_schemas::time::Wall;
use serde_json::{Map, Value, json};

use crate::api::Api;

/// Which aggregators, and how one shows that one may ask.
#[derive(Args, Clone, Debug)]
pub struct Where {
    /// An aggregator's pages; repeat it for both of a pair
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9900")]
    url: Vec<String>,
    /// File with the token of the aggregator's http.token_file [default: $PLIMSOLL_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the alerts that stand
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll alerts
  plimsoll alerts --state firing --node n7 --json | jq '.alerts[].evidence'")]
pub struct AlertsArgs {
    /// Only those that stand there: firing, pending or resolved
    #[arg(long)]
    state: Option<String>,
    /// Only those of this rule
    #[arg(long)]
    rule: Option<String>,
    /// Only those about this node
    #[arg(long)]
    node: Option<String>,
    #[command(flatten)]
    at: Where,
}

/// Keep receivers from hearing of some alerts for a while; the bus hears of them as ever
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll silence --rule epoch_hook --for 2h --by ann --comment 'new disks'
  plimsoll silence --node 'rack7-*' --for 30m --by ann --url http://a:9900 --url http://b:9900
  plimsoll silence --list
  plimsoll silence --end 3")]
pub struct SilenceArgs {
    /// List silences instead
    #[arg(long, conflicts_with_all = ["end", "lasts"])]
    list: bool,
    /// End the silence of this number instead
    #[arg(long, value_name = "ID", conflicts_with = "lasts")]
    end: Option<u64>,
    /// Alerts of this rule; a `*` at the end stands for any
    #[arg(long)]
    rule: Option<String>,
    /// Alerts about this node, and none about the fleet; a `*` at the end stands for any
    #[arg(long)]
    node: Option<String>,
    /// Alerts about this operation; a `*` at the end stands for any
    #[arg(long)]
    operation: Option<String>,
    /// Alerts that are so bad: info, warning or critical
    #[arg(long)]
    severity: Option<String>,
    /// How long, such as 2h
    #[arg(long = "for", value_name = "SPAN", required_unless_present_any = ["list", "end"])]
    lasts: Option<String>,
    /// Who asks for it
    #[arg(long, env = "USER", default_value = "")]
    by: String,
    /// Why
    #[arg(long, default_value = "")]
    comment: String,
    #[command(flatten)]
    at: Where,
}

/// Say that somebody looks after an alert: receivers hear no more of it, but for its end
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
    /// Its operation, where its rule has several
    #[arg(long)]
    operation: Option<String>,
    /// How long, such as 4h
    #[arg(long = "for", value_name = "SPAN", default_value = "8h")]
    lasts: String,
    /// Who looks after it
    #[arg(long, env = "USER", default_value = "")]
    by: String,
    /// What is being done
    #[arg(long, default_value = "")]
    comment: String,
    /// Nobody looks after it any more
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    at: Where,
}

impl Where {
    fn apis(&self) -> Result<Vec<Api>> {
        let token = match &self.token_file {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                Some(read.with_context(|| format!("--token-file {}", path.display()))?)
            }
            None => std::env::var("PLIMSOLL_TOKEN").ok(),
        };
        let token = token.map(|token| token.trim().to_owned());
        self.url.iter().map(|url| Ok(Api::of_url(url)?.showing(token.clone()))).collect()
    }

    fn print(&self, json: &str, words: impl FnOnce() -> String) {
        if self.json {
            println!("{}", json.trim_end());
        } else {
            print!("{}", words());
        }
    }
}

/// Asks all of them, whatever one of them answers: each failure is told, and the exit says that
/// there was one.
async fn ask_all(at: &Where, ask: impl AsyncFn(Api) -> Result<()>) -> Result<Exit> {
    let mut exit = Exit::Success;
    for api in at.apis()? {
        let url = api.url().to_owned();
        if let Err(error) = ask(api).await {
            eprintln!("{url}: {error:#}");
            exit = Exit::Failure;
        }
    }
    Ok(exit)
}

/// Lists alerts.
///
/// # Errors
/// When an aggregator does not answer, or refuses.
pub async fn alerts(args: &AlertsArgs) -> Result<Exit> {
    let wanted = [("state", &args.state), ("rule", &args.rule), ("node", &args.node)];
    let path = with_parameters("/api/v1/alerts", &wanted);
    for api in args.at.apis()? {
        let text = api.ask("GET", &path, None).await?;
        let page: AlertsPage = serde_json::from_str(&text).context("the alerts cannot be read")?;
        args.at.print(&text, || page.alerts.iter().map(line).collect());
    }
    Ok(Exit::Success)
}

/// Begins, ends or lists silences.
///
/// # Errors
/// When there is nobody to ask. What one of several answers is told, and the others asked.
pub async fn silence(args: &SilenceArgs) -> Result<Exit> {
    if args.end.is_some() && args.at.url.len() > 1 {
        bail!(
            "--end with several --url: each aggregator has numbers of its own; see --list, and \
             give one --url for each --end"
        );
    }
    ask_all(&args.at, async |api| {
        if args.list {
            let text = api.ask("GET", "/api/v1/silences", None).await?;
            let page: SilencesPage = serde_json::from_str(&text)?;
            args.at.print(&text, || silences(&page));
        } else if let Some(id) = args.end {
            api.ask("DELETE", &format!("/api/v1/silences/{id}"), None).await?;
        } else {
            let text = api.ask("POST", "/api/v1/silences", Some(&silence_body(args))).await?;
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

/// Acknowledges the alerts that are named, or takes that back.
///
/// # Errors
/// When there is nobody to ask. What one of several answers is told, and the others asked.
pub async fn acknowledge(args: &AcknowledgeArgs) -> Result<Exit> {
    ask_all(&args.at, async |api| acknowledge_at(args, &api).await).await
}

async fn acknowledge_at(args: &AcknowledgeArgs, api: &Api) -> Result<()> {
    let rule = Some(args.rule.clone());
    let path = with_parameters("/api/v1/alerts", &[("rule", &rule), ("node", &args.node)]);
    let page: AlertsPage = serde_json::from_str(&api.ask("GET", &path, None).await?)?;
    let named: Vec<&AlertRow> = page.alerts.iter().filter(|row| is_named(args, row)).collect();
    if named.is_empty() {
        bail!("no such alert fires or pends; `plimsoll alerts` lists all");
    }
    for row in named {
        let operation = row.key.operation.to_string();
        if args.remove {
            let operation = Some(operation);
            let named = [("rule", &rule), ("node", &args.node), ("operation", &operation)];
            let path = with_parameters("/api/v1/alerts/acknowledge", &named);
            api.ask("DELETE", &path, None).await?;
            continue;
        }
        let mut body = json!({
            "rule": args.rule, "operation": operation, "by": args.by,
            "comment": args.comment, "for": args.lasts,
        });
        if let Some(node) = &args.node {
            body["node"] = json!(node);
        }
        let text = api.ask("POST", "/api/v1/alerts/acknowledge", Some(&body)).await?;
        args.at.print(&text, || format!("acknowledged at {}: {}\n", api.url(), row.key));
    }
    Ok(())
}

fn is_named(args: &AcknowledgeArgs, row: &AlertRow) -> bool {
    row.key.scope.node() == args.node.as_deref().unwrap_or_default()
        && args.operation.as_ref().is_none_or(|name| *name == row.key.operation.to_string())
        && matches!(row.state, AlertState::Firing | AlertState::Pending)
}

/// Names need no escaping; what does is no name, and is refused with its character by whoever
/// reads it.
fn with_parameters(path: &str, parameters: &[(&str, &Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let escaped = |value: &str| {
        let mut text = String::new();
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
                text.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _written = write!(text, "%{byte:02X}");
            }
        }
        text
    };
    let pairs: Vec<String> =
        given.map(|(key, value)| format!("{key}={}", escaped(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// One alert as a line.
fn line(row: &AlertRow) -> String {
    let mut text = format!("{:<8} {:<8} {}", row.state.as_str(), row.severity.as_str(), row.key);
    // Writing to a string cannot fail.
    let _written = write!(text, ": {}", row.summary);
    if row.data != plimsoll_schemas::alert::Data::Enough {
        let _written = write!(text, " [data: {}]", row.data.as_str());
    }
    if row.flaps > 0 {
        let _written = write!(text, " [flaps: {}]", row.flaps);
    }
    if let Some(of) = &row.acknowledged {
        let _written = write!(text, " [{} looks after it]", of.by);
    }
    if !row.silenced_by.is_empty() {
        let _written = write!(text, " [silenced by {:?}]", row.silenced_by);
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
        // Writing to a string cannot fail.
        let _written = writeln!(
            text,
            "{} {matches} from {from} until {until} by {}: {}",
            row.id, of.by, of.comment
        );
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

    #[tokio::test]
    async fn every_aggregator_is_asked_and_a_number_is_one_aggregators_own() {
        let url = ["http://127.0.0.1:1", "http://127.0.0.1:1/b"].map(str::to_owned).to_vec();
        let at = Where { url, token_file: None, json: false };
        let asked = std::cell::Cell::new(0);
        let exit = ask_all(&at, async |api| {
            asked.set(asked.get() + 1);
            if api.url().ends_with('b') { Ok(()) } else { bail!("away") }
        });
        assert_eq!((exit.await.unwrap(), asked.get()), (Exit::Failure, 2));
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
        let refused = silence(&args).await.unwrap_err().to_string();
        assert!(refused.contains("give one --url for each --end"), "{refused}");
    }

    #[test]
    fn what_is_no_name_reaches_whoever_refuses_it_unchanged() {
        let of = |text: &str| with_parameters("/p", &[("rule", &Some(text.to_owned()))]);
        assert_eq!(of("epoch_hook"), "/p?rule=epoch_hook");
        assert_eq!(of("a&node=b c"), "/p?rule=a%26node%3Db%20c");
        assert_eq!(with_parameters("/p", &[("rule", &None)]), "/p");
    }
}
