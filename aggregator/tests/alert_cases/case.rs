//! One case as its file has it. Steps are the unit of time: the first evaluation is step 1.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::unit::Unit;
use serde::{Deserialize, Deserializer};

/// A history, and what is to become of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// What it shows, as a sentence.
    pub(crate) title: String,
    /// A file of rules as users write it. No others are judged, but those it overrides.
    pub(crate) rules: String,
    /// How many steps are played.
    pub(crate) steps: u64,
    /// Time between two evaluations: a second, or more where hours are to pass.
    #[serde(default = "second", deserialize_with = "duration")]
    pub(crate) step: Duration,
    /// By how much windows of error budgets are shortened; 0 is 1.
    #[serde(default)]
    pub(crate) time_scale: u32,
    #[serde(default)]
    pub(crate) report: Vec<Report>,
    #[serde(default)]
    pub(crate) act: Vec<Act>,
    /// `step rule who state`, after the evaluation of that step.
    #[serde(default)]
    pub(crate) states: Vec<String>,
    /// `step rule who state`, the step perhaps as `first..last`: every notification that there is.
    pub(crate) notifications: Vec<String>,
}

/// What a node sends in each step of a span.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Report {
    pub(crate) node: String,
    /// First and last step.
    pub(crate) span: (u64, u64),
    /// Once in this many steps; 0 is 1.
    pub(crate) every: u64,
    /// Labels of the node; they hold until it sends others.
    pub(crate) node_labels: Option<Labels>,
    pub(crate) operation: String,
    pub(crate) labels: Labels,
    /// Each as `60 of 30ms`.
    pub(crate) samples: Vec<String>,
    /// Limits that the node has received.
    pub(crate) limits: Vec<String>,
    pub(crate) counters: BTreeMap<String, f64>,
    pub(crate) gauges: BTreeMap<String, f64>,
    /// Sensors by name; a state instead of a number where there is no value.
    pub(crate) readings: BTreeMap<String, Reading>,
    /// Any content of a bus message.
    pub(crate) bus: Option<toml::Table>,
    /// Samples that the node drops meanwhile.
    pub(crate) drops_samples: u64,
    /// Samples that it took of itself and drops meanwhile.
    pub(crate) drops_own_samples: u64,
    /// The node's incarnation; each number is one of its own, the first is 1.
    pub(crate) incarnation: u64,
    /// By how many seconds its clock is ahead.
    pub(crate) clock_ahead: i64,
    /// Steps that a message waits at its node.
    pub(crate) late: u64,
    /// All arrive with the last of them, the newest first.
    pub(crate) reversed: bool,
    /// How often each arrives beyond once.
    pub(crate) again: u64,
    pub(crate) vanishes: bool,
    /// Whether the node sends its final message.
    pub(crate) final_message: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reading {
    Value(f64),
    State(plimsoll_schemas::hardware::SensorState),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Act {
    /// Before the evaluation of this step.
    pub(crate) at: u64,
    /// The aggregator stores its state and ends; in this step it is there again.
    pub(crate) back_at: Option<u64>,
    /// Other rules from now on.
    pub(crate) rules: Option<String>,
    /// `rule node`, either perhaps `*`; up to `until`.
    pub(crate) silence: Option<String>,
    /// `rule who`; up to `until`.
    pub(crate) acknowledge: Option<String>,
    pub(crate) until: u64,
    /// The aggregator's clock is set forward by this many seconds.
    pub(crate) clock_leaps: u64,
}

fn second() -> Duration {
    Duration::from_secs(1)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(serde::de::Error::custom)
}

impl Report {
    /// Whether it is sent in this step.
    pub(crate) fn is_due(&self, step: u64) -> bool {
        let (first, last) = self.span;
        (first..=last).contains(&step) && (step - first).is_multiple_of(self.every.max(1))
    }

    /// When the messages of a step arrive, and their order among those that arrive together.
    pub(crate) fn arrives(&self, step: u64) -> (u64, u64) {
        if self.reversed {
            return (self.span.1 + self.late, self.span.1 - step);
        }
        (step + self.late, 0)
    }

    /// Each value in whole numbers of the operation's unit and how many there are of it.
    pub(crate) fn values(&self) -> Vec<(u64, u64)> {
        let per_ns = if Unit::of(&self.operation) == Unit::Picoseconds { 1_000 } else { 1 };
        let value = |text: &String| {
            let (n, value) = text.split_once(" of ").unwrap_or_else(|| panic!("{text:?}"));
            (per_ns * nanoseconds(value), n.parse().unwrap_or_else(|_| panic!("{text:?}")))
        };
        self.samples.iter().map(value).collect()
    }
}

/// A duration such as `18ms 1ns`.
pub(crate) fn nanoseconds(text: &str) -> u64 {
    let parsed = humantime::parse_duration(text).unwrap_or_else(|why| panic!("{text:?}: {why}"));
    u64::try_from(parsed.as_nanos()).unwrap()
}
