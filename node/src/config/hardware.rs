//! Settings of the hardware sensors: the `[hardware]` section.

use std::path::PathBuf;
use std::time::Duration;

use super::section::section;
use super::watch::{Watch, watches};
use crate::limits::SENSOR_EVERY;

section! {
    #[serde(deny_unknown_fields)]
    pub struct HardwareSettings {
        pub enabled: bool = true,
        pub interval_ms: u64 = SENSOR_EVERY.as_secs() * 1_000,
        pub gpu: bool = true,
        pub nvml_library: Option<PathBuf> = None,
        pub root: PathBuf = PathBuf::from("/"),
        #[serde(deserialize_with = "watches")]
        pub watch: Vec<Watch> = Vec::new(),
    }
}

impl HardwareSettings {
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}
