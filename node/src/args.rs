//! The command line of `plimsoll-node`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;
use plimsoll_runtime::settings::SettingsArgs;
use serde_json::json;

/// Collects latencies from the jobs on this machine and publishes snapshots to the mesh
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll-node",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
pub struct Args {
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Name of this node, unique in its mesh [default: the host name]
    #[arg(long)]
    name: Option<String>,
    /// Label that fleet metrics are grouped by, such as rack=r7; may be repeated; replaces the
    /// labels of the settings file [default: none]
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// Name of the mesh [default: default]
    #[arg(long)]
    mesh: Option<String>,
    /// Broker to publish to [default: nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// UDP address for DogStatsD, "" to disable [default: 127.0.0.1:8125]
    #[arg(long, value_name = "ADDRESS")]
    udp: Option<String>,
    /// Unix datagram socket for DogStatsD, "" to disable [default: none]
    #[arg(long, value_name = "PATH")]
    unix: Option<String>,
    /// Unix stream socket for frames of the Rust client, "" to disable [default: none]
    #[arg(long, value_name = "PATH")]
    stream: Option<String>,
    /// Accept OpenTelemetry metrics and traces over HTTP on 127.0.0.1:4318 and over gRPC on
    /// 127.0.0.1:4317
    #[arg(long)]
    otlp: bool,
    /// Directory for the spool, in which unsent messages survive a crash [default: none, memory
    /// only]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Directory for the history, from which aggregators can ask for any past second [default:
    /// none]
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
    /// Time between two hardware samples, 100ms to 60s [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    sample_interval: Option<Duration>,
    /// Address of /metrics, /healthz and /readyz, "" to disable [default: 127.0.0.1:9901]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
}

const EXAMPLES: &str = "Examples:
  plimsoll-node --name gpu7 --nats nats://broker:4222
  plimsoll-node --label rack=r7 --label role=trainer      # labels for grouping
  plimsoll-node --config /etc/plimsoll/node.toml --check-config
  plimsoll-node --unix /run/plimsoll/node.sock --udp '' --set interval.length_ms=500
  plimsoll-node --stream /run/plimsoll/node.stream        # for jobs with the Rust client
  plimsoll-node --otlp                                    # for jobs with an OpenTelemetry SDK
  plimsoll-node --spool /var/lib/plimsoll                 # unsent messages survive a crash
  plimsoll-node --history /var/lib/plimsoll/history       # its own past, by the second
  plimsoll-node --set confirm.key_file=/etc/plimsoll/confirm.key  # refuse forged confirmations
  PLIMSOLL_NODE_BUS__URL=nats://broker:4222 plimsoll-node
  plimsoll-node --print-config > node.toml                # every key, its default and meaning
  echo 'epoch_hook:12.5|ms' > /dev/udp/127.0.0.1/8125     # one sample, from bash

Settings: flags override PLIMSOLL_NODE_* variables, variables override the file.";

impl Args {
    /// The named flags as settings.
    pub fn flags(&self) -> [(&'static str, Option<String>); 13] {
        let labels = (!self.label.is_empty()).then(|| json!(self.label).to_string());
        [
            ("identity.labels", labels),
            ("name", self.name.clone()),
            ("mesh", self.mesh.clone()),
            ("bus.url", self.nats.clone()),
            ("listen.udp", self.udp.clone()),
            ("listen.unix", self.unix.clone()),
            ("listen.stream", self.stream.clone()),
            ("otlp.http", self.otlp.then(|| "127.0.0.1:4318".to_owned())),
            ("otlp.grpc", self.otlp.then(|| "127.0.0.1:4317".to_owned())),
            ("spool.path", self.spool.as_ref().map(|path| path.display().to_string())),
            ("history.path", self.history.as_ref().map(|path| path.display().to_string())),
            (
                "hardware.interval_ms",
                self.sample_interval.map(|every| every.as_millis().to_string()),
            ),
            ("http.address", self.http.clone()),
        ]
    }
}
