//! Logs to standard error: text for people, JSON for collectors.

use serde::Deserialize;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line each.
    #[default]
    Text,
    /// One JSON object each.
    Json,
}

/// The `[log]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LogSettings {
    /// `text` or `json`.
    pub format: LogFormat,
    /// What is logged, in the syntax of `RUST_LOG`.
    pub filter: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        // The NATS client reports every slow-consumer event at INFO, which floods.
        Self { format: LogFormat::Text, filter: "info,async_nats=warn".to_owned() }
    }
}

impl LogSettings {
    /// Checks what [`start`] would refuse.
    ///
    /// # Errors
    /// When the filter cannot be read; the text names it.
    pub fn check(&self) -> Result<(), String> {
        self.env_filter().map(drop)
    }

    fn env_filter(&self) -> Result<EnvFilter, String> {
        EnvFilter::try_new(&self.filter)
            .map_err(|error| format!("log.filter: {:?}: {error}", self.filter))
    }
}

/// Starts logging; a second call in one process changes nothing.
///
/// # Errors
/// When the filter cannot be read; the text names it.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    let filter = settings.env_filter()?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // The only error is that logging has begun already, as in a test of several processes' worth.
    let _begun = match settings.format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
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
