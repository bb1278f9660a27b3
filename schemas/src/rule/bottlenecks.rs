//! The rules of bottlenecks as data: what is measured over a range, and the limits of severities.
//!
//! Owns the file and how it is read; `core/advice` of the aggregator measures and judges. A rule on
//! another kind of figure is a further [`Measure`].
//!
//! DESIGN A186.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::hardware::{Sensor, sensor};
use crate::ids::{Operation, RuleName};
use crate::labelled;
use crate::metric::Comparison;
use crate::straggler::CLASSES;

const FILE: &str = include_str!("bottlenecks.toml");

/// All rules, and what each of them needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottlenecks {
    /// Samples, or readings of a sensor, with fewer of which nothing is judged.
    pub samples_min: u64,
    /// The share of the nodes' time that must have been received.
    pub coverage_min: f64,
    /// The rules, in the order of a page.
    #[serde(rename = "bottleneck")]
    pub rules: Vec<BottleneckRule>,
}

/// One rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BottleneckRule {
    /// Its name.
    pub name: RuleName,
    /// What is compared.
    pub measure: Measure,
    /// Limits above which it is found.
    #[serde(default)]
    pub greater: SeverityLimits,
    /// Limits below which it is found.
    #[serde(default)]
    pub less: SeverityLimits,
    /// Whether it needs jobs that work in the range.
    #[serde(default)]
    pub while_working: bool,
    /// What must hold beside it.
    #[serde(default)]
    pub only_if: Option<CounterCondition>,
    /// What it is, in one sentence.
    pub summary: String,
    /// Where to read what to do.
    pub runbook: String,
}

/// The limit of each severity; absent for one that the rule does not have.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeverityLimits {
    medium: Option<f64>,
    high: Option<f64>,
    critical: Option<f64>,
}

/// That one counter is a small part of itself and others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterCondition {
    /// The counters, the part first.
    pub share: Vec<Operation>,
    /// Below which share of their sum.
    pub less: f64,
}

/// What a rule compares.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// The share of a class of time in each cycle.
    Share(&'static str),
    /// p99 of each cycle by its mean.
    CycleSpread,
    /// The mean of an operation in seconds.
    Operation(Operation),
    /// The time of an operation by that of the nodes.
    Time(Operation),
    /// The share of each function in the processor time of profiles.
    Functions,
    /// The share of the time in which threads want to run, that they wait for the lock of Python.
    Gil,
    /// By how much each counter whose last part has this name grows a second.
    Rate(String),
    /// The mean of a sensor of each node.
    Mean(&'static Sensor),
    /// The highest value of a sensor by that of another.
    MaxRatio {
        /// The part.
        part: &'static Sensor,
        /// The whole.
        whole: &'static Sensor,
    },
}

labelled! {
    /// How much a bottleneck costs.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum BottleneckSeverity {
        /// Worth a look.
        Medium = "medium",
        /// The first thing to change.
        High = "high",
        /// It may end the job.
        Critical = "critical",
    }
}

/// A limit that a value has passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassedLimit {
    /// Of which severity it is.
    pub severity: BottleneckSeverity,
    /// The limit.
    pub limit: f64,
}

impl Bottlenecks {
    /// The built-in rules.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static ONCE: LazyLock<Bottlenecks> = LazyLock::new(|| {
            toml::from_str(FILE).expect("the built-in file is valid, which a test shows")
        });

        &ONCE
    }
}

impl Bottlenecks {
    /// The last parts of the names of all counters that rules read.
    #[must_use]
    pub fn counter_names(&self) -> BTreeSet<&str> {
        let names = self.rules.iter().flat_map(|rule| {
            let rate = match &rule.measure {
                Measure::Rate(name) => Some(name.as_str()),
                _ => None,
            };
            let shares = rule.only_if.iter().flat_map(|of| &of.share);
            rate.into_iter().chain(shares.filter_map(|of| of.as_str().rsplit('.').next()))
        });
        names.collect()
    }
}

impl BottleneckRule {
    /// The most severe limit that the value has passed.
    #[must_use]
    pub fn passed(&self, value: f64) -> Option<PassedLimit> {
        let passed = |PassedLimit { limit, .. }: &PassedLimit| match self.comparison() {
            Comparison::Less => value < *limit,
            _ => value > *limit,
        };
        self.limits().filter(passed).max_by_key(|of| of.severity)
    }

    /// Which side of its limits is the bad one.
    #[must_use]
    pub fn comparison(&self) -> Comparison {
        match self.less.all().next() {
            Some(_) => Comparison::Less,
            None => Comparison::Greater,
        }
    }

    /// Its limits, from the least severe on.
    pub fn limits(&self) -> impl Iterator<Item = PassedLimit> {
        self.greater.all().chain(self.less.all())
    }
}

impl SeverityLimits {
    fn all(&self) -> impl Iterator<Item = PassedLimit> + use<> {
        let Self { medium, high, critical } = *self;
        let limits = BottleneckSeverity::ALL.into_iter().zip([medium, high, critical]);
        limits.filter_map(|(severity, limit)| Some(PassedLimit { severity, limit: limit? }))
    }
}

/// By hand: a derived one would want its references out of the text.
impl<'de> Deserialize<'de> for Measure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("measure {text:?}: see the head of bottlenecks.toml");
        let of_sensor = |name: &str| {
            sensor(name).ok_or_else(|| format!("measure {text:?}: no sensor {name:?}"))
        };
        match text {
            "functions" => return Ok(Self::Functions),
            "gil" => return Ok(Self::Gil),
            _ => {}
        }
        let (kind, of) = text.split_once(':').ok_or_else(unknown)?;

        match (kind, of.split_once('/')) {
            ("share", None) => {
                let class = CLASSES.into_iter().find(|class| *class == of);
                class.map(Self::Share).ok_or_else(unknown)
            }
            ("cycle", Some(("p99", "mean"))) => Ok(Self::CycleSpread),
            ("operation", None) => {
                Operation::new(of).map(Self::Operation).map_err(|error| error.to_string())
            }
            ("time", None) => Operation::new(of).map(Self::Time).map_err(|error| error.to_string()),
            ("rate", None) => Ok(Self::Rate(of.to_owned())),
            ("mean", None) => of_sensor(of).map(Self::Mean),
            ("max", Some((part, whole))) => {
                Ok(Self::MaxRatio { part: of_sensor(part)?, whole: of_sensor(whole)? })
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_file_has_rules_with_limits_on_one_side() {
        let Bottlenecks { samples_min, coverage_min, rules } = Bottlenecks::built_in();
        assert_eq!((*samples_min, *coverage_min), (100, 0.99));
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((names.len(), rules.len()), (17, 17));
        for rule in rules {
            let sides = [rule.greater, rule.less].map(|side| side.all().count() > 0);
            assert!(sides[0] != sides[1], "{}", rule.name);
            let limits: Vec<f64> = rule.limits().map(|of| of.limit).collect();
            let is_less = rule.comparison() == Comparison::Less;
            let rises = limits.windows(2).all(|two| (two[0] > two[1]) == is_less);
            assert!(rises, "{}: the more severe limit is the further one", rule.name);
        }
    }

    #[test]
    fn each_rule_leads_to_its_anchor_of_the_runbook() {
        let runbook = include_str!("../../../deploy/RUNBOOK.md");
        for rule in &Bottlenecks::built_in().rules {
            let name = rule.name.as_str();
            assert_eq!(rule.runbook, format!("deploy/RUNBOOK.md#{name}"));
            assert!(runbook.contains(&format!("<a id=\"{name}\"></a>")), "{name}");
        }
    }

    #[test]
    fn the_most_severe_limit_that_is_passed_counts() {
        use BottleneckSeverity::{Critical, High, Medium};
        let rules = &Bottlenecks::built_in().rules;
        let rule = |name: &str| rules.iter().find(|rule| rule.name.as_str() == name).unwrap();
        for (name, value, wanted) in [
            ("database_slow", 0.15, None),
            ("database_slow", 0.16, Some((Medium, 0.15))),
            ("database_slow", 0.31, Some((High, 0.3))),
            ("gpu_idle", 0.5, None),
            ("gpu_idle", 0.49, Some((Medium, 0.5))),
            ("gpu_idle", 0.19, Some((High, 0.2))),
            ("gpu_memory_peak", 0.96, Some((Critical, 0.95))),
            ("slow_cycles", f64::NAN, None),
        ] {
            let passed = rule(name).passed(value).map(|of| (of.severity, of.limit));
            assert_eq!(passed, wanted, "{name} at {value}");
        }
    }

    #[test]
    fn a_wrong_measure_is_named() {
        for (text, words) in [
            ("share:lunch", "measure \"share:lunch\": see the head"),
            ("mean:load9", "measure \"mean:load9\": no sensor \"load9\""),
            ("operation:a b", "operation contains a space"),
            ("p99", "measure \"p99\": see the head"),
        ] {
            let error = text.parse::<Measure>().unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
