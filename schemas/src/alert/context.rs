//! The context of a firing alert: the worst nodes, the histogram before and during it.

use serde::{Deserialize, Serialize};

use super::profile_evidence::ProfileEvidence;
use crate::budget::Window;
use crate::ids::{Labels, NodeName};

/// What an engineer would look up next, with its state when the alert fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AlertContext {
    /// Nodes with the largest shares of the samples over the limit, the worst first; for an alert
    /// of one node that node only.
    pub worst: Vec<WorstNode>,
    /// The window of their samples: the evaluated one, the shorter one of two, or the longest that
    /// nodes keep if they do not keep that one; `None` without samples.
    pub worst_window: Option<Window>,
    /// Samples of the same span just before the evaluated window, in the same bars; empty without
    /// samples, or when they were merged with others.
    pub before: Vec<BarSeconds>,
    /// Samples of the evaluated window.
    pub during: Vec<BarSeconds>,
    /// Nodes whose samples the worst nodes' window holds, and how many were expected.
    pub completeness: Option<(u64, u64)>,
    /// Link to a dashboard at the time of the alert.
    pub dashboard: Option<String>,
    /// What the process at fault does more than that of a peer; absent until both were profiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileEvidence>,
}

/// A bar of a small histogram. One of its ends is the limit and exact; at the others a sample may
/// be counted in the neighbouring bar if it differs from the end by less than a thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Bar"))]
pub struct BarSeconds {
    /// Samples up to this, and above the bar before; the last bar ends at the largest sample.
    pub up_to: f64,
    /// How many.
    pub samples: u64,
}

/// A node, and its part in an alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WorstNode {
    /// Its name.
    pub node: NodeName,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
    /// Samples in the window.
    pub samples: u64,
    /// Of these over the limit.
    pub over: u64,
    /// As [`Self::share_of_slow`], under the name that versions before have for it.
    pub share: f64,
    /// Its share of the fleet's samples over the limit, 0 to 1.
    #[serde(default)]
    pub share_of_slow: f64,
    /// The share of its own samples that are over the limit, 0 to 1.
    #[serde(default)]
    pub over_ratio: f64,
    /// The worst readings of its machine within the last minute or two.
    #[serde(default)]
    pub hardware: HardwareContext,
    /// Its outbox and its way to the broker.
    #[serde(default)]
    pub bus: BusContext,
}

/// The worst readings of a machine's sensors within the last minute or two; `None` without a
/// reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HardwareContext {
    /// Used share of its processors.
    pub cpu_usage_ratio: Option<f64>,
    /// Used share of its memory.
    pub memory_used_ratio: Option<f64>,
    /// Its hottest processor sensor.
    pub cpu_temperature_celsius: Option<f64>,
    /// Its hottest GPU.
    pub gpu_temperature_celsius: Option<f64>,
    /// Used share of the memory of its fullest GPU.
    pub gpu_memory_used_ratio: Option<f64>,
    /// Whether clocks of a GPU were throttled by heat or lack of power.
    pub gpu_throttled: Option<bool>,
    /// Whether its processors were hot and a fifth slower than they can be.
    pub cpu_throttled: Option<bool>,
    /// Share of its CPU time that a hypervisor used for other machines.
    pub cpu_steal_ratio: Option<f64>,
    /// Used share of the memory that its control group may use.
    pub cgroup_memory_used_ratio: Option<f64>,
    /// Share of the last minute's periods in which its control group had to wait for CPU time.
    pub cgroup_cpu_throttled_ratio: Option<f64>,
    /// Share of ten seconds in which all its tasks waited for memory.
    pub memory_stalled_ratio: Option<f64>,
}

/// A node's outbox and connection to the broker, as last reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BusContext {
    /// Messages in its outbox.
    pub outbox_depth: u64,
    /// Maximum in the last reported interval.
    pub outbox_depth_max: u64,
    /// Bytes in its outbox.
    pub pending_bytes: u64,
    /// Messages it rerouted, ever.
    pub rerouted: u64,
    /// Messages it dropped, ever.
    pub dropped: u64,
    /// Its latest round trip to the broker.
    pub round_trip_seconds: Option<f64>,
}
