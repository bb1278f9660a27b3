//! What the broker reports about its connections and its JetStream requests.

use anyhow::{Context, Result};
use plimsoll_runtime::client::Api;
use serde_json::Value;

/// The monitoring pages of one broker.
#[derive(Clone, Debug)]
pub struct BrokerMonitor(Api);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    pub open: u64,
    /// Accepted since the broker started.
    pub accepted: u64,
}

impl BrokerMonitor {
    /// The pages under `http://<address>`.
    ///
    /// # Errors
    /// When no HTTP client can be created.
    pub fn at(address: &str) -> Result<Self> {
        Ok(Self(Api::at(address)?))
    }

    /// The connections of clients.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn connections(&self) -> Result<ConnectionCounts> {
        let page = self.page("/varz").await?;
        let count = |key: &str| page[key].as_u64().with_context(|| format!("/varz has no {key}"));
        Ok(ConnectionCounts { open: count("connections")?, accepted: count("total_connections")? })
    }

    /// Requests to the JetStream API since the broker started.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn jetstream_requests(&self) -> Result<u64> {
        let page = self.page("/jsz").await?;
        page["api"]["total"].as_u64().context("/jsz has no api.total")
    }

    async fn page(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.0.get(path).await?)?)
    }
}
