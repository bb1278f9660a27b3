//! Shares of CPU time from two readings of `/proc/stat`, and the number of running and blocked
//! tasks.
//!
//! A share is a difference between two samples. If a counter decreased, which happens when a core
//! comes back online and sometimes without a reason, that share is missing.

use crate::limits::CORES_MAX;
use plimsoll_schemas::hardware::{
    CPU_CORE_USAGE_RATIO, CPU_IOWAIT_RATIO, CPU_STEAL_RATIO, CPU_USAGE_RATIO, MissingReading,
    TASKS_BLOCKED, TASKS_RUNNING,
};

use super::gather::{Gather, List};
use super::root::{Kept, Root};
use super::scale::Raw;
use super::table;

/// Ticks since the machine's start: user, nice, system, idle, iowait, irq, softirq, steal. The
/// two of guests that follow are in user and nice already.
type Times = [u64; 8];
const IDLE: usize = 3;
const IOWAIT: usize = 4;
const STEAL: usize = 7;

/// Reads the table and keeps the previous values.
pub(super) struct Cpu {
    stat: Kept,
    before: Look,
    now: Look,
}

/// The times that one sample at the table found.
#[derive(Debug, Default, PartialEq)]
struct Look {
    all: Option<Result<Times, MissingReading>>,
    // Ascending by core, as the table is.
    cores: Vec<(usize, Result<Times, MissingReading>)>,
}

impl Cpu {
    pub(super) fn new(root: &Root) -> Self {
        Self { stat: root.kept("proc/stat"), before: Look::default(), now: Look::default() }
    }

    /// Reads the table; gathers what concerns the machine as a whole.
    pub(super) fn gather_all(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        std::mem::swap(&mut self.before, &mut self.now);
        let table = self.stat.read(space);
        self.now = table.map_or_else(|why| Look { all: Some(Err(why)), cores: vec![] }, look);
        for (sensor, key) in [(&TASKS_RUNNING, "procs_running"), (&TASKS_BLOCKED, "procs_blocked")]
        {
            let tasks = table.and_then(|table| table::figure(table, key));
            gather.put(sensor, tasks.map(|tasks| tasks as f64));
        }
        let Some(spent) = spent(self.before.all, self.now.all) else { return };
        let share_of = |part| spent.and_then(|times| share(&times, part));
        gather.put(&CPU_USAGE_RATIO, share_of(in_use));
        gather.put(&CPU_IOWAIT_RATIO, share_of(|times| times[IOWAIT]));
        gather.put(&CPU_STEAL_RATIO, share_of(|times| times[STEAL]));
    }

    /// What concerns each core, from the last read of the table.
    pub(super) fn gather_cores(&self, gather: &mut Gather) {
        gather.leave_out(List::Cores, self.now.cores.len().saturating_sub(CORES_MAX));
        for (core, now) in self.now.cores.iter().take(CORES_MAX) {
            let before = self.before.cores.binary_search_by_key(core, |(core, _)| *core);
            let before = before.ok().map(|index| self.before.cores[index].1);
            let Some(spent) = spent(before, Some(*now)) else { continue };
            let usage = spent.and_then(|times| share(&times, in_use));
            gather.put_with(&CPU_CORE_USAGE_RATIO, &[("core", &core.to_string())], usage);
        }
    }
}

/// A first sample, or a core that has just come, has no reading: no share, and none missing.
fn spent(
    before: Option<Result<Times, MissingReading>>,
    now: Option<Result<Times, MissingReading>>,
) -> Option<Result<Times, MissingReading>> {
    match (before, now?) {
        (_, Err(why)) => Some(Err(why)),
        (None | Some(Err(_)), Ok(_)) => None,
        (Some(Ok(before)), Ok(now)) => Some(difference(&before, &now)),
    }
}

fn difference(before: &Times, now: &Times) -> Result<Times, MissingReading> {
    let mut spent = [0; 8];
    for (spent, (before, now)) in spent.iter_mut().zip(before.iter().zip(now)) {
        *spent = now.checked_sub(*before).ok_or(MissingReading::failed("went_back"))?;
    }
    Ok(spent)
}

fn in_use(times: &Times) -> u64 {
    times.iter().sum::<u64>().saturating_sub(times[IDLE]).saturating_sub(times[IOWAIT])
}

fn share(spent: &Times, part: fn(&Times) -> u64) -> Raw {
    match spent.iter().sum::<u64>() {
        0 => Err(MissingReading::stale("unchanged")),
        all => Ok(part(spent) as f64 / all as f64),
    }
}

fn look(table: &str) -> Look {
    let mut look = Look { all: Some(Err(MissingReading::unsupported("not_found"))), cores: vec![] };
    for line in table.lines() {
        let Some((cpu, counts)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' '))
        else {
            break;
        };
        match cpu {
            "" => look.all = Some(times(counts)),
            core => look.cores.extend(core.parse().ok().map(|core| (core, times(counts)))),
        }
    }
    look
}

fn times(counts: &str) -> Result<Times, MissingReading> {
    let mut times = [0; 8];
    let mut counts = counts.split_ascii_whitespace();
    for time in &mut times {
        *time = table::count(counts.next().unwrap_or_default())?;
    }
    // So that sums cannot overflow: no machine is that old.
    let right = times.iter().all(|time| *time < 1 << 60);
    if right { Ok(times) } else { Err(MissingReading::failed("out_of_range")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "cpu  100 0 50 800 40 0 0 10 0 0\ncpu0 50 0 25 400 20 0 0 5 0 0\n\
                         cpu2 50 0 25 400 20 0 0 5 0 0\nintr 9 9 9\nprocs_running 3\n";

    #[test]
    fn a_look_has_the_whole_and_each_core_that_is_there() {
        let look = look(TABLE);
        assert_eq!(look.all, Some(Ok([100, 0, 50, 800, 40, 0, 0, 10])));
        let cores: Vec<usize> = look.cores.iter().map(|(core, _)| *core).collect();
        assert_eq!(cores, [0, 2]);
    }

    #[test]
    fn shares_are_of_time_between_two_polls() {
        let before: Times = [100, 0, 50, 800, 40, 0, 0, 10];
        let now: Times = [130, 0, 60, 840, 50, 0, 0, 20];
        let spent = difference(&before, &now).unwrap();
        assert_eq!(share(&spent, in_use), Ok(0.5));
        assert_eq!(share(&spent, |times| times[IOWAIT]), Ok(0.1));
        assert_eq!(share(&spent, |times| times[STEAL]), Ok(0.1));
        let back: Times = [130, 0, 60, 839, 39, 0, 0, 20];
        assert_eq!(difference(&before, &back), Err(MissingReading::failed("went_back")));
        assert_eq!(share(&[0; 8], in_use), Err(MissingReading::stale("unchanged")));
    }

    #[test]
    fn one_look_or_a_core_that_has_just_come_has_no_share() {
        let now = Some(Ok([1; 8]));
        let why = MissingReading::failed("not_a_number");
        assert_eq!(spent(None, now), None);
        assert_eq!(spent(Some(Err(why)), now), None);
        assert_eq!(spent(now, Some(Err(why))), Some(Err(why)));
        assert_eq!(spent(now, None), None);
    }

    #[test]
    fn a_line_with_text_or_too_few_counts_is_a_failed_one_and_the_others_stand() {
        let look = look("cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3\ncpu1 1 2 3 4 5 6 7 8 9 10\n");
        let cores: Vec<_> = look.cores.iter().map(|(_, times)| times.is_ok()).collect();
        assert_eq!(cores, [false, true]);
        assert_eq!(times("1 2 3 4 5 x 7 8"), Err(MissingReading::failed("not_a_number")));
        assert_eq!(
            times("1 2 3 4 5 6 7 9223372036854775807"),
            Err(MissingReading::failed("out_of_range"))
        );
    }

    proptest! {
        #[test]
        fn any_two_tables_give_shares_between_0_and_1(
            tables in prop::array::uniform2("(cpu[0-9]?( [0-9]{1,20}){0,10}\n|\\PC{0,9}\n){0,9}"),
        ) {
            let [before, now] = tables.map(|table| look(&table));
            if let Some(Ok(spent)) = spent(before.all, now.all) {
                let usage = share(&spent, in_use);
                prop_assert!(usage.is_err() || (0.0..=1.0).contains(&usage.unwrap()));
            }
        }
    }
}
