//! Settings of the hardware sensors: the `[hardware]` section.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::watch::{Watch, watches};
use crate::limits::SENSOR_EVERY;

/// The `[hardware]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HardwareSettings {
    pub enabled: bool,
    pub interval_ms: u64,
    pub gpu: bool,
    pub nvml_library: Option<PathBuf>,
    pub root: PathBuf,
    #[serde(deserialize_with = "watches")]
    pub watch: Vec<Watch>,
}

impl Default for HardwareSettings {
    fn default() -> Self {
        let (root, watch) = (PathBuf::from("/"), Vec::new());
        let interval_ms = SENSOR_EVERY.as_secs() * 1_000;
        Self { enabled: true, interval_ms, gpu: true, nvml_library: None, root, watch }
    }
}

impl HardwareSettings {
    /// Time between two samples.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}
