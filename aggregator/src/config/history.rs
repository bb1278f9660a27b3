//! The `[history]` section: where the past is kept, and how much of it.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_runtime::directory;
use serde::Deserialize;

use crate::core::history::{Bound, Bounds, Resolution};

const DAY: Duration = Duration::from_secs(24 * 3_600);
const MIB: u64 = 1024 * 1024;
const DAYS_MAX: u64 = 3_650;
/// A tier of less has no room for one large slot of each operation.
const MIB_MIN: u64 = 1;
const MIB_MAX: u64 = 1024 * 1024;

/// The `[history]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HistorySettings {
    pub path: Option<PathBuf>,
    pub days_10s: u64,
    pub days_1m: u64,
    pub days_10m: u64,
    pub days_1h: u64,
    pub mib_max_10s: u64,
    pub mib_max_1m: u64,
    pub mib_max_10m: u64,
    pub mib_max_1h: u64,
}

impl Default for HistorySettings {
    fn default() -> Self {
        let [s, m, ten, h] = Resolution::ALL.map(|resolution| {
            let Bound { age, bytes_max } = resolution.default_bound();
            (age.as_secs() / DAY.as_secs(), bytes_max / MIB)
        });
        Self {
            path: None,
            days_10s: s.0,
            days_1m: m.0,
            days_10m: ten.0,
            days_1h: h.0,
            mib_max_10s: s.1,
            mib_max_1m: m.1,
            mib_max_10m: ten.1,
            mib_max_1h: h.1,
        }
    }
}

impl HistorySettings {
    fn tiers(&self) -> [(Resolution, u64, u64); Resolution::ALL.len()] {
        let days = [self.days_10s, self.days_1m, self.days_10m, self.days_1h];
        let mib = [self.mib_max_10s, self.mib_max_1m, self.mib_max_10m, self.mib_max_1h];
        std::array::from_fn(|place| (Resolution::ALL[place], days[place], mib[place]))
    }

    /// Checks all keys; `has_state` is whether there is a state file.
    ///
    /// # Errors
    /// Names the key and what it may be.
    pub fn check(&self, has_state: bool) -> Result<(), String> {
        if self.path.is_some() && !has_state {
            return Err("history.path needs state.path: set that too, or --state".to_owned());
        }
        let mut longest = 0;

        for (resolution, days, mib) in self.tiers() {
            let name = resolution.as_str();
            if !(1..=DAYS_MAX).contains(&days) {
                return Err(format!("history.days_{name} is {days}; it must be 1 to {DAYS_MAX}"));
            }

            if !(MIB_MIN..=MIB_MAX).contains(&mib) {
                return Err(format!(
                    "history.mib_max_{name} is {mib}; it must be {MIB_MIN} to {MIB_MAX}"
                ));
            }

            if days < longest {
                return Err(format!(
                    "history.days_{name} is {days}; it must be at least the {longest} of the finer \
                     slots"
                ));
            }

            longest = days;
        }

        self.path.as_deref().map_or(Ok(()), |path| directory::check_parent("history.path", path))
    }

    /// What each tier keeps.
    pub fn bounds(&self) -> Bounds {
        self.tiers().map(|(_, days, mib)| Bound {
            age: DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX)),
            bytes_max: mib.saturating_mul(MIB),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_names_its_key_and_the_fix() {
        let base = HistorySettings::default;
        let table = [
            (HistorySettings { path: Some("h".into()), ..base() }, "history.path needs state.path"),
            (HistorySettings { days_10s: 0, ..base() }, "history.days_10s is 0; it must be 1 to"),
            (HistorySettings { days_1h: 3, ..base() }, "history.days_1h is 3; it must be at least"),
            (HistorySettings { mib_max_1m: 0, ..base() }, "history.mib_max_1m is 0; it must be 1"),
        ];
        for (settings, part) in table {
            let error = settings.check(false).unwrap_err();
            assert!(error.starts_with(part), "{error}");
        }
    }

    #[test]
    fn defaults_are_two_days_two_weeks_three_months_and_two_years() {
        let days = HistorySettings::default().bounds().map(|of| of.age.as_secs() / DAY.as_secs());
        assert_eq!(days, [2, 14, 92, 730]);
        assert_eq!(HistorySettings::default().check(false), Ok(()));
    }
}
