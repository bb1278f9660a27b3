//! The `[profiles]` section: how many captured profiles are kept, and whether alerts order them.

use std::time::Duration;

use serde::Deserialize;

use crate::limits::captures::PROFILES_MAX;

const DAY: Duration = Duration::from_secs(24 * 3_600);
const DAYS_MAX: u32 = 3_650;

/// The `[profiles]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProfileSettings {
    pub keep: usize,
    pub keep_days: u32,
    pub on_breach: bool,
}

impl Default for ProfileSettings {
    fn default() -> Self {
        Self { keep: 1_000, keep_days: 30, on_breach: false }
    }
}

impl ProfileSettings {
    /// # Errors
    /// Names the key and what it may be.
    pub(super) fn check(&self, can_capture: bool) -> Result<(), String> {
        let Self { keep, keep_days, on_breach } = self;
        if !(1..=PROFILES_MAX).contains(keep) {
            return Err(format!("profiles.keep is {keep}; it must be 1 to {PROFILES_MAX}"));
        }
        if !(1..=DAYS_MAX).contains(keep_days) {
            return Err(format!("profiles.keep_days is {keep_days}; it must be 1 to {DAYS_MAX}"));
        }
        if *on_breach && !can_capture {
            return Err("profiles.on_breach needs state.path and confirm.key_file".to_owned());
        }
        Ok(())
    }

    /// For how long a profile is kept.
    pub fn age_max(&self) -> Duration {
        DAY.saturating_mul(self.keep_days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_names_its_key_and_the_fix() {
        let base = ProfileSettings::default;
        let table = [
            (ProfileSettings { keep: 0, ..base() }, "profiles.keep is 0; it must be 1 to"),
            (ProfileSettings { keep_days: 9_999, ..base() }, "profiles.keep_days is 9999; it must"),
            (ProfileSettings { on_breach: true, ..base() }, "profiles.on_breach needs state.path"),
        ];
        for (settings, part) in table {
            let error = settings.check(false).unwrap_err();
            assert!(error.starts_with(part), "{error}");
        }
        assert_eq!(ProfileSettings { on_breach: true, ..base() }.check(true), Ok(()));
        assert_eq!(base().check(false), Ok(()));
    }
}
