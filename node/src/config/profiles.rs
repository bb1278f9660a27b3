//! The `[profiles]` section: what is profiled all the time, and where its profiles are kept.
//!
//! DESIGN N100.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_runtime::directory;
use plimsoll_schemas::limits::wire::CONTINUOUS_INTERVAL_SECONDS;

use super::section::{few, section};
use crate::core::continuous::{ContinuousBounds, Turns};
use crate::core::history::HistoryBounds;
use crate::limits::{
    CONTINUOUS_HZ, CONTINUOUS_PROCESSES_MAX, CONTINUOUS_SECONDS, PROFILES_DAYS, PROFILES_MIB,
};

const HZ_MAX: u32 = 100;
const DAYS_MAX: u32 = 3_660;
const MIB_MIN: u64 = 16;
const MIB_MAX: u64 = 1024 * 1024;
const NAME_BYTES_MAX: usize = 255;

section! {
    pub struct ProfileSettings {
        pub continuous: bool = false,
        pub hz: u32 = CONTINUOUS_HZ,
        pub interval_seconds: u32 = CONTINUOUS_SECONDS,
        pub processes: Vec<String> = Vec::new(),
        pub jobs: bool = true,
        pub directory: PathBuf = PathBuf::from("/var/lib/plimsoll/profiles"),
        pub days: u32 = PROFILES_DAYS,
        pub mib_max: u64 = PROFILES_MIB,
    }
}

impl ProfileSettings {
    /// Checks the bounds, and of profiles that are to be kept the directory.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { continuous, hz, interval_seconds, processes, jobs, directory, days, mib_max } =
            self;
        if !(1..=HZ_MAX).contains(hz) {
            return Err(format!("profiles.hz is {hz}; it must be 1 to {HZ_MAX}"));
        }
        if !CONTINUOUS_INTERVAL_SECONDS.contains(interval_seconds) {
            return Err(format!(
                "profiles.interval_seconds is {interval_seconds}; it must be 10 to 3600"
            ));
        }
        if !(1..=DAYS_MAX).contains(days) {
            return Err(format!("profiles.days is {days}; it must be 1 to {DAYS_MAX}"));
        }
        if !(MIB_MIN..=MIB_MAX).contains(mib_max) {
            return Err(format!(
                "profiles.mib_max is {mib_max}; it must be {MIB_MIN} to {MIB_MAX}"
            ));
        }
        few("profiles.processes", processes.len(), CONTINUOUS_PROCESSES_MAX, "names")?;
        let is_name =
            |name: &&String| !(1..=NAME_BYTES_MAX).contains(&name.len()) || name.contains('/');
        if let Some(name) = processes.iter().find(is_name) {
            return Err(format!(
                "profiles.processes: {name:?} must be a file name, such as \"python3\""
            ));
        }
        if !continuous {
            return Ok(());
        }
        if processes.is_empty() && !jobs {
            return Err("profiles.continuous watches nothing: set profiles.jobs, or name \
                        profiles.processes"
                .to_owned());
        }
        directory::check("profiles.directory", directory)
    }

    pub fn watched(&self) -> ContinuousBounds {
        let every = Duration::from_secs(self.interval_seconds.into());
        let turns = Turns { hz: self.hz, native: false, every };
        let turns = self.continuous.then_some(turns);
        ContinuousBounds { by_name: !self.processes.is_empty(), senders: self.jobs, turns }
    }

    pub fn bounds(&self) -> HistoryBounds {
        let age_max = Duration::from_secs(24 * 3_600) * self.days;
        HistoryBounds { age_max, bytes_max: self.mib_max * 1024 * 1024 }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::settings::{Layer, resolve};

    use super::*;
    use crate::config::Config;

    #[test]
    fn the_shipped_directory_is_one_that_the_unit_makes() {
        let file = include_str!("../../../deploy/systemd/node.toml");
        let layer = Layer::from_toml("node.toml", file).unwrap();
        let profiles = resolve::<Config>(&[layer]).unwrap().value.profiles;
        assert!(profiles.directory.starts_with("/var/lib/plimsoll-node"), "{profiles:?}");
        let unit = include_str!("../../../deploy/systemd/plimsoll-node.service");
        assert!(unit.contains("\nStateDirectory=plimsoll-node\n"));
    }

    #[test]
    fn bounds_names_and_the_directory_are_checked_by_their_keys() {
        let base = ProfileSettings::default;
        assert_eq!((base().check(), base().watched().turns), (Ok(()), None));
        let on = || ProfileSettings { continuous: true, directory: "/tmp".into(), ..base() };
        assert_eq!(on().check(), Ok(()));
        let ContinuousBounds { by_name, senders, turns } = on().watched();
        assert!(senders && !by_name && turns.is_some_and(|turns| turns.hz == CONTINUOUS_HZ));
        for (settings, part) in [
            (ProfileSettings { hz: 0, ..base() }, "profiles.hz is 0"),
            (ProfileSettings { interval_seconds: 9, ..base() }, "must be 10 to 3600"),
            (ProfileSettings { days: 0, ..base() }, "profiles.days is 0"),
            (ProfileSettings { mib_max: 1, ..base() }, "profiles.mib_max is 1"),
            (ProfileSettings { processes: vec!["a/b".into()], ..base() }, "must be a file name"),
            (ProfileSettings { processes: vec!["a".into(); 17], ..base() }, "at most 16 names"),
            (ProfileSettings { jobs: false, ..on() }, "watches nothing"),
            (ProfileSettings { directory: "/dev/null/x".into(), ..on() }, "profiles.directory: "),
        ] {
            let error = settings.check().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
