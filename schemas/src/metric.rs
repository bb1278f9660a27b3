//! The metrics that a threshold rule can compare: single numbers about a node or the aggregator.
//!
//! A rule file uses the names in this file; a test of the aggregator checks that each metric has
//! a producer. Ratios are 0 to 1, times are seconds, sizes are bytes. Of a metric that is one
//! sensor's reading, the worst value is what its [`crate::hardware::Direction`] states; of all
//! others the greatest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hardware::{CATALOGUE, sensor};
use crate::ids::Operation;
use crate::settings::suggestion::suggest;

/// A metric that a threshold rule can compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub enum Metric {
    /// A metric of each node, which the aggregator derives from the node's messages.
    Node(NodeMetric),
    /// A metric of the aggregator itself, in the scope of the fleet.
    Fleet(AggregatorMetric),
    /// `sensor:<name>`: the latest reading of a sensor of the catalogue, per node.
    Sensor(String),
    /// `counter:<name>`: increase of a job's counter within the last minute, per node.
    Counter(Operation),
    /// `rate:<name>`: increase of a job's counter a second, over the last minute, per node; absent
    /// where the counter has just begun to grow, or has ended.
    Rate(Operation),
    /// `share:<name>:<other>`: which share of two counters, or more, the first one grew by within
    /// the last minute, per node: hits / (hits + misses). Absent while none of them grows.
    Share(Share),
    /// `gauge:<name>`: the latest value of a job's gauge, per node, unless it is older than 75 s.
    Gauge(Operation),
    /// `regression:<operation>`: by which share a quantile of the fleet's operation is above that
    /// of a baseline, such as 0.05 for 5 %; of several quantiles the greatest. 0 if none is shown
    /// to be above; unknown without enough samples.
    Regression(Operation),
}

/// A counter beside others, all without a colon in their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// What is divided by the sum of all.
    pub of: Operation,
    /// The others of this sum.
    pub beside: Vec<Operation>,
}

/// How a value is compared with its threshold; strictly, but for [`Self::Equal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(schemars::JsonSchema),
    schemars(rename = "ThresholdComparison")
)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Above it.
    Greater,
    /// Below it.
    Less,
    /// Exactly it.
    Equal,
}

impl Comparison {
    /// Whether the rule fires on a value.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "equal means equal: states and counts are whole numbers")]
    pub fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Greater => value > threshold,
            Self::Less => value < threshold,
            Self::Equal => value == threshold,
        }
    }

    /// The comparison as a label, and its key in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Greater => "greater",
            Self::Less => "less",
            Self::Equal => "equal",
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greater => ">",
            Self::Less => "<",
            Self::Equal => "=",
        })
    }
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
    /// A metric of one node: first those of the agent and its connection, from
    /// [`Self::MemoryUsedRatio`] on those of the machine.
    NodeMetric {
        /// Messages that wait in its outbox, as they were produced.
        OutboxDepth "outbox_depth",
        /// Bytes in its outbox.
        OutboxBytes "outbox_bytes",
        /// Age of the oldest message in its outbox.
        OutboxAgeSeconds "outbox_age_seconds",
        /// The same, of a node that jobs have sent samples: how long these are delayed. Absent for
        /// others.
        SamplesLateSeconds "samples_late_seconds",
        /// The worst of depth, bytes and age: 0.5 where rerouting begins, 1 where dropping begins.
        OutboxPressure "outbox_pressure",
        /// Messages rerouted to the emergency lane within the last minute.
        Rerouted "rerouted",
        /// Messages dropped within the last minute.
        Dropped "dropped",
        /// Samples of jobs lost within the last five minutes.
        SamplesLost "samples_lost",
        /// Runs that ended without a final message of their own, detected within the last five
        /// minutes.
        CrashedRuns "crashed_runs",
        /// Datagrams that its kernel dropped within the last minute.
        KernelDropped "kernel_dropped",
        /// Samples missing from ended incarnations for a reason that is not known, and samples
        /// merged beyond what the node recorded, detected within the last five minutes.
        Unaccounted "unaccounted_samples",
        /// Samples missing before samples that arrived, for longer than a resend takes.
        LedgerGap "ledger_gap_samples",
        /// 1 while its breaker is open, and for a minute or two after. A node with an open breaker
        /// sends nothing, so its state arrives later.
        BreakerOpen "breaker_open",
        /// 1 while it sends in the emergency lane only, and for a minute or two after.
        ConservativeMode "conservative_mode",
        /// Seconds since its last message; 0 after a final message. Absent while the aggregator
        /// itself receives nothing, and for some seconds after.
        SilentSeconds "silent_seconds",
        /// Absolute offset of its clock, as far as no delay of its messages explains it.
        ClockSkewSeconds "clock_skew_seconds",
        /// Messages of another node with the same name within the last minute.
        DuplicateNames "duplicate_names",
        /// Tasks and threads that it had to start again within the last ten minutes.
        TaskRestarts "task_restarts",
        /// 1 while it has a spool that cannot be written, so that what it holds would not outlive
        /// its process; 0 without a spool.
        SpoolNotDurable "spool_not_durable",
        /// Messages whose id someone else had used in a stream before the node did, within the last
        /// five minutes.
        TakenIds "taken_ids",
        /// Confirmations that it refused within the last five minutes: without the signature of an
        /// aggregator, sent once more, or of messages that it never sent.
        ConfirmationsRefused "confirmations_refused",
        /// The latest round trip to the broker.
        RoundTripSeconds "round_trip_seconds",
        /// By how much its way to the broker is slower than that of half of the mesh: its latest
        /// round trip, or the delay of its latest message if that is greater.
        LinkDelaySeconds "link_delay_seconds",
        /// Used share of its memory.
        MemoryUsedRatio "memory_used_ratio",
        /// Used share of its swap space.
        SwapUsedRatio "swap_used_ratio",
        /// Used share of its fullest writable file system, of the space that ordinary users may
        /// use, as `df` reports it.
        DiskUsedRatio "disk_used_ratio",
        /// The hottest sensor of its processors; not a sensor with an offset for fans if the die
        /// also reports the true temperature.
        CpuTemperatureCelsius "cpu_temperature_celsius",
        /// The hottest of its GPUs.
        GpuTemperatureCelsius "gpu_temperature_celsius",
        /// Used share of the memory of its fullest GPU.
        GpuMemoryUsedRatio "gpu_memory_used_ratio",
        /// Reasons, each on one GPU, for which clocks are held down now: heat, or want of power.
        /// Not a limit that someone has set, which a busy GPU always reaches. A GPU that is hot and
        /// a fifth slower than when it was cool is one more.
        GpuThrottled "gpu_throttled",
        /// GPUs that were listed once and do not answer now.
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
        /// Processes that its kernel killed because memory ran out, within the last five minutes.
        OomKills "oom_kills",
        /// Used share of the files that its fullest file system may hold.
        DiskInodesUsedRatio "disk_inodes_used_ratio",
        /// Used share of the files that it may have open.
        FileHandlesUsedRatio "file_handles_used_ratio",
        /// 1 while its clock is not synchronized.
        ClockUnsynchronized "clock_unsynchronized",
        /// File systems, thermometers or other parts of one list that it does not read: they
        /// hang, or are more than it reads.
        SensorsUnread "sensors_unread",
    }
}

figures! {
    /// A metric of the aggregator.
    AggregatorMetric {
        /// Messages in the streams that were not read yet.
        PendingMessages "pending_messages",
        /// Messages that could not be read, within the last minute.
        Undecodable "undecodable",
        /// Notifications that no receiver accepted, within the last five minutes.
        Undeliverable "undeliverable",
        /// Seconds for which a change has been waiting for a checkpoint; absent without one.
        CheckpointAgeSeconds "checkpoint_age_seconds",
        /// Seconds for which the broker has been unreachable; 0 while it answers.
        BrokerUnreachableSeconds "broker_unreachable_seconds",
        /// Tasks and threads that the aggregator had to start again within the last ten minutes.
        TaskRestarts "aggregator_task_restarts",
        /// The median round trip to the broker, of the aggregator and all nodes; of an even number
        /// the smaller of both. Absent while the broker does not answer.
        BrokerRoundTripSeconds "broker_round_trip_seconds",
        /// Used share of the fullest lane's stream, if that refuses messages when it is full; 0 if
        /// all drop their oldest messages.
        StreamUsedRatio "stream_used_ratio",
        /// Used share of the fullest table of names: nodes, operations and numbers of one node and
        /// of the fleet, groups of a roll-up, series of the history.
        TableUsedRatio "table_used_ratio",
        /// Nodes without a message for ten seconds beyond the time that they may take to reconnect,
        /// and without a final one; not those whose alert is silenced or acknowledged. The label
        /// `nodes` names the first of them, in order. Absent while the aggregator may be cut off.
        SilentNodes "silent_nodes",
        /// Operations of budgets without samples for five minutes and for three times the longest
        /// pause within the hour before, although nodes that sent such samples still send.
        OperationsAbsent "operations_absent",
    }
}

/// A name that is not a metric's; the text lists the metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown metric {name:?}{}", hint(.name))]
pub struct UnknownMetric {
    name: String,
}

fn hint(name: &str) -> String {
    if let Some(written) = name.strip_prefix("sensor:") {
        let known = CATALOGUE.iter().map(|sensor| sensor.name.to_owned());
        let meant =
            suggest(written, known).map(|name| format!(", did you mean \"sensor:{name}\"?"));
        return meant.unwrap_or_default()
            + "; a sensor is named as its metric, without plimsoll_node_";
    }

    let names = |all: Vec<&str>| all.join(", ");
    let node: Vec<&str> = NodeMetric::ALL.iter().map(|figure| figure.as_str()).collect();
    let fleet: Vec<&str> = AggregatorMetric::ALL.iter().map(|figure| figure.as_str()).collect();
    let meant = suggest(name, node.iter().chain(&fleet).map(|&name| name.to_owned()));
    let meant = meant.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default();

    format!(
        "{meant}; metrics of nodes: {}; of the aggregator: {}; others: sensor:<name>, \
         counter:<name>, rate:<name>, share:<name>:<other>, gauge:<name>, regression:<operation>",
        names(node),
        names(fleet)
    )
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(text: &str) -> Result<Self, UnknownMetric> {
        let unknown = || UnknownMetric { name: text.to_owned() };
        // The whole text is the operation of its alerts.
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
        if let Some(name) = text.strip_prefix("rate:") {
            return job(name).map(Self::Rate);
        }
        if let Some(names) = text.strip_prefix("share:") {
            let names = names.split(':').map(job).collect::<Result<Vec<_>, _>>()?;
            let (of, beside) = names.split_first().ok_or_else(unknown)?;
            let share = Share { of: of.clone(), beside: beside.to_vec() };
            return if beside.is_empty() { Err(unknown()) } else { Ok(Self::Share(share)) };
        }
        if let Some(name) = text.strip_prefix("gauge:") {
            return job(name).map(Self::Gauge);
        }
        if let Some(name) = text.strip_prefix("regression:") {
            return job(name).map(Self::Regression);
        }
        let node = NodeMetric::ALL.iter().find(|figure| figure.as_str() == text);
        let fleet = AggregatorMetric::ALL.iter().find(|figure| figure.as_str() == text);
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
            Self::Rate(name) => write!(f, "rate:{name}"),
            Self::Share(Share { of, beside }) => {
                write!(f, "share:{of}")?;
                beside.iter().try_for_each(|name| write!(f, ":{name}"))
            }
            Self::Gauge(name) => write!(f, "gauge:{name}"),
            Self::Regression(name) => write!(f, "regression:{name}"),
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
    /// Whether it is of the machine under a node: the mesh does not cause it.
    #[must_use]
    pub fn is_of_machine(&self) -> bool {
        match self {
            Self::Node(figure) => *figure >= NodeMetric::MemoryUsedRatio,
            Self::Sensor(_) => true,
            Self::Fleet(_)
            | Self::Counter(_)
            | Self::Rate(_)
            | Self::Share(_)
            | Self::Gauge(_)
            | Self::Regression(_) => false,
        }
    }

    /// The counters that it is made of.
    #[must_use]
    pub fn counters(&self) -> Vec<&Operation> {
        match self {
            Self::Counter(name) | Self::Rate(name) => vec![name],
            Self::Share(Share { of, beside }) => [of].into_iter().chain(beside).collect(),
            _ => Vec::new(),
        }
    }

    /// The operation in the key of an alert about this metric.
    #[must_use]
    pub fn operation(&self) -> Operation {
        Operation::new(self.to_string()).expect("every metric's name is one an operation may have")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_read_back_from_its_name_and_an_unknown_one_is_rejected_with_the_list() {
        let figures = NodeMetric::ALL.iter().map(|figure| figure.as_str());
        let fleet = AggregatorMetric::ALL.iter().map(|figure| figure.as_str());
        let others = [
            "sensor:load1",
            "counter:isolation.violations",
            "rate:train_step.tokens",
            "share:cache.hits:cache.misses",
            "gauge:depth",
            "regression:kernel_fetch",
        ];
        for name in figures.chain(fleet).chain(others) {
            let metric: Metric = name.parse().unwrap();
            assert_eq!((metric.to_string(), metric.operation().as_str()), (name.to_owned(), name));
        }
        let error = "sensor:laod1".parse::<Metric>().unwrap_err().to_string();
        assert!(error.contains("did you mean \"sensor:load1\"?"), "{error}");
        let error = "sensor:mood".parse::<Metric>().unwrap_err().to_string();
        assert!(error.contains("as its metric, without plimsoll_node_"), "{error}");
        for wrong in ["depth", "counter:", "share:hits", "share::misses", ""] {
            let error = wrong.parse::<Metric>().unwrap_err().to_string();
            assert!(error.contains("outbox_depth") && error.contains("counter:<name>"), "{error}");
        }
    }
}
