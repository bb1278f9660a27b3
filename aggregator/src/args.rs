//! The command line of `plimsoll-aggregator`.

use clap::Parser;
use plimsoll_runtime::exit::TABLE;
use plimsoll_runtime::settings::SettingsArgs;
use toml::Value;

/// Merges the snapshots of all nodes, judges latency budgets, serves Prometheus
#[derive(Debug, Parser)]
#[command(name = "plimsoll-aggregator", version, after_help = format!("{EXAMPLES}\n\n{TABLE}"))]
pub struct Args {
    /// Where settings come from.
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Name of the mesh [default: default]
    #[arg(long)]
    mesh: Option<String>,
    /// Broker to read from [default: nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Address of the HTTP pages [default: 127.0.0.1:9900]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Read budgets and thresholds from this file; may be repeated, the later one wins
    #[arg(long, value_name = "PATH")]
    rules: Vec<String>,
    /// Print the shipped files of rules, and end
    #[arg(long)]
    pub print_rules: bool,
    /// File in which the state outlives a restart [default: none, memory only]
    #[arg(long, value_name = "PATH")]
    state: Option<String>,
    /// Alertmanagers to tell of alerts, with commas between them [default: none]
    #[arg(long, value_name = "URL")]
    alertmanager: Option<String>,
}

const EXAMPLES: &str = "Examples:
  plimsoll-aggregator --nats nats://broker:4222 --alertmanager http://127.0.0.1:9093
  plimsoll-aggregator --config /etc/plimsoll/aggregator.toml --check-config
  PLIMSOLL_AGGREGATOR_HTTP__ADDRESS=0.0.0.0:9900 plimsoll-aggregator
  plimsoll-aggregator --print-config > aggregator.toml    # every key, its default and meaning
  plimsoll-aggregator --print-rules                       # what is judged unless told otherwise
  plimsoll-aggregator --rules /etc/plimsoll/budgets.toml --check-config
  kill -HUP $(pidof plimsoll-aggregator)                  # read the rules again at once
  curl -s 127.0.0.1:9900/metrics/summary | jq '.budgets'
  curl -s 127.0.0.1:9900/metrics/summary | jq '.rules_error, .unmatched'
  curl -s 127.0.0.1:9900/api/v1/ledger | jq '.nodes[] | {node, ledger}'
  curl -s '127.0.0.1:9900/api/v1/events?source=service_check&alert_type=error' | jq '.events'

Settings: flags win over PLIMSOLL_AGGREGATOR_* variables, those over the file.
Rules are read again when one of their files changes; what is wrong keeps the old ones.
A budget and a threshold, in a file of rules or in the settings:
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
    /// The named flags as settings.
    #[must_use]
    pub fn flags(&self) -> [(&'static str, Option<String>); 6] {
        let files = self.rules.iter().cloned().map(Value::String).collect();
        let files = (!self.rules.is_empty()).then(|| Value::Array(files).to_string());
        [
            ("mesh", self.mesh.clone()),
            ("bus.url", self.nats.clone()),
            ("http.address", self.http.clone()),
            ("state.path", self.state.clone()),
            ("rules.files", files),
            ("alertmanager", self.alertmanager.clone()),
        ]
    }
}
