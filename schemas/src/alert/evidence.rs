//! The evidence of an alert: the values that changed its state.

use serde::{Deserialize, Serialize};

use crate::budget::Window;
use crate::ids::{Labels, Operation};
use crate::metric::{Comparison, Metric};
use crate::straggler::StragglerMethod;

/// The values that changed an alert's state, by type of rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Evidence {
    /// A budget.
    Latency(LatencyEvidence),
    /// An error budget.
    Burn(BurnEvidence),
    /// A node's ledger entry.
    Gap(GapEvidence),
    /// A peer that is slower than the others.
    Straggler(StragglerEvidence),
    /// Anything else.
    Value(ValueEvidence),
}

impl Evidence {
    /// What was judged, when it was a budget.
    #[must_use]
    pub fn latency(&self) -> Option<&LatencyEvidence> {
        match self {
            Self::Latency(latency) => Some(latency),
            Self::Burn(_) | Self::Gap(_) | Self::Straggler(_) | Self::Value(_) => None,
        }
    }

    /// What was found, and what it was compared with, in the rule's own unit: seconds, a burn rate,
    /// or that of its metric; of a straggler the excess, as a share, and what is allowed.
    #[must_use]
    pub fn value_and_limit(&self) -> (f64, f64) {
        match self {
            Self::Latency(latency) => (latency.value_seconds, latency.limit_seconds),
            Self::Burn(burn) => (burn.long_burn, burn.factor),
            Self::Gap(gap) => {
                #[expect(clippy::cast_precision_loss, reason = "shown to people")]
                let samples = gap.gap_samples as f64;
                (samples, 0.0)
            }
            Self::Straggler(straggler) => (straggler.excess_ratio, straggler.allowed_ratio),
            Self::Value(value) => (value.value, value.threshold),
        }
    }
}

/// Samples that are missing below a node's newest message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct GapEvidence {
    /// How many; 0 once none is missing any more.
    pub gap_samples: u64,
}

/// A peer that is slower than the others of its cohort, the slowest of its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StragglerEvidence {
    /// How it shows.
    pub method: StragglerMethod,
    /// The operation that spans a step.
    pub operation: Operation,
    /// The labels that all peers of the cohort share.
    pub cohort: Labels,
    /// The label whose values are the peers.
    pub by: String,
    /// Its value: the peer.
    pub peer: String,
    /// Peers of the cohort that report.
    pub peers: u64,
    /// Further peers of the same node that are slower than allowed.
    pub others_of_node: u64,
    /// By how much a step is slower than that of the median peer.
    pub excess_seconds: f64,
    /// Its lower confidence bound, at 95 %.
    pub lower_seconds: f64,
    /// Its upper confidence bound.
    pub upper_seconds: f64,
    /// The excess as a share of the median peer's work per step.
    pub excess_ratio: f64,
    /// Its lower confidence bound.
    pub lower_ratio: f64,
    /// Its upper confidence bound.
    pub upper_ratio: f64,
    /// The excess up to which a peer is healthy.
    pub allowed_ratio: f64,
    /// The class of time that covers most of the excess; `None` if none does.
    pub class: Option<String>,
    /// Classes of work of which they send no samples.
    pub unmeasured: Vec<String>,
    /// Since when it is slower, in seconds since 1970.
    pub slow_since_seconds: f64,
    /// Hours that all peers lose to it, per hour.
    pub peer_hours_per_hour: f64,
    /// An upper bound of the chance that noise alone shows as much within a day.
    pub chance_of_error: f64,
}

/// The burn rate of an error budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BurnEvidence {
    /// The share of samples that must stay within the limit.
    pub objective: f64,
    /// The limit.
    pub limit_seconds: f64,
    /// The burn rate that fires the alert.
    pub factor: f64,
    /// The burn rate over the long window.
    pub long_burn: f64,
    /// The long window.
    pub long: Window,
    /// The burn rate over the short window.
    pub short_burn: f64,
    /// The short window.
    pub short: Window,
    /// What is left of the error budget of thirty days, 1 being all; below 0 it is overdrawn.
    pub remaining: f64,
}

/// A value and its threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ValueEvidence {
    /// What was compared.
    pub metric: Metric,
    /// Which one of several, where there were.
    #[serde(default)]
    pub labels: Labels,
    /// Its value.
    pub value: f64,
    /// How it was compared.
    pub comparison: Comparison,
    /// With what.
    pub threshold: f64,
}

/// A quantile and its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LatencyEvidence {
    /// The quantile that was judged.
    pub quantile: f64,
    /// Its value over the window.
    pub value_seconds: f64,
    /// Its lower confidence bound.
    pub lower_seconds: f64,
    /// The limit it was compared with.
    pub limit_seconds: f64,
    /// The window.
    pub window: Window,
    /// Samples in it.
    pub samples: u64,
    /// Its upper confidence bound, where the samples allow for one.
    #[serde(default)]
    pub upper_seconds: Option<f64>,
    /// Samples over the limit.
    #[serde(default)]
    pub over: u64,
    /// Samples that may be over the limit too.
    #[serde(default)]
    pub uncertain: u64,
    /// The samples that show the breach, where one is shown: at few samples a second those of a
    /// longer time than the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch: Option<StretchEvidence>,
    /// The least and the most that the value may be. Present if only the producers' wide buckets
    /// are known for some samples, which makes the value approximate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<(f64, f64)>,
    /// How many times as much the number of samples over the limit varies as that of independent
    /// samples would; 1 or more.
    #[serde(default = "independent")]
    pub overdispersion: f64,
    /// Whether the overdispersion is still assumed, since too few samples were seen to know it.
    #[serde(default)]
    pub learning: bool,
}

/// What evidence of former versions was judged by.
const fn independent() -> f64 {
    1.0
}

/// The samples up to now that show a breach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StretchEvidence {
    /// How long ago the first of them may have been taken.
    pub seconds: f64,
    /// Samples.
    pub samples: u64,
    /// Of those, samples certainly over the limit.
    pub over: u64,
}
