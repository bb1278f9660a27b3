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
    /// Sample hardware. Off starts no thread and sends no reading. Default on; costs under 0.1 % of
    /// a core on a small machine.
    pub enabled: bool,
    /// Time between two samples in milliseconds, 100 to 60 000. Of several samples in one interval
    /// of the node the worst values are sent. Costs CPU in proportion.
    pub interval_ms: u64,
    /// Read NVIDIA GPUs, each ten times a second. Default on; costs about 0.1 % of a core for each
    /// GPU. Without a driver the node searches for the library once a minute.
    pub gpu: bool,
    /// The NVML library to load; by default `libnvidia-ml.so.1` where the loader finds it.
    pub nvml_library: Option<PathBuf>,
    /// Absolute path under which `proc` and `sys` are read. Default `/`, this machine. Under any
    /// other root, such as a host's root inside a container or a recorded tree, files are opened
    /// again for each sample. The clock of a recorded tree is not read.
    pub root: PathBuf,
    /// Processes whose usage is summed under a name. Default none, which starts no thread.
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
