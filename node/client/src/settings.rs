//! The library's settings: from the environment, which the program overrides. Read once for each
//! process image.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_schemas::ids::Labels;

use crate::config::Config;
use crate::default_labels::DefaultLabels;
use crate::limits::{DEFAULT_LABELS_MAX, FLUSH_EVERY, FLUSH_EVERY_MAX, FLUSH_EVERY_MIN};
use crate::ranks::rank_labels;
use crate::switches::{Profiler, ProfilerSwitch};

const ENABLE: &str = "PLIMSOLL_ENABLE";
const FLUSH_MS: &str = "PLIMSOLL_FLUSH_MS";
const LABELS: &str = "PLIMSOLL_LABELS";
const RANKS: &str = "PLIMSOLL_RANKS";
const STREAM: &str = "/run/plimsoll/node.stream";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) enabled: bool,
    pub(crate) profilers: [ProfilerSwitch; 2],
    pub(crate) stream: PathBuf,
    pub(crate) flush_every: Duration,
    /// Labels of every series.
    pub(crate) labels: DefaultLabels,
    /// Neither the environment nor the program sets any switch, be it to off.
    pub(crate) is_unset: bool,
    /// Settings without effect, each with its fix.
    pub(crate) problems: Vec<String>,
}

impl Settings {
    pub(crate) fn from_environment() -> Self {
        Self::from_environment_and(Config::default())
    }

    pub(crate) fn from_environment_and(config: Config) -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::read(variable, config)
    }

    /// An invalid variable has no effect and is a problem.
    fn read(variable: impl Fn(&str) -> Option<OsString>, config: Config) -> Self {
        let mut problems = Vec::new();
        let mut switch = |name: &str| match variable(name)?.to_str() {
            Some("1") => Some(true),
            Some("0") => Some(false),
            other => {
                let value = other.unwrap_or("not UTF-8");
                problems.push(format!("{name} is {value:?} and has no effect: use 1 or 0"));
                None
            }
        };

        let enabled = config.enable.or(switch(ENABLE)).unwrap_or(false);

        let profilers = Profiler::ALL.map(|profiler| {
            let in_code = match profiler {
                Profiler::Timers => config.timers,
                Profiler::Shards => config.shards,
            };
            let wanted = in_code.or(switch(profiler.variable()));
            // A program that enables the library in code need not name each profiler.
            let wanted = wanted.or((config.enable == Some(true)).then_some(true));
            ProfilerSwitch { profiler, wanted }
        });

        let names = Profiler::ALL.map(Profiler::variable);
        let is_unset = profilers.iter().all(|switch| switch.wanted.is_none())
            && config.enable.is_none()
            && [ENABLE].iter().chain(&names).all(|name| variable(name).is_none());
        let lost = profilers.iter().find(|switch| switch.wanted == Some(true) && !enabled);
        // Off on purpose needs no word.
        let is_off_on_purpose = config.enable == Some(false) || variable(ENABLE).is_some();

        if let Some(ProfilerSwitch { profiler, .. }) = lost.filter(|_| !is_off_on_purpose) {
            let name = profiler.variable();
            problems
                .push(format!("{name} has no effect without the master switch: set {ENABLE}=1"));
        }

        let flush_every = config.flush_every.or_else(|| {
            let text = variable(FLUSH_MS)?;
            let ms = text.to_str().and_then(|ms| ms.parse().ok());

            if ms.is_none() {
                let text = text.to_string_lossy();
                problems
                    .push(format!("{FLUSH_MS} is {text:?} and has no effect: use milliseconds"));
            }

            ms.map(Duration::from_millis)
        });

        let set = labels(variable(LABELS), &config.labels, &mut problems);
        let labels = DefaultLabels::new(&set, ranks(&variable, &mut problems));
        Self {
            enabled,
            profilers,
            stream: config
                .stream
                .or_else(|| variable("PLIMSOLL_STREAM").map(Into::into))
                .unwrap_or_else(|| STREAM.into()),
            flush_every: flush_every.unwrap_or(FLUSH_EVERY).clamp(FLUSH_EVERY_MIN, FLUSH_EVERY_MAX),
            labels,
            is_unset,
            problems,
        }
    }
}

/// The labels that the launcher of the job states, unless the environment switches them off.
fn ranks(
    variable: impl Fn(&str) -> Option<OsString>,
    problems: &mut Vec<String>,
) -> Vec<(String, String)> {
    match variable(RANKS) {
        Some(switch) if switch == "off" => return Vec::new(),
        Some(switch) if switch != "on" => {
            problems.push(format!("{RANKS} is {switch:?} and has no effect: use off or on"));
        }
        _ => {}
    }
    rank_labels(variable, problems)
}

/// The default labels: those of the program, then those of the environment, `run=r7,rank=3`, with
/// other keys.
fn labels(
    variable: Option<OsString>,
    in_code: &[(String, String)],
    problems: &mut Vec<String>,
) -> Labels {
    let text = variable.unwrap_or_default();
    let text = text.to_string_lossy();
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    let pairs: Vec<_> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    let is_valid = pairs.iter().all(|(_, value)| !value.is_empty())
        && pairs.len() + in_code.len() <= DEFAULT_LABELS_MAX
        && Labels::new(pairs.iter().copied()).is_ok();

    if !is_valid {
        problems.push(format!(
            "{LABELS} is {text:?} and has no effect: use at most {DEFAULT_LABELS_MAX} labels such \
             as run=r7,rank=3"
        ));
    }

    let others = |(key, _): &(&str, &str)| is_valid && in_code.iter().all(|(set, _)| set != key);
    let pairs = pairs.into_iter().filter(others);
    let in_code = in_code.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Labels::new(in_code.chain(pairs)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(variables: &[(&str, &str)], config: Config) -> Settings {
        let variable = |wanted: &str| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).into())
        };
        Settings::read(variable, config)
    }

    fn read(name: &str, value: &str) -> Settings {
        read_all(&[(name, value)], Config::new())
    }

    fn switches(settings: &Settings) -> (bool, Option<bool>, Option<bool>) {
        let [timers, shards] = settings.profilers.map(|switch| switch.wanted);
        (settings.enabled, timers, shards)
    }

    #[test]
    fn everything_is_off_and_only_one_enables() {
        assert_eq!(switches(&read_all(&[], Config::new())), (false, None, None));
        for (value, enabled, problems) in [("1", true, 0), ("0", false, 0), ("true", false, 1)] {
            let settings = read(ENABLE, value);
            assert_eq!((settings.enabled, settings.problems.len()), (enabled, problems), "{value}");
        }
        let settings = read("PLIMSOLL_ENABLE_TIMERS", "on");
        assert_eq!(
            settings.problems,
            ["PLIMSOLL_ENABLE_TIMERS is \"on\" and has no effect: use 1 or 0"]
        );
    }

    #[test]
    fn a_profiler_needs_its_switch_and_the_master_and_code_overrides() {
        let both = [(ENABLE, "1"), ("PLIMSOLL_ENABLE_TIMERS", "1")];
        let off = [(ENABLE, "1"), ("PLIMSOLL_ENABLE_TIMERS", "0")];
        let (on, no) = (Some(true), Some(false));
        for (variables, config, expected) in [
            (&both[..], Config::new(), (true, on, None)),
            (&both[..1], Config::new(), (true, None, None)),
            (&both[..], Config::new().timers(false), (true, no, None)),
            (&both[..], Config::new().enable(false), (false, on, None)),
            (&[][..], Config::new().enable(true), (true, on, on)),
            (&off[..], Config::new().enable(true), (true, no, on)),
            (&[][..], Config::new().enable(true).shards(false), (true, on, no)),
        ] {
            let settings = read_all(variables, config.clone());
            assert_eq!(switches(&settings), expected, "{variables:?} {config:?}");
            assert_eq!(settings.problems, Vec::<String>::new(), "{variables:?} {config:?}");
        }
        let settings = read("PLIMSOLL_ENABLE_SHARDS", "1");
        assert_eq!(
            settings.problems,
            [
                "PLIMSOLL_ENABLE_SHARDS has no effect without the master switch: set PLIMSOLL_ENABLE=1"
            ]
        );
    }

    #[test]
    fn any_switch_in_code_or_environment_is_a_choice() {
        let named = [("PLIMSOLL_STREAM", "/a"), (LABELS, "run=r7")];
        for (variables, config, is_unset) in [
            (&[][..], Config::new(), true),
            (&named, Config::new().label("rank", "4"), true),
            (&[(ENABLE, "0")], Config::new(), false),
            (&[(ENABLE, "true")], Config::new(), false),
            (&[("PLIMSOLL_ENABLE_SHARDS", "0")], Config::new(), false),
            (&[], Config::new().enable(false), false),
            (&[], Config::new().timers(false), false),
        ] {
            let settings = read_all(variables, config.clone());
            assert_eq!(settings.is_unset, is_unset, "{variables:?} {config:?}");
        }
    }

    #[test]
    fn the_time_between_flushes_keeps_its_bounds() {
        for (value, ms) in [("50", 50), ("0", 10), ("9999999", 60_000), ("soon", 40), ("-1", 40)] {
            let settings = read(FLUSH_MS, value);
            assert_eq!(settings.flush_every, Duration::from_millis(ms), "{value}");
        }
        let config = Config::new().flush_every(Duration::from_secs(90));
        assert_eq!(read_all(&[(FLUSH_MS, "50")], config).flush_every, FLUSH_EVERY_MAX);
    }

    #[test]
    fn labels_of_a_rank_are_there_unless_they_are_switched_off() {
        let rank = ("RANK", "3");
        for (variables, config, expected) in [
            (&[rank][..], Config::new(), &[("rank", "3")][..]),
            (&[rank, (RANKS, "on")], Config::new(), &[("rank", "3")]),
            (&[rank, (RANKS, "off")], Config::new(), &[]),
            (&[rank, (LABELS, "rank=9")], Config::new(), &[("rank", "9")]),
            (&[rank], Config::new().label("rank", "8"), &[("rank", "8")]),
            (&[("RANK", "gold"), (RANKS, "off")], Config::new(), &[]),
        ] {
            let settings = read_all(variables, config.clone());
            let labels: Vec<_> = settings.labels.iter().collect();
            assert_eq!((&labels[..], settings.problems.len()), (expected, 0), "{variables:?}");
        }

        let settings = read_all(&[rank, (RANKS, "0")], Config::new());
        assert_eq!(settings.labels.iter().count(), 1);
        assert_eq!(settings.problems, ["PLIMSOLL_RANKS is \"0\" and has no effect: use off or on"]);
        assert_eq!(read("SLURM_PROCID", "x").problems.len(), 1);
    }

    #[test]
    fn default_labels_come_from_both_and_those_of_the_program_win() {
        let config = Config::new().label("rank", "4").label("job", "a");
        let settings = read_all(&[(LABELS, "run=r7,rank=3")], config);
        let labels: Vec<_> = settings.labels.iter().collect();
        assert_eq!(labels, [("job", "a"), ("rank", "4"), ("run", "r7")]);
        for wrong in ["run", "run=", "a b=c", "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8,i=9", "a=1,a=2"] {
            let settings = read(LABELS, wrong);
            assert_eq!(
                (settings.labels.iter().count(), settings.problems.len()),
                (0, 1),
                "{wrong}"
            );
        }
    }
}
