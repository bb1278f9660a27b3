//! A group's CPU time: what it may use in each period, what it used, and how it had to wait.

use plimsoll_schemas::hardware::{
    CGROUP_CPU_LIMIT_CORES, CGROUP_CPU_PERIODS_TOTAL, CGROUP_CPU_SECONDS_TOTAL,
    CGROUP_CPU_THROTTLED_PERIODS_TOTAL, CGROUP_CPU_THROTTLED_SECONDS_TOTAL, MissingReading,
};

use super::super::gather::Gather;
use super::super::root::{Kept, Root};
use super::super::scale::Raw;
use super::super::table::{self, NO_LIMIT};
use super::controller::Controller;
use super::limit::{tightest, upwards};

const MICRO: f64 = 1e-6;
const NANO: f64 = 1e-9;

/// Files of a group's CPU time.
pub(super) struct Group {
    limits: Limits,
    /// Of the group and of each above it, as the limits are.
    stats: Vec<Kept>,
    usage: Option<Kept>,
}

enum Limits {
    /// Quota and period in one file.
    Unified(Vec<Kept>),
    /// A file for each.
    Separate(Vec<(Kept, Kept)>),
}

impl Group {
    /// `account` is where the first version counts what was used.
    pub(super) fn new(root: &Root, controller: &Controller, account: &Controller) -> Self {
        let limits = if controller.is_unified {
            Limits::Unified(upwards(root, controller, "cpu.max"))
        } else {
            let quotas = upwards(root, controller, "cpu.cfs_quota_us");
            let periods = upwards(root, controller, "cpu.cfs_period_us");
            Limits::Separate(quotas.into_iter().zip(periods).collect())
        };
        let usage = (!account.is_unified).then(|| format!("{}/cpuacct.usage", account.own()));
        let stats = upwards(root, controller, "cpu.stat");
        Self { limits, stats, usage: usage.map(|path| root.kept(&path)) }
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        let (place, limit) = self.limits.tightest(space);
        gather.put(&CGROUP_CPU_LIMIT_CORES, limit);
        gather.put(&CGROUP_CPU_SECONDS_TOTAL, self.used(space));
        // Of the group whose limit is the tightest: that is the one that makes tasks wait.
        let stat = self.stats[place].read(space);
        let of = |key| stat.and_then(|stat| table::figure(stat, key));
        gather.put(&CGROUP_CPU_PERIODS_TOTAL, of("nr_periods").map(|n| n as f64));
        gather.put(&CGROUP_CPU_THROTTLED_PERIODS_TOTAL, of("nr_throttled").map(|n| n as f64));
        let (key, unit) = self.limits.waited();
        gather.put(&CGROUP_CPU_THROTTLED_SECONDS_TOTAL, of(key).map(|n| n as f64 * unit));
    }

    fn used(&mut self, space: &mut Vec<u8>) -> Raw {
        if let Some(usage) = &mut self.usage {
            return usage.read(space).and_then(table::count).map(|n| n as f64 * NANO);
        }
        let own = self.stats[0].read(space)?;
        table::figure(own, "usage_usec").map(|n| n as f64 * MICRO)
    }
}

impl Limits {
    /// The key under which the time is that tasks waited, and its unit.
    fn waited(&self) -> (&'static str, f64) {
        match self {
            Self::Unified(_) => ("throttled_usec", MICRO),
            Self::Separate(_) => ("throttled_time", NANO),
        }
    }

    fn tightest(&mut self, space: &mut Vec<u8>) -> (usize, Raw) {
        match self {
            Self::Unified(files) => {
                tightest(files.iter_mut().map(|file| file.read(space).and_then(of_both)))
            }
            Self::Separate(files) => tightest(files.iter_mut().map(|(quota, period)| {
                let quota = quota.read(space).and_then(table::number)?;
                cores(quota, period.read(space).and_then(table::number)?)
            })),
        }
    }
}

/// `max 100000`, or `150000 100000`.
fn of_both(line: &str) -> Raw {
    let (quota, period) = line.split_once(' ').ok_or(MissingReading::failed("not_a_number"))?;
    if quota == "max" {
        return Err(NO_LIMIT);
    }
    cores(table::number(quota)?, table::number(period)?)
}

/// A quota of -1 is none.
fn cores(quota: f64, period: f64) -> Raw {
    if quota < 0.0 {
        return Err(NO_LIMIT);
    }
    if period > 0.0 { Ok(quota / period) } else { Err(MissingReading::failed("out_of_range")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_quota_in_periods() {
        assert_eq!(of_both("150000 100000\n"), Ok(1.5));
        assert_eq!(of_both("max 100000\n"), Err(NO_LIMIT));
        assert_eq!(cores(-1.0, 100_000.0), Err(NO_LIMIT));
        assert_eq!(of_both("1 0"), Err(MissingReading::failed("out_of_range")));
        for odd in ["", "max", "x 100000", "1 x"] {
            assert_eq!(of_both(odd), Err(MissingReading::failed("not_a_number")), "{odd}");
        }
    }
}
