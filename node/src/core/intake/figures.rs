//! Counts of what came in, for the node's own metrics. They only ever grow, but for the clients and
//! the streams known.

use std::collections::BTreeMap;

use plimsoll_schemas::wire::EventSource;

use super::labels::LabelFigures;
use super::points::PointFigures;
use super::promtext::ScrapeFigures;
use super::reject::Reject;

/// What came in so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeFigures {
    /// Datagrams read.
    pub datagrams: u64,
    /// Values taken (a packed line holds several).
    pub values: u64,
    /// Of those, values that said when they held.
    pub timestamped: u64,
    /// Latency samples taken: values times what each stands for, and those in frames.
    pub samples: u64,
    /// Latencies above one hour, recorded as one hour.
    pub clamped: u64,
    /// Values, and samples in frames, folded into the series `other`.
    pub overflowed: u64,
    /// Lines refused, by reason.
    pub rejected: BTreeMap<Reject, u64>,
    /// Reads of a socket that failed.
    pub read_errors: u64,
    /// Datagrams that the kernel dropped because a socket was full.
    pub kernel_dropped: u64,
    /// Tags that did not become labels as they were, once for each value.
    pub labels: LabelFigures,
    /// Events and service checks taken.
    pub events: BTreeMap<EventSource, u64>,
    /// Texts of events that were cut.
    pub cut: u64,
    /// Clients that number what they send, known at this moment.
    pub clients: usize,
    /// Datagrams that such clients sent and that never came.
    pub client_lost_datagrams: u64,
    /// Frames read, those that came twice included.
    pub frames: u64,
    /// Frames that could not be read, by reason.
    pub frames_refused: BTreeMap<&'static str, u64>,
    /// What other systems told, point by point.
    pub points: PointFigures,
    /// Targets whose pages are read.
    pub scrapes: Vec<ScrapeFigures>,
}
