//! What a threshold may watch: every figure of a node or of the aggregator that is one number.
//!
//! A metric is named in a rule's file as it is here; each has a producer, which a test of the
//! aggregator walks. Ratios are 0 to 1, times are seconds, sizes are bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hardware::sensor;
use crate::ids::Operation;

/// One figure that a rule can watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Metric {
    /// A figure of each node, worked out by the aggregator from what the node sends.
    Node(Figure),
    /// A figure of the aggregator itself, under the fleet's scope.
    Fleet(FleetFigure),
    /// `sensor:<name>`: the latest reading of a sensor of the catalogue, per node.
    Sensor(String),
    /// `counter:<name>`: what a job's counter grew by within the last minute, per node.
    Counter(Operation),
    /// `gauge:<name>`: the latest value of a job's gauge, per node, unless it is older than 75 s.
    Gauge(Operation),
}

macro_rules! figures {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $variant:ident $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$of])* $variant,)* }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in files and labels.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

figures! {
    /// A figure of one node.
    Figure {
        /// Messages in its outbox.
        OutboxMessages "outbox_messages",
        /// Bytes in its outbox.
        OutboxBytes "outbox_bytes",
        /// Messages rerouted to the emergency lane within the last minute.
        Rerouted "rerouted",
        /// Messages dropped within the last minute.
        Dropped "dropped",
        /// Samples given up within the last five minutes.
        SamplesLost "samples_lost",
        /// Datagrams that its kernel dropped within the last minute.
        KernelDropped "kernel_dropped",
        /// Samples of runs that have ended that are nowhere, found so in the last five minutes.
        Unaccounted "unaccounted_samples",
        /// Samples missing before ones that arrived, for too long to come by themselves.
        LedgerGap "ledger_gap_samples",
        /// The worst that its breaker has been within the last minute or two: 0 closed, 1
        /// half-open, 2 open. While it is open its node cannot tell, so that is heard later and
        /// all at once.
        BreakerState "breaker_state",
        /// 1 while it sends by the emergency lane alone, and for a minute or two after.
        ConservativeMode "conservative_mode",
        /// Seconds since it was last heard; 0 after a farewell, which explains the silence. Nobody
        /// knows while the aggregator itself hears nothing, and for some seconds after.
        SilentSeconds "silent_seconds",
        /// How far its clock is off, whichever way.
        ClockSkewSeconds "clock_skew_seconds",
        /// Times that a message of another node under its name was seen, within the last minute.
        NameConflicts "name_conflicts",
        /// The latest round trip to the broker.
        RoundTripSeconds "round_trip_seconds",
        /// Used share of its memory.
        MemoryUsedRatio "memory_used_ratio",
        /// Used share of its swap space.
        SwapUsedRatio "swap_used_ratio",
        /// Used share of its fullest file system, of what ordinary users may use, as df has it; not
        /// of one that takes no writes.
        DiskUsedRatio "disk_used_ratio",
        /// The hottest sensor of its processors; of a die that tells the true temperature too, not
        /// the one with an offset for fans.
        CpuTemperatureCelsius "cpu_temperature_celsius",
        /// The hottest of its GPUs.
        GpuTemperatureCelsius "gpu_temperature_celsius",
        /// Used share of the memory of its fullest GPU.
        GpuMemoryUsedRatio "gpu_memory_used_ratio",
        /// Reasons, each on one GPU, for which clocks are held down now: heat, or want of power.
        /// Not a limit that someone has set, which a busy GPU always reaches. A GPU that is hot and
        /// a fifth slower than when it was cool is one more.
        GpuThrottled "gpu_throttled",
        /// GPUs that were there and cannot be asked now.
        GpusLost "gpus_lost",
        /// Faults that drivers of GPUs reported (XID) within the last five minutes.
        GpuFaults "gpu_faults",
        /// Errors of GPUs' memory that could not be corrected, within the last five minutes.
        GpuMemoryErrors "gpu_memory_errors",
        /// 1 while its processors are hot and a fifth slower than they can be.
        CpuThrottled "cpu_throttled",
        /// Used share of the memory that its control group may use.
        CgroupMemoryUsedRatio "cgroup_memory_used_ratio",
        /// Share of the last minute's periods in which its control group had to wait for CPU time.
        CgroupCpuThrottledRatio "cgroup_cpu_throttled_ratio",
        /// Share of the last ten seconds in which all its tasks waited for memory.
        MemoryStalledRatio "memory_stalled_ratio",
        /// Processes that its kernel killed for want of memory, within the last five minutes.
        OomKills "oom_kills",
        /// Used share of the files that its fullest file system may hold.
        DiskInodesUsedRatio "disk_inodes_used_ratio",
        /// Used share of the files that it may have open.
        FileHandlesUsedRatio "file_handles_used_ratio",
        /// 1 while nothing keeps its clock on time.
        ClockUnsynchronized "clock_unsynchronized",
    }
}

figures! {
    /// A figure of the aggregator.
    FleetFigure {
        /// Messages in the streams that are still to be read.
        PendingMessages "pending_messages",
        /// Messages that could not be read, within the last minute.
        Undecodable "undecodable",
        /// Notices that reached nobody, within the last five minutes.
        Undelivered "undelivered",
        /// Seconds for which something has been waiting to be stored; none where nothing is.
        CheckpointAgeSeconds "checkpoint_age_seconds",
        /// Seconds for which the broker has been away or has not answered; 0 while it does.
        BrokerAwaySeconds "broker_away_seconds",
        /// Operations of budgets of which samples came within the last hour and then no more, for
        /// five minutes and three times as long as ever within that hour, although nodes that
        /// brought them still speak.
        OperationsAbsent "operations_absent",
    }
}

/// A name that is no metric's; the text says what would have been one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no metric; {}", hint())]
pub struct UnknownMetric {
    name: String,
}

fn hint() -> String {
    let names = |all: Vec<&str>| all.join(", ");
    let node = names(Figure::ALL.iter().map(|figure| figure.as_str()).collect());
    let fleet = names(FleetFigure::ALL.iter().map(|figure| figure.as_str()).collect());
    format!(
        "of nodes there are {node}; of the aggregator {fleet}; or sensor:<name>, counter:<name>, \
         gauge:<name>"
    )
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(text: &str) -> Result<Self, UnknownMetric> {
        let unknown = || UnknownMetric { name: text.to_owned() };
        // The whole of it is the operation of its alerts.
        let job = |name: &str| {
            Operation::check(text).map_err(|_| unknown())?;
            Operation::new(name).map_err(|_| unknown())
        };
        if let Some(name) = text.strip_prefix("sensor:") {
            return sensor(name).map(|_| Self::Sensor(name.to_owned())).ok_or_else(unknown);
        }
        if let Some(name) = text.strip_prefix("counter:") {
            return job(name).map(Self::Counter);
        }
        if let Some(name) = text.strip_prefix("gauge:") {
            return job(name).map(Self::Gauge);
        }
        let node = Figure::ALL.iter().find(|figure| figure.as_str() == text);
        let fleet = FleetFigure::ALL.iter().find(|figure| figure.as_str() == text);
        let node = node.map(|figure| Self::Node(*figure));
        node.or(fleet.map(|figure| Self::Fleet(*figure))).ok_or_else(unknown)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(figure) => f.write_str(figure.as_str()),
            Self::Fleet(figure) => f.write_str(figure.as_str()),
            Self::Sensor(name) => write!(f, "sensor:{name}"),
            Self::Counter(name) => write!(f, "counter:{name}"),
            Self::Gauge(name) => write!(f, "gauge:{name}"),
        }
    }
}

impl TryFrom<String> for Metric {
    type Error = UnknownMetric;

    fn try_from(text: String) -> Result<Self, UnknownMetric> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.to_string()
    }
}

impl Metric {
    /// What an alert about it is about, as its key's operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        Operation::new(self.to_string()).expect("every metric's name is one an operation may have")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_read_back_from_its_name_and_a_wrong_one_is_told_which_there_are() {
        let figures = Figure::ALL.iter().map(|figure| figure.as_str());
        let fleet = FleetFigure::ALL.iter().map(|figure| figure.as_str());
        let others = ["sensor:load1", "counter:isolation.violations", "gauge:depth"];
        for name in figures.chain(fleet).chain(others) {
            let metric: Metric = name.parse().unwrap();
            assert_eq!((metric.to_string(), metric.operation().as_str()), (name.to_owned(), name));
        }
        for wrong in ["sensor:mood", "depth", "counter:", ""] {
            let error = wrong.parse::<Metric>().unwrap_err().to_string();
            assert!(
                error.contains("outbox_messages") && error.contains("counter:<name>"),
                "{error}"
            );
        }
    }
}
