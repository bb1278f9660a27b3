//! What an aggregator may be told, and what holds when it is told nothing.

mod notify;

use std::net::SocketAddr;
use std::path::PathBuf;

use plimsoll_process::logs::LogSettings;
use plimsoll_process::settings::BusSettings;
use plimsoll_schemas::alert::LEDGER_GAP;
use plimsoll_schemas::budget::{Budget, BudgetEntry, Window, effective};
use plimsoll_schemas::ids::MeshName;
use serde::Deserialize;

use crate::core::rollup::Definition;
use crate::io::notify::Endpoint;

pub use notify::{Alertmanager, Alertmanagers, Secret, Webhook};

/// A settings file with every key at its default; what `--print-config` prints.
pub const EXAMPLE: &str = include_str!("../aggregator.toml");

/// An aggregator's configuration; the keys of its TOML file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Name of the mesh; nodes and aggregators of one mesh share it.
    pub mesh: MeshName,
    /// Where the broker is.
    pub bus: BusSettings,
    /// Where metrics and the summary are served.
    pub http: Http,
    /// How long windows are kept.
    pub windows: WindowSpans,
    /// Samples by label.
    pub rollup: Vec<Definition>,
    /// Budgets beside or over the built-in ones.
    pub budget: Vec<BudgetEntry>,
    /// Alertmanagers that are told of alerts.
    pub alertmanager: Alertmanagers,
    /// Others that are.
    pub webhook: Vec<Webhook>,
    /// What Prometheus is shown.
    pub metrics: Metrics,
    /// Where its state outlives it.
    pub state: State,
    /// How it logs.
    pub log: LogSettings,
}

/// The `[http]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Http {
    /// Address of `/metrics`, `/metrics/nodes`, `/metrics/summary`, `/api/v1/ledger`,
    /// `/api/v1/events`, `/api/v1/alerts/undelivered`, `/healthz` and `/readyz`. Loopback by
    /// default: there is no authentication yet.
    pub address: SocketAddr,
}

/// The `[metrics]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Nodes with series of their own on `/metrics` and rows of their own in `/metrics/summary`,
    /// the worst first: those in trouble (samples missing or given up, messages dropped or
    /// rerouted, a deep outbox), then those whose alerts fire, then pend, then the silent ones,
    /// then by the share of samples over a limit. `/metrics/nodes` shows all of them. Those beyond
    /// are in the fleet's figures and in `plimsoll_nodes_in_trouble`. A node costs about 8 KB of
    /// text with three operations.
    pub nodes_max: usize,
    /// Whether the names that former systems used are shown as well.
    pub aliases: bool,
}

/// The `[windows]` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WindowSpans {
    /// The longest window kept for each node, from `1m` to `30d`; default `5m`. The fleet and
    /// roll-ups have all; an operation with a budget has at least the windows of its budgets on
    /// every node. What each costs stands in `limits::aggregator::NODE_BYTES_MAX`.
    pub nodes_up_to: Window,
}

/// The `[state]` section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct State {
    /// File of the checkpoints, made if it is not there; its directory must be. Without it the
    /// state is kept in memory only, a restart reads the streams from their beginning, nodes are
    /// told of what is in memory, and what happened between two runs raises no alert. Costs a
    /// write of everything that changed, at most once a second.
    pub path: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mesh: MeshName::new("default").expect("a constant name of plain letters"),
            bus: BusSettings::default(),
            http: Http::default(),
            windows: WindowSpans::default(),
            rollup: Vec::new(),
            budget: Vec::new(),
            alertmanager: Alertmanagers::default(),
            webhook: Vec::new(),
            metrics: Metrics::default(),
            state: State::default(),
            log: LogSettings::default(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { nodes_max: 100, aliases: false }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 9900)) }
    }
}

impl Default for WindowSpans {
    fn default() -> Self {
        Self { nodes_up_to: Window::FiveMinutes }
    }
}

impl WindowSpans {
    fn check(self) -> Result<(), String> {
        if self.nodes_up_to < Window::OneMinute {
            let given = self.nodes_up_to;
            return Err(format!("windows.nodes_up_to is {given}; it must be at least 1m"));
        }
        Ok(())
    }
}

impl Config {
    /// Checks everything that a start needs and that can be known before it, and gives the
    /// budgets to judge: `--check-config` and every start run this.
    ///
    /// # Errors
    /// Names the key and what it may be.
    pub fn check(&self) -> Result<Vec<Budget>, String> {
        self.bus.check(&self.mesh)?;
        self.log.check()?;
        self.windows.check()?;
        Definition::check_all(&self.rollup).map_err(|error| error.to_string())?;
        Endpoint::of_config(self)?;
        self.budgets()
    }

    /// The budgets to judge.
    ///
    /// # Errors
    /// Names the budget, the key and what it may be.
    pub fn budgets(&self) -> Result<Vec<Budget>, String> {
        let budgets = effective(&self.budget).map_err(|error| error.to_string())?;
        if budgets.iter().any(|budget| budget.name.as_str() == LEDGER_GAP) {
            let why = "is the name of the alert about accounts; choose another";
            return Err(format!("budget {LEDGER_GAP:?}: name {why}"));
        }
        Ok(budgets)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::settings::{Layer, keys_of, resolve};

    use super::*;

    fn read(text: &str) -> Result<Vec<Budget>, String> {
        let layer = Layer::from_toml("file a.toml", text).map_err(|error| error.to_string())?;
        resolve::<Config>(&[layer]).map_err(|error| error.to_string())?.value.check()
    }

    #[test]
    fn an_empty_file_gives_the_built_in_budgets() {
        assert_eq!(read("").unwrap().len(), 3);
    }

    #[test]
    fn a_file_adds_overrides_and_removes_budgets() {
        let budgets = read(
            "[[budget]]\nname = 'publish'\nenabled = false\n\
             [[budget]]\nname = 'db'\noperation = 'db'\nquantile = 0.9\nlimit = '2ms'",
        );
        let names: Vec<String> =
            budgets.unwrap().iter().map(|budget| budget.name.to_string()).collect();
        assert_eq!(names, ["epoch_hook", "kernel_fetch", "db"]);
    }

    #[test]
    fn wrong_values_name_their_key() {
        for (text, part) in [
            ("[http]\naddress = '9900'", "http.address"),
            ("[[budget]]\nname = 'publish'\nlimt = '1ms'", "limt"),
            ("[[budget]]\nname = 'publish'\nlimit = 'soon'", "limit"),
            ("[[budget]]\nname = 'publish'\nwindow = '7s'", "window"),
            ("[[budget]]\nname = 'new'", "operation is missing"),
            (
                "[windows]\nnodes_up_to = '10s'",
                "windows.nodes_up_to is 10s; it must be at least 1m",
            ),
            ("[windows]\nnodes_up_to = '7m'", "windows.nodes_up_to"),
            ("[[rollup]]\nname = 'r'\nby = ['le']", "rollup \"r\": \"le\" is a label of every row"),
            ("[[rollup]]\nname = 'r'\nnode_by = ['rack']", "node_by"),
            (
                "[[budget]]\nname = 'ledger_gap'\noperation = 'o'\nquantile = 0.9\nlimit = '2ms'",
                "budget \"ledger_gap\": name is the name",
            ),
            ("[log]\nfilter = 'x=loud'", "log.filter"),
            ("[bus]\nurl = 'http://h'", "bus.url"),
            ("[bus]\ncredentials_file = 'absent.creds'", "bus.credentials_file"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_printed_file_holds_every_key_at_its_default() {
        let layer = |text: &str| Layer::from_toml("file a.toml", text).unwrap();
        let config = resolve::<Config>(&[layer(EXAMPLE)]).unwrap().value;
        assert_eq!(config, Config::default());
        let all = EXAMPLE.replace("\n#", "\n").replace("\n ", "\n# ");
        let resolved = resolve::<Config>(&[layer(&all)]).unwrap();
        let stated: Vec<String> = resolved.origins.into_keys().collect();
        assert_eq!(stated, keys_of::<Config>());
        let (before, budget) = all.split_once("[[budget]]").unwrap();
        let (_, rollup) = before.split_once("[[rollup]]").unwrap();
        let stated = resolve::<Definition>(&[layer(rollup)]).unwrap().origins.into_keys();
        assert_eq!(stated.collect::<Vec<_>>(), keys_of::<Definition>());
        let stated = resolve::<BudgetEntry>(&[layer(budget)]).unwrap().origins.into_keys();
        assert_eq!(stated.collect::<Vec<_>>(), keys_of::<BudgetEntry>());
        let checkpoint = resolved.value.budgets().unwrap().pop().unwrap();
        let short = "[[budget]]\nname = 'checkpoint'\noperation = 'checkpoint'\n\
                     quantile = 0.99\nlimit = '250ms'";
        assert_eq!(read(short).unwrap().pop().unwrap(), checkpoint, "the rest is at its default");
    }
}
