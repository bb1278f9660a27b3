//! The library's settings from the environment; read once for each process image.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{FLUSH_EVERY, FLUSH_EVERY_MAX, FLUSH_EVERY_MIN};

const STREAM: &str = "/run/plimsoll/node.stream";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) enabled: bool,
    pub(crate) stream: PathBuf,
    pub(crate) flush_every: Duration,
}

impl Settings {
    pub(crate) fn from_environment() -> Self {
        Self::read(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// What cannot be understood is as if it were not set.
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let flush_ms = variable("PLIMSOLL_FLUSH_MS").and_then(|ms| ms.to_str()?.parse().ok());
        Self {
            enabled: variable("PLIMSOLL_ENABLE").is_none_or(|value| value == "1"),
            stream: variable("PLIMSOLL_STREAM").unwrap_or_else(|| STREAM.into()).into(),
            flush_every: flush_ms
                .map_or(FLUSH_EVERY, Duration::from_millis)
                .clamp(FLUSH_EVERY_MIN, FLUSH_EVERY_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Settings {
        Settings::read(|wanted| (wanted == name).then(|| value.into()))
    }

    #[test]
    fn only_one_enables() {
        for (value, enabled) in [("1", true), ("0", false), ("true", false), ("off", false)] {
            assert_eq!(read("PLIMSOLL_ENABLE", value).enabled, enabled, "{value}");
        }
        assert!(Settings::read(|_| None).enabled);
    }

    #[test]
    fn the_time_between_flushes_keeps_its_bounds() {
        for (value, ms) in [("50", 50), ("0", 10), ("9999999", 60_000), ("soon", 40), ("-1", 40)] {
            let settings = read("PLIMSOLL_FLUSH_MS", value);
            assert_eq!(settings.flush_every, Duration::from_millis(ms), "{value}");
        }
    }
}
