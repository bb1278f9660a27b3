//! Nodes beside a broker and an aggregator that run already.

use std::time::Duration;

use anyhow::{Result, bail};
use plimsoll_clock::Deadline;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::Summary;

use super::options::StackOptions;
use super::programs::bin_dir;
use super::station::{self, Station};

const READY_WAIT: Duration = Duration::from_secs(30);

/// Nodes of a mesh that was started elsewhere; killed when dropped.
pub struct JoinedNodes {
    stations: Vec<Station>,
}

impl JoinedNodes {
    /// Starts the nodes of `options` at the broker `url`, and waits until they are ready.
    ///
    /// # Errors
    /// When one does not start, or is not ready in time.
    pub async fn start(options: &StackOptions, url: &str) -> Result<Self> {
        let dir = std::path::absolute(&options.dir)?;
        std::fs::create_dir_all(&dir)?;
        let options = StackOptions { dir, ..options.clone() };
        let mut stations = station::start_all(&options, &bin_dir()?, url)?;
        let deadline = Deadline::within(READY_WAIT);

        for station in &mut stations {
            while !station.api.is_ready().await {
                station.node.check_alive()?;
                if deadline.has_passed() {
                    let log = station.node.log_tail();
                    bail!("{} is not ready after {READY_WAIT:?}\n{log}", station.name);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }

        Ok(Self { stations })
    }

    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// Ends the nodes and waits until the aggregator at `api` has received their final messages.
    ///
    /// # Errors
    /// When one does not end in order, or its final message is missing.
    pub async fn drain(&mut self, api: &Api) -> Result<Summary> {
        station::drain_all(&mut self.stations, api).await
    }
}
