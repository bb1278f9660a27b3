//! The `[history]` section: where the node keeps its own past, and how much of it.
//!
//! DESIGN N97.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_runtime::directory;

use super::section::section;
use crate::core::history::HistoryBounds;
use crate::limits::{HISTORY_DAYS, HISTORY_MIB};

const DAYS_MAX: u32 = 3_660;
const MIB_MIN: u64 = 8;
const MIB_MAX: u64 = 1024 * 1024;
const MIB: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 3_600);

section! {
    pub struct HistorySettings {
        pub path: Option<PathBuf> = None,
        pub days: u32 = HISTORY_DAYS,
        pub mib_max: u64 = HISTORY_MIB,
    }
}

impl HistorySettings {
    /// Checks the bounds, and that the directory is there or can be created.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { path, days, mib_max } = self;
        if !(1..=DAYS_MAX).contains(days) {
            return Err(format!("history.days is {days}; it must be 1 to {DAYS_MAX}"));
        }
        if !(MIB_MIN..=MIB_MAX).contains(mib_max) {
            return Err(format!("history.mib_max is {mib_max}; it must be {MIB_MIN} to {MIB_MAX}"));
        }
        path.as_deref().map_or(Ok(()), |path| directory::check("history.path", path))
    }

    pub fn bounds(&self) -> HistoryBounds {
        HistoryBounds { age_max: DAY * self.days, bytes_max: self.mib_max * MIB }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_schemas::settings::{Layer, resolve};

    use super::*;
    use crate::config::Config;

    /// A day of three operations and the readings of a machine (node/bench/RESULTS.md).
    const DAY_MIB: u64 = 171;

    #[test]
    fn bounds_and_directories_are_checked_by_their_keys() {
        let of = |settings: HistorySettings| settings.check().unwrap_err();
        let base = HistorySettings::default;
        assert_eq!(base().check(), Ok(()));
        assert!(of(HistorySettings { days: 0, ..base() }).starts_with("history.days is 0"));
        assert!(of(HistorySettings { mib_max: 1, ..base() }).starts_with("history.mib_max is 1"));
        let path = Some("/dev/null/x".into());
        assert!(of(HistorySettings { path, ..base() }).starts_with("history.path: /dev/null"));
    }

    #[test]
    fn every_shipped_settings_file_keeps_a_bounded_history() {
        let unit = include_str!("../../../deploy/systemd/plimsoll-node.service");
        assert!(unit.contains("\nStateDirectory=plimsoll-node\n"));
        for (file, text, path, day_mib) in [
            (
                "systemd/node.toml",
                include_str!("../../../deploy/systemd/node.toml"),
                "/var/lib/plimsoll-node/history",
                DAY_MIB,
            ),
            (
                "k8s/node/node.toml",
                include_str!("../../../deploy/k8s/node/node.toml"),
                "/var/lib/plimsoll/history",
                DAY_MIB,
            ),
            (
                "k8s/jobs/sidecar.toml",
                include_str!("../../../deploy/k8s/jobs/sidecar.toml"),
                "/var/lib/plimsoll/history",
                // Without hardware.
                82,
            ),
        ] {
            let layer = Layer::from_toml(file, text).unwrap();
            let history = resolve::<Config>(&[layer]).unwrap().value.history;
            assert_eq!(history.path.as_deref(), Some(Path::new(path)), "{file}");
            assert!((day_mib..=1_024).contains(&history.mib_max), "{file}: a day fits");
        }

        let compose = include_str!("../../../deploy/compose.yaml");
        for key in ["PATH: /var/lib/plimsoll/history", "DAYS: \"7\"", "MIB_MAX: \"1024\""] {
            assert!(compose.contains(&format!("PLIMSOLL_NODE_HISTORY__{key}\n")), "{key}");
        }
    }
}
