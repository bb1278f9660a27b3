//! What stands beside an alert, so that nobody has to look it up at night.

use serde::{Deserialize, Serialize};

use crate::budget::Window;
use crate::ids::{Labels, NodeName};

/// What an engineer would look up next, as it was when the alert fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Nodes with the greatest shares of what is wrong, the worst first; of an alert about one
    /// node that node alone.
    pub worst: Vec<WorstNode>,
    /// The window that their samples are from: the one that was judged, the shorter one of two,
    /// or the longest that nodes keep where they do not keep that; `None` where no samples were.
    pub worst_window: Option<Window>,
    /// Samples of the same span just before the window that was judged, in the same bars; empty
    /// where there were none or they are no longer told apart from others.
    pub before: Vec<BarSeconds>,
    /// Samples of the window that was judged.
    pub during: Vec<BarSeconds>,
    /// Nodes whose samples the worst nodes' window holds, and how many were expected.
    pub completeness: Option<(u64, u64)>,
    /// A page that shows the time of it.
    pub dashboard: Option<String>,
}

/// A bar of a small histogram. One of its ends is the limit and exact; at the others a sample may
/// stand in the neighbouring bar when it differs from the end by less than a thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BarSeconds {
    /// Samples up to this, and above the bar before; the last bar ends at the greatest sample.
    pub up_to: f64,
    /// How many.
    pub samples: u64,
}

/// A node, and what it has to do with an alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorstNode {
    /// Its name.
    pub node: NodeName,
    /// What it is called by beside that.
    #[serde(default)]
    pub labels: Labels,
    /// Samples in the window.
    pub samples: u64,
    /// Of these over the limit.
    pub over: u64,
    /// Its share of the fleet's samples over the limit, 0 to 1.
    pub share: f64,
    /// Its machine.
    #[serde(default)]
    pub hardware: HardwareContext,
    /// Its way to the broker.
    #[serde(default)]
    pub bus: BusContext,
}

/// The worst that sensors of a machine said within the last minute or two; `None` where they said
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Whether clocks of a GPU were held down for heat or for want of power.
    pub gpu_throttled: Option<bool>,
    /// Whether its processors were hot and a fifth slower than they can be.
    pub cpu_throttled: Option<bool>,
    /// Share of its CPU time that a hypervisor gave to other machines.
    pub cpu_steal_ratio: Option<f64>,
    /// Used share of the memory that its control group may use.
    pub cgroup_memory_used_ratio: Option<f64>,
    /// Share of the last minute's periods in which its control group had to wait for CPU time.
    pub cgroup_cpu_throttled_ratio: Option<f64>,
    /// Share of ten seconds in which all its tasks waited for memory.
    pub memory_stalled_ratio: Option<f64>,
}

/// A node's way to the broker, as it last told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BusContext {
    /// Messages in its outbox.
    pub outbox_messages: u64,
    /// The most there were in the interval that it last told of.
    pub outbox_messages_max: u64,
    /// Bytes in its outbox.
    pub pending_bytes: u64,
    /// Messages it rerouted, ever.
    pub rerouted: u64,
    /// Messages it dropped, ever.
    pub dropped: u64,
    /// Its latest round trip to the broker.
    pub round_trip_seconds: Option<f64>,
}
