//! What an evaluation returns: culprits with what is known of each, and how much could be judged.

use crate::report::{Class, Interval, Peer};

/// A cohort as it is judged now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Those named, the slowest first; at most [`crate::CULPRITS_MAX`].
    pub culprits: Vec<Culprit>,
    /// How many are named.
    pub named: usize,
    pub counts: Counts,
    /// A healthy peer whose last block is closest to the median: whom culprits are compared with.
    pub median_peer: Option<Peer>,
    /// Noise is not known yet, so no peer can be named.
    pub is_learning: bool,
    /// The expected number of peers a week that noise alone brings as close to a name as the
    /// closest suspect; `None` without suspects. At 1 it is named.
    pub closest_per_week: Option<f64>,
}

/// How much of a cohort could be judged in its last block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Peers that report.
    pub peers: usize,
    /// Those with fewer than half of the median peer's steps.
    pub abstained: usize,
    /// Those of which too many intervals are missing, or that have just come.
    pub incomplete: usize,
    /// Named peers and suspects that noise cannot tell from another one.
    pub tied: usize,
}

/// A peer that is slower than allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Culprit {
    pub peer: Peer,
    /// The start of the block in which its evidence started.
    pub since: Interval,
    pub excess: Excess,
    /// The class that covers at least 80 % of the excess; `None` if the cause is not measured.
    pub class: Option<Class>,
    /// What it costs: hours of all peers that wait for it, per hour. Where several are named under
    /// `waits least`, the part that ends when it is as fast as the next one.
    pub peer_hours_per_hour: f64,
    /// An upper bound of the chance that noise alone brings any peer of any rule to as much
    /// evidence within a day.
    pub chance_of_error: f64,
}

/// How much slower than the median peer: the mean of medians of five bins, over at most 60 bins
/// since the evidence started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    pub ms_per_step: f64,
    /// Of the median peer's work per step, with its confidence interval of 95 %.
    pub percent: f64,
    pub lower_percent: f64,
    pub upper_percent: f64,
}
