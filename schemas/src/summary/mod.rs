//! The JSON pages on which an aggregator reports nodes, quantiles, verdicts and the ledger.
//!
//! Owns their shape: the operator's command, the drills and the tests read these types, scripts
//! read the JSON. Refuses to compute anything. Times are nanoseconds, since readers compare them
//! with raw samples exactly; those of the statistics and history pages are seconds, as in the
//! Python client.

mod backpressure;
mod blame;
mod bottlenecks;
mod distribution;
mod freshness;
mod history;
mod ledger;
mod machine;
mod metrics;
mod nodes;
mod page;
mod profiles;
mod rules;
mod runs;
mod statistics;

pub use backpressure::{BackpressurePage, NodeOutbox, OutboxRow};
pub use blame::{BlamePage, CohortRow, CohortState, RefusedRow, StragglerRow};
pub use bottlenecks::{
    BottleneckRow, BottleneckState, BottlenecksPage, ClassShare, CycleShares, OperationShare,
    WallTime,
};
pub use distribution::{BucketCount, BucketCounts};
pub use freshness::Freshness;
pub use history::{
    Band, HardwareHistoryPage, HeatmapPage, HistoryGroup, HistoryPage, HistoryPoint, HistoryTier,
    MESSAGEPACK, NodeHardwareHistory, NodeHistory, OperationsPage, OverLimit, QuantileValue,
    ReadingHistory, ReadingPoint,
};
pub use ledger::{IncarnationLedger, Ledger, LedgerPage, NodeLedger};
pub use machine::MachineDescription;
pub use metrics::{
    MetricHistoryPage, MetricHistoryPages, MetricKind, MetricNow, MetricPoint, MetricRow,
    MetricsPage,
};
pub use nodes::{
    HardwarePage, HeadroomPage, HeadroomRow, LeastHeadroom, NodeHardware, NodePage, NodeStatus,
    NodesPage, ReadingRow,
};
pub use page::{
    BudgetRow, BurnRow, EventRow, EventsPage, NodeRow, OperationRow, Presence, Pulse,
    QuantileBounds, Quantiles, RollupRow, SampleTotals, Summary, Verdict, WindowRow,
};
pub use profiles::{NodesSummed, ProfileRequest, ProfileRow, ProfileState, ProfilesPage};
pub use rules::RulesState;
pub use runs::{OverBudget, RunOperation, RunOrigin, RunPage, RunRow, RunState, RunsPage};
pub use statistics::{StatisticsPage, SummaryStats};
