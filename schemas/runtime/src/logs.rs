//! Logs to standard error: text for people, JSON for collectors.

use serde::Deserialize;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The `[log]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LogSettings {
    pub format: LogFormat,
    pub filter: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        // The NATS client reports each failed attempt to connect and each slow-consumer event,
        // which floods; what matters of them is logged by its owner. HTTP/2 reports at WARN
        // every connection on which a client resets its request.
        let filter = "info,async_nats=off,h2=error".to_owned();
        Self { format: LogFormat::Text, filter }
    }
}

impl LogSettings {
    /// Checks what [`start`] rejects.
    ///
    /// # Errors
    /// When the filter is invalid; the text names it.
    pub fn check(&self) -> Result<(), String> {
        self.targets().map(drop)
    }

    /// An `EnvFilter` would read spans and fields too, for 180 KB more text in each process.
    fn targets(&self) -> Result<Targets, String> {
        self.filter.parse().map_err(|error| format!("log.filter: {:?}: {error}", self.filter))
    }
}

/// Starts logging; a second call in one process changes nothing.
///
/// # Errors
/// When the filter is invalid; the text names it.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match settings.format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // The only error is that logging has already started, as in a test with several processes in
    // one.
    let _begun = registry().with(lines).with(settings.targets()?).try_init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_read_is_refused_by_key() {
        let settings = LogSettings { filter: "info,x=loud".into(), ..LogSettings::default() };
        let error = settings.check().unwrap_err();
        assert!(error.starts_with("log.filter: \"info,x=loud\": "), "{error}");
        assert_eq!(LogSettings::default().check(), Ok(()));
    }
}
