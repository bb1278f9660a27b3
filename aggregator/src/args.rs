//! The command line of `plimsoll-aggregator`.

use clap::Parser;
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;
use plimsoll_runtime::settings::SettingsArgs;
use toml::Value;

/// Merges the snapshots of all nodes, judges latency budgets, raises alerts, serves Prometheus
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll-aggregator",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
pub struct Args {
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Name of the mesh [default: default]
    #[arg(long)]
    mesh: Option<String>,
    /// URL of the broker [default: nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Listen address of the HTTP server [default: 127.0.0.1:9900]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// File of budgets and thresholds; may be repeated, later files override earlier ones
    #[arg(long, value_name = "PATH")]
    rules: Vec<String>,
    /// Print the shipped rules and exit
    #[arg(long)]
    pub print_rules: bool,
    /// State file, which keeps the state over restarts [default: none, memory only]
    #[arg(long, value_name = "PATH")]
    state: Option<String>,
    /// History file, which keeps the past for queries; needs a state file [default: none]
    #[arg(long, value_name = "PATH")]
    history: Option<String>,
    /// URLs of Alertmanagers that receive alerts, comma-separated [default: none]
    #[arg(long, value_name = "URL")]
    alertmanager: Option<String>,
}

const EXAMPLES: &str = "Examples:
  plimsoll-aggregator --nats nats://broker:4222 --alertmanager http://127.0.0.1:9093
  plimsoll-aggregator --config /etc/plimsoll/aggregator.toml --check-config
  plimsoll-aggregator --set confirm.key_file=/etc/plimsoll/confirm.key  # sign confirmations
  PLIMSOLL_AGGREGATOR_HTTP__ADDRESS=0.0.0.0:9900 plimsoll-aggregator
  plimsoll-aggregator --print-config > aggregator.toml    # every key with its default
  plimsoll-aggregator --print-rules                       # the shipped budgets and thresholds
  plimsoll-aggregator --rules /etc/plimsoll/budgets.toml --check-config
  kill -HUP $(pidof plimsoll-aggregator)                  # reload the rules now
  curl -s 127.0.0.1:9900/metrics/summary | jq '.budgets'
  curl -s 127.0.0.1:9900/metrics/summary | jq '.rules_error, .unmatched'
  curl -s 127.0.0.1:9900/api/v1/ledger | jq '.nodes[] | {node, ledger}'
  curl -s '127.0.0.1:9900/api/v1/events?source=service_check&alert_type=error' | jq '.events'

Settings: flags override PLIMSOLL_AGGREGATOR_* variables, which override the file.
Rules are reloaded when one of their files changes; if one is invalid, the previous rules stay active.
A budget and a threshold, in a rule file or in the settings:
  [[budget]]
  name = \"checkpoint\"
  operation = \"checkpoint\"
  quantile = 0.99
  limit = \"250ms\"
  labels = { kind = \"full\" }
  objective = 0.99
  routes = [\"oncall\"]
  [[rule]]
  name = \"violations\"
  metric = \"counter:isolation.violations\"
  greater = 3
  for = 2";

impl Args {
    /// The flags that stand for settings.
    pub fn flags(&self) -> [(&'static str, Option<String>); 7] {
        let files = self.rules.iter().cloned().map(Value::String).collect();
        let files = (!self.rules.is_empty()).then(|| Value::Array(files).to_string());
        [
            ("mesh", self.mesh.clone()),
            ("bus.url", self.nats.clone()),
            ("http.address", self.http.clone()),
            ("state.path", self.state.clone()),
            ("history.path", self.history.clone()),
            ("rules.files", files),
            ("alertmanager", self.alertmanager.clone()),
        ]
    }
}
