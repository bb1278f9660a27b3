//! A real Prometheus with the shipped configuration; only addresses and intervals differ.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use plimsoll_mesh::child::{Child, free_port, until};
use plimsoll_runtime::client::Api;
use serde_json::Value;

const START_WAIT: Duration = Duration::from_secs(60);

/// A running Prometheus; killed when dropped.
pub struct Prometheus {
    api: Api,
    child: Child,
}

impl Prometheus {
    /// Starts one that scrapes `aggregator` and `nodes` every second, below `dir`.
    ///
    /// # Errors
    /// When none is installed, the configuration has an unexpected form, or it does not become
    /// ready.
    pub async fn start(dir: &Path, aggregator: &Api, nodes: &[&Api]) -> Result<Self> {
        Self::start_with(dir, aggregator, nodes, &[]).await
    }

    /// As [`Self::start`], with further flags.
    ///
    /// # Errors
    /// As there.
    pub async fn start_with(
        dir: &Path,
        aggregator: &Api,
        nodes: &[&Api],
        flags: &[&str],
    ) -> Result<Self> {
        let config = dir.join("prometheus.yml");
        std::fs::write(&config, configuration(aggregator, nodes)?)?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(flags);
        let started = Child::start("prometheus", dir, command);
        let child = started.context("on Debian or Ubuntu: apt-get install prometheus")?;
        let api = Api::at(&address)?;
        let ready = async || api.get("/-/ready").await.ok();
        until("Prometheus is ready", START_WAIT, ready).await.with_context(|| child.log_tail())?;
        Ok(Self { api, child })
    }

    pub fn url(&self) -> &str {
        self.api.url()
    }

    /// The only value of an instant query; `None` while there is none.
    ///
    /// # Errors
    /// When there is no response, or several values.
    pub async fn value(&self, query: &str) -> Result<Option<f64>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}")).await?;
        let rows = answer["data"]["result"].as_array().context("no result")?;
        ensure!(rows.len() <= 1, "{query} has several values: {rows:?}");
        let value = rows.first().and_then(|row| row["value"][1].as_str());
        Ok(value.and_then(|value| value.parse().ok()))
    }

    /// Waits until an instant query has this value.
    ///
    /// # Errors
    /// When it has not in time; the text holds the last value.
    pub async fn await_value(&self, query: &str, wanted: f64) -> Result<()> {
        let reached = self.await_value_that(query, |value| value == wanted).await;
        reached.map(drop).with_context(|| format!("it is to be {wanted}"))
    }

    /// Waits until an instant query has a value that fits, and returns it.
    ///
    /// # Errors
    /// When it has none in time; the text holds the last value.
    pub async fn await_value_that(&self, query: &str, fits: impl Fn(f64) -> bool) -> Result<f64> {
        let found = until(query, START_WAIT, async || {
            self.value(query).await.ok().flatten().filter(|value| fits(*value))
        });
        match found.await {
            Ok(value) => Ok(value),
            Err(error) => Err(error.context(format!("it is {:?}", self.value(query).await))),
        }
    }

    /// All rules, alerting and recording.
    ///
    /// # Errors
    /// When there is no response.
    pub async fn rules(&self) -> Result<Vec<Value>> {
        let answer = self.get("/api/v1/rules").await?;
        let groups = answer["data"]["groups"].as_array().context("no groups")?;
        let rules = groups.iter().filter_map(|group| group["rules"].as_array());
        Ok(rules.flatten().cloned().collect())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let text = self.api.get(path).await.with_context(|| self.child.log_tail())?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// The shipped configuration with other addresses, shorter intervals, and the full path of its
/// rules.
fn configuration(aggregator: &Api, nodes: &[&Api]) -> Result<String> {
    let address = |api: &&Api| format!("\"{}\"", api.url().trim_start_matches("http://"));
    let nodes: Vec<String> = nodes.iter().map(address).collect();
    let shipped = shipped_dir().join("prometheus.yml");
    let mut text = std::fs::read_to_string(&shipped)?;
    let rules = format!("{}/rules/*.yml", shipped_dir().display());
    for (from, to) in [
        ("\"127.0.0.1:9900\"", address(&aggregator)),
        ("\"127.0.0.1:9901\"", nodes.join(", ")),
        ("scrape_interval: 5s", "scrape_interval: 1s".to_owned()),
        ("evaluation_interval: 5s", "evaluation_interval: 1s".to_owned()),
        ("rules/*.yml", rules),
        // A test must not notify a real Alertmanager.
        ("[\"127.0.0.1:9093\"]", "[]".to_owned()),
    ] {
        ensure!(text.contains(from), "{} holds no {from}", shipped.display());
        text = text.replace(from, &to);
    }
    Ok(text)
}

fn shipped_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus")
}
