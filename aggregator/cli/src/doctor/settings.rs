//! The settings of the node and the aggregator on this machine, read as these programs read them.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll_aggregator::config::Config as AggregatorConfig;
use plimsoll_bus::BusConfig;
use plimsoll_node::config::Config as NodeConfig;
use plimsoll_runtime::settings::{BusSettings, SettingsArgs};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::permissions::BrokerUser;
use plimsoll_schemas::subject::{ask_subject, capture_subject};
use serde::de::DeserializeOwned;

use super::finding::{DoctorReport, Finding};

const CHECK: &str = "settings";
const NODE: &str = "/etc/plimsoll/node.toml";
const AGGREGATOR: &str = "/etc/plimsoll/aggregator.toml";

/// Where the settings are, and what overrides them.
#[derive(Args, Clone, Debug)]
pub(super) struct SettingsFlags {
    /// Settings file of the node on this machine [default: /etc/plimsoll/node.toml if it is there]
    #[arg(long, value_name = "FILE")]
    node_config: Option<PathBuf>,
    /// Settings file of the aggregator on this machine [default: /etc/plimsoll/aggregator.toml if
    /// it is there]
    #[arg(long, value_name = "FILE")]
    aggregator_config: Option<PathBuf>,
    /// Broker, over what the settings have
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Name of the mesh, over what the settings have
    #[arg(long)]
    mesh: Option<MeshName>,
}

/// What runs on this machine, by its settings.
pub(super) struct Local {
    /// The node's, or why there are none.
    pub(super) node: Result<NodeConfig, String>,
    /// The aggregator's, or why there are none.
    pub(super) aggregator: Result<AggregatorConfig, String>,
    /// The broker without settings of an aggregator: that of the flags, or the default one.
    fallback: (BusSettings, MeshName),
    /// The mesh of the flags.
    mesh: Option<MeshName>,
}

/// One program's way to the broker.
pub(super) struct Identity {
    /// `node` or `aggregator`.
    pub(super) program: &'static str,
    pub(super) bus: BusConfig,
    pub(super) node: Option<NodeName>,
    /// Subjects of the requests that the node receives: of its history, and of captures.
    pub(super) requests: Vec<String>,
}

/// Reads both. What cannot be read is a finding.
pub(super) fn load(args: &SettingsFlags, report: &mut DoctorReport) -> Local {
    let mesh = args.mesh.as_ref().map(|mesh| mesh.as_str().to_owned());
    let flags = [("bus.url", args.nats.clone()), ("mesh", mesh)];

    let node = one::<NodeConfig>(
        SettingsFile {
            flag: "--node-config",
            given: args.node_config.as_deref(),
            default: NODE,
            prefix: "PLIMSOLL_NODE_",
        },
        &flags,
        NodeConfig::check,
        report,
    );

    let aggregator = one::<AggregatorConfig>(
        SettingsFile {
            flag: "--aggregator-config",
            given: args.aggregator_config.as_deref(),
            default: AGGREGATOR,
            prefix: "PLIMSOLL_AGGREGATOR_",
        },
        &flags,
        AggregatorConfig::check,
        report,
    );

    let defaults = AggregatorConfig::default();
    let url = args.nats.clone().unwrap_or(defaults.bus.url.clone());
    let fallback_mesh = args.mesh.clone().unwrap_or(defaults.mesh);
    let fallback = (BusSettings { url, ..defaults.bus }, fallback_mesh);
    Local { node, aggregator, fallback, mesh: args.mesh.clone() }
}

/// Where one program's settings are.
#[derive(Clone, Copy)]
struct SettingsFile<'a> {
    /// The flag that names the file.
    flag: &'static str,
    given: Option<&'a Path>,
    /// Read without the flag, if it is there.
    default: &'static str,
    /// Of the environment variables that override keys.
    prefix: &'static str,
}

fn one<T: DeserializeOwned>(
    file: SettingsFile<'_>,
    flags: &[(&str, Option<String>)],
    check: impl Fn(&T) -> Result<(), String>,
    report: &mut DoctorReport,
) -> Result<T, String> {
    let found = || Some(PathBuf::from(file.default)).filter(|path| path.exists());
    let Some(path) = file.given.map(Path::to_owned).or_else(found) else {
        return Err(format!("no settings file: give {}", file.flag));
    };

    let args = SettingsArgs { config: Some(path.clone()), ..SettingsArgs::default() };
    let loaded = args.load::<T>(file.prefix, flags).map_err(|error| error.to_string());

    let checked = loaded.and_then(|resolved| {
        check(&resolved.value).map_err(|problem| resolved.located(&problem).to_string())?;
        Ok(resolved.value)
    });

    let place = path.display().to_string();
    match checked {
        Ok(config) => {
            report.add(CHECK, Ok(Vec::new()));
            Ok(config)
        }
        Err(error) => {
            let fix = "correct the key; --check-config of the program checks the file";
            report.add(CHECK, Ok(vec![Finding::error(&place, error, fix)]));
            Err(format!("{place} cannot be used"))
        }
    }
}

impl Local {
    /// The mesh that the settings are about, if they are about one.
    pub(super) fn mesh(&self) -> Option<&MeshName> {
        let of_aggregator = self.aggregator.as_ref().ok().map(|config| &config.mesh);
        let of_node = self.node.as_ref().ok().map(|config| &config.mesh);
        self.mesh.as_ref().or(of_aggregator).or(of_node)
    }

    /// Each program's way to the broker; without settings of any, the one of the flags. What cannot
    /// be used is the reason.
    pub(super) fn identities(&self) -> Vec<Result<Identity, String>> {
        let mut identities = Vec::new();
        if let Ok(node) = &self.node {
            identities.push(node.node_name().and_then(|name| {
                let bus = bus(&node.bus, &node.mesh, BrokerUser::Node(&name))?;
                let history = node.history.path.is_some().then(|| ask_subject(&node.mesh, &name));
                let captures = node.captures.enabled.then(|| capture_subject(&node.mesh, &name));
                let requests = history.into_iter().chain(captures).collect();
                Ok(Identity { program: "node", bus, node: Some(name), requests })
            }));
        }

        let aggregator = |settings: &BusSettings, mesh: &MeshName| {
            let bus = bus(settings, mesh, BrokerUser::Aggregator)?;
            Ok(Identity { program: "aggregator", bus, node: None, requests: Vec::new() })
        };

        match &self.aggregator {
            Ok(config) => identities.push(aggregator(&config.bus, &config.mesh)),
            Err(_) if identities.is_empty() => {
                identities.push(aggregator(&self.fallback.0, &self.fallback.1));
            }
            Err(_) => {}
        }

        identities
    }
}

fn bus(settings: &BusSettings, mesh: &MeshName, user: BrokerUser<'_>) -> Result<BusConfig, String> {
    settings.to_config(mesh, "plimsoll-doctor", user)
}
