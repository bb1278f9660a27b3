//! What machine a node runs on, as far as its readings state it; and the same in words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figure::{bytes, count};

/// The machine of a node. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MachineDescription {
    /// Model of its processors.
    #[serde(default)]
    pub cpu: Option<String>,
    /// Logical processors that the kernel lists.
    #[serde(default)]
    pub cores: Option<u64>,
    /// Physical memory.
    #[serde(default)]
    pub memory_bytes: Option<f64>,
    /// How many GPUs it has of each model.
    #[serde(default)]
    pub gpus: BTreeMap<String, u64>,
    /// Version of the driver of its GPUs.
    #[serde(default)]
    pub gpu_driver: Option<String>,
    /// Release of its kernel.
    #[serde(default)]
    pub kernel: Option<String>,
    /// Name and version of its operating system.
    #[serde(default)]
    pub os: Option<String>,
}

impl MachineDescription {
    /// `8 x NVIDIA H200 (driver 550.54), AMD EPYC 9654, 192 cores, 1.5 TiB, kernel 6.1.0, Debian
    /// 12`.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { cpu, cores, memory_bytes, gpus, gpu_driver, kernel, os } = self;
        let gpus: Vec<String> = gpus.iter().map(|(model, n)| format!("{n} x {model}")).collect();
        let driver = gpu_driver.as_ref().map(|version| format!("driver {version}"));
        let gpus = match (gpus.is_empty(), driver) {
            (false, Some(driver)) => Some(format!("{} ({driver})", gpus.join(", "))),
            (false, None) => Some(gpus.join(", ")),
            (true, driver) => driver,
        };
        let words = [
            gpus,
            cpu.clone(),
            cores.map(|n| format!("{} cores", count(n))),
            memory_bytes.map(bytes),
            kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
            os.clone(),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_in_words_has_what_is_known_of_it() {
        let whole = MachineDescription {
            cpu: Some("AMD EPYC 9654".to_owned()),
            cores: Some(192),
            memory_bytes: Some(1.5 * 1024_f64.powi(4)),
            gpus: [("NVIDIA H200".to_owned(), 8)].into(),
            gpu_driver: Some("550.54".to_owned()),
            kernel: Some("6.1.0".to_owned()),
            os: Some("Debian 12".to_owned()),
        };
        let words = "8 x NVIDIA H200 (driver 550.54), AMD EPYC 9654, 192 cores, 1.5 TiB, kernel \
                     6.1.0, Debian 12";
        assert_eq!(whole.words(), words);
        let part = MachineDescription { kernel: Some("6.1.0".to_owned()), ..Default::default() };
        assert_eq!(part.words(), "kernel 6.1.0");
        assert_eq!(MachineDescription::default().words(), "");
    }
}
