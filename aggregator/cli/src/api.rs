//! Asks an aggregator or a node over HTTP.

use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_schemas::summary::Summary;

const TIMEOUT: Duration = Duration::from_secs(5);

/// One process's HTTP pages.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    client: reqwest::Client,
}

impl Api {
    /// The pages under `http://<address>`.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn at(address: &str) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        Ok(Self { base: format!("http://{address}"), client })
    }

    /// Where the pages are.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.base
    }

    /// A page's text.
    ///
    /// # Errors
    /// When there is no answer or its status is an error.
    pub async fn get(&self, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.base);
        let answer = self.client.get(&url).send().await.with_context(|| url.clone())?;
        Ok(answer.error_for_status()?.text().await?)
    }

    /// What an aggregator knows.
    ///
    /// # Errors
    /// When there is no answer or it cannot be read.
    pub async fn summary(&self) -> Result<Summary> {
        let text = self.get("/metrics/summary").await?;
        serde_json::from_str(&text).context("the summary cannot be read")
    }

    /// The value of one series on the metrics page, by its exact name and labels.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn metric(&self, series: &str) -> Result<Option<f64>> {
        let text = self.get("/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        Ok(line.and_then(|value| value.parse().ok()))
    }

    /// Whether `/readyz` says so.
    pub async fn is_ready(&self) -> bool {
        self.get("/readyz").await.is_ok()
    }
}
