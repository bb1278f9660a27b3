//! Asks an aggregator or a node over HTTP.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_schemas::summary::Summary;

const TIMEOUT: Duration = Duration::from_secs(5);

/// One process's HTTP pages.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    client: reqwest::Client,
    token: Option<String>,
}

impl Api {
    /// The pages under `http://<address>`.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn at(address: &str) -> Result<Self> {
        Self::of_url(&format!("http://{address}"))
    }

    /// The pages under a URL.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn of_url(url: &str) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        Ok(Self { base: url.trim_end_matches('/').to_owned(), client, token: None })
    }

    /// The same, showing a token with each request of [`Self::ask`].
    #[must_use]
    pub fn showing(self, token: Option<String>) -> Self {
        Self { token, ..self }
    }

    /// The answer's text to a request of any method, with a body of JSON if there is one.
    ///
    /// # Errors
    /// When there is no answer, or with what it says when its status is an error.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<String> {
        let url = format!("{}{path}", self.base);
        let mut request = self.client.request(method.parse()?, &url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.with_context(|| url.clone())?;
        let (status, text) = (answer.status(), answer.text().await?);
        if !status.is_success() {
            bail!("{url}: {status}: {}", text.trim_end());
        }
        Ok(text)
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
