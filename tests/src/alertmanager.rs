//! A real Alertmanager that posts its notifications to a [`WebhookReceiver`].

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::child::{Child, free_port, until};
use plimsoll_runtime::client::Api;
use serde_json::Value;

use crate::webhook::WebhookReceiver;

const WAIT: Duration = Duration::from_secs(30);

/// A running Alertmanager; killed when dropped.
pub struct Alertmanager {
    api: Api,
    child: Child,
}

impl Alertmanager {
    /// Starts one below `dir` that notifies `webhook` of each alert separately and at once.
    ///
    /// # Errors
    /// When none is installed, or it does not become ready.
    pub async fn start(dir: &Path, webhook: &WebhookReceiver) -> Result<Self> {
        Self::start_with(dir, &configuration(&webhook.url())).await
    }

    /// Starts one below `dir` with this configuration.
    ///
    /// # Errors
    /// As of [`Self::start`], and when it is invalid.
    pub async fn start_with(dir: &Path, configuration: &str) -> Result<Self> {
        std::fs::write(dir.join("alertmanager.yml"), configuration)?;
        let api = Api::at(&format!("127.0.0.1:{}", free_port()?))?;
        let mut command = Command::new("prometheus-alertmanager");
        command
            .arg(format!("--config.file={}", dir.join("alertmanager.yml").display()))
            .arg(format!("--storage.path={}", dir.join("alertmanager").display()))
            .arg(format!("--web.listen-address={}", api.url().trim_start_matches("http://")))
            .arg("--cluster.listen-address=");
        let started = Child::start("alertmanager", dir, command);
        let child =
            started.context("on Debian or Ubuntu: apt-get install prometheus-alertmanager")?;
        let alertmanager = Self { api, child };
        alertmanager.await_readiness().await?;
        Ok(alertmanager)
    }

    async fn await_readiness(&self) -> Result<()> {
        let ready = async || self.api.get("/-/ready").await.ok();
        let ready = until("Alertmanager is ready", WAIT, ready).await;
        ready.map(drop).with_context(|| self.child.log_tail())
    }

    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Starts it again after it was killed.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.child.restart()?;
        self.await_readiness().await
    }

    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The alerts of a rule that are active there.
    ///
    /// # Errors
    /// When it does not respond.
    pub async fn alerts(&self, rule: &str) -> Result<Vec<Value>> {
        let text = self.api.get("/api/v2/alerts?active=true").await?;
        let alerts: Vec<Value> = serde_json::from_str(&text)?;
        Ok(alerts.into_iter().filter(|alert| alert["labels"]["alertname"] == rule).collect())
    }

    /// Waits until those alerts fit, and returns them.
    ///
    /// # Errors
    /// When they do not in time; the text holds the last ones.
    pub async fn await_alerts(
        &self,
        rule: &str,
        what: &str,
        fits: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let found =
            until(what, WAIT, async || self.alerts(rule).await.ok().filter(|alerts| fits(alerts)));
        match found.await {
            Ok(alerts) => Ok(alerts),
            Err(error) => Err(error.context(format!("there is {:?}", self.alerts(rule).await))),
        }
    }
}

fn configuration(webhook: &str) -> String {
    format!(
        "route:\n  receiver: hook\n  group_by: [alertname, mesh, scope, node, operation]\n  \
         group_wait: 0s\n  group_interval: 1s\n  repeat_interval: 1h\n\
         receivers:\n- name: hook\n  webhook_configs:\n  - url: {webhook}\n"
    )
}
