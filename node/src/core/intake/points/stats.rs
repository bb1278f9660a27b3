//! Statistics of points for the node's own metrics.

/// Points recorded so far; rejections are counted with those of all other input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointStats {
    /// Points recorded, including those that added nothing.
    pub recorded: u64,
    /// Of those, points that only define where to count from.
    pub baselines: u64,
    /// Of those, points of a process that restarted.
    pub restarts: u64,
    /// Streams in the table.
    pub streams: usize,
    /// Streams evicted to make room for others.
    pub evicted: u64,
}
