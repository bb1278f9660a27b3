//! What an aggregator may be told, and what holds when it is told nothing.

use std::net::SocketAddr;

use plimsoll_process::logs::LogSettings;
use plimsoll_process::settings::BusSettings;
use plimsoll_schemas::budget::{Budget, BudgetEntry, effective};
use plimsoll_schemas::ids::MeshName;
use serde::Deserialize;

/// An aggregator's configuration; the keys of its TOML file.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Name of the mesh; nodes and aggregators of one mesh share it.
    pub mesh: MeshName,
    /// Where the broker is.
    pub bus: BusSettings,
    /// Where metrics and the summary are served.
    pub http: Http,
    /// Budgets beside or over the built-in ones.
    pub budget: Vec<BudgetEntry>,
    /// How it logs.
    pub log: LogSettings,
}

/// The `[http]` section.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Http {
    /// Address of `/metrics`, `/metrics/summary`, `/healthz` and `/readyz`. Loopback by
    /// default: there is no authentication yet.
    pub address: SocketAddr,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mesh: MeshName::new("default").expect("a constant name of plain letters"),
            bus: BusSettings::default(),
            http: Http::default(),
            budget: Vec::new(),
            log: LogSettings::default(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 9900)) }
    }
}

impl Config {
    /// The budgets to judge.
    ///
    /// # Errors
    /// Names the budget, the key and what it may be.
    pub fn budgets(&self) -> Result<Vec<Budget>, String> {
        effective(&self.budget).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::settings::{Layer, resolve};

    use super::*;

    fn read(text: &str) -> Result<Vec<Budget>, String> {
        let layer = Layer::from_toml("file a.toml", text).map_err(|error| error.to_string())?;
        resolve::<Config>(&[layer]).map_err(|error| error.to_string())?.value.budgets()
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
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
