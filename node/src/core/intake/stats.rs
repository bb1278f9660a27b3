//! Statistics of the intake for the node's own metrics. All only grow, except the numbers of
//! tracked clients and streams.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::wire::EventSource;

use super::points::PointStats;
use super::promtext::ScrapeStats;
use super::reject::Reject;
use super::series::LabelStats;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeStats {
    pub datagrams: u64,
    /// Values recorded (a packed line holds several).
    pub values: u64,
    /// Of those, values with a timestamp.
    pub timestamped: u64,
    /// Latency samples recorded: values times what each represents, and those in frames.
    pub samples: u64,
    /// Latencies above one hour, recorded as one hour.
    pub clamped: u64,
    /// Values, and samples in frames, folded into the series `other`.
    pub overflowed: u64,
    pub rejected: BTreeMap<Reject, u64>,
    pub read_errors: u64,
    /// Datagrams that the kernel dropped because a socket was full.
    pub kernel_dropped: u64,
    /// Tags that did not become labels unchanged, once for each value.
    pub labels: LabelStats,
    pub events: BTreeMap<EventSource, u64>,
    /// Texts of events that were cut.
    pub events_cut: u64,
    /// Numbered clients that are tracked.
    pub clients: usize,
    /// Datagrams that numbered clients sent and that did not arrive.
    pub client_lost_datagrams: u64,
    /// Frames read, including repetitions.
    pub frames: u64,
    /// Frames that could not be read, by reason.
    pub frames_rejected: BTreeMap<&'static str, u64>,
    /// Operations of `ms` lines that look like seconds.
    pub suspect_units: Vec<Operation>,
    pub points: PointStats,
    pub scrapes: Vec<ScrapeStats>,
}
