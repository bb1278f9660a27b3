//! Adds the samples of a snapshot that is new to the windows of its node, of the fleet, of roll-ups
//! and of what is kept apart for budgets.

use std::time::Duration;

use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::{Labels, LossReason, NodeName, Operation};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::run::RunReport;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{Event, Header, Latency};

use super::counts::MergeCounts;
use super::node::Node;
use super::operations::Operations;
use super::retention::{RetentionPlan, Selection};
use super::rollup::{Bringer, GroupShares, RollupLimits, Rollups};
use super::shares::Shares;
use super::window::{Batch, Retention, Times};
use crate::limits::NODE_BYTES_MAX;

#[derive(Debug)]
pub struct MergedSnapshot {
    pub node: NodeName,
    /// When its interval ended.
    pub taken: Wall,
    /// What it reports of runs, and when that happened.
    pub run_reports: Vec<(Wall, RunReport)>,
    /// The length of its interval in nanoseconds, if it is the one of the interval's messages that
    /// has the node's report.
    pub reported: Option<u64>,
    /// Whether it is a shard's report, which stands for many nodes.
    pub of_shard: bool,
    /// Its samples: of a shard's report those of each slot, else at most one.
    pub samples: Vec<MergedSamples>,
    /// Samples that its node reports as lost and had not reported before, by reason.
    pub lost: Vec<(LossReason, u64)>,
}

#[derive(Debug)]
pub struct MergedSamples {
    pub taken: Wall,
    pub node_labels: Labels,
    pub latency: Latency<Packed>,
}

/// What a message is merged into beside its node.
pub(super) struct Merging<'f> {
    pub(super) pools: FleetPools<'f>,
    pub(super) counts: &'f mut MergeCounts,
    pub(super) plan: &'f RetentionPlan,
}

/// What holds samples of all nodes, with the shares of nodes in it.
pub(super) struct FleetPools<'f> {
    pub(super) operations: &'f mut Operations,
    pub(super) shares: &'f mut Shares<Operation>,
    pub(super) rollups: &'f mut Rollups,
    pub(super) group_shares: &'f mut GroupShares,
}

/// What these events of one interval report of runs, and when that happened.
pub(super) fn run_reports_of(
    events: &[Event],
    header: &Header,
    taken: Wall,
) -> Vec<(Wall, RunReport)> {
    let length = Duration::from_nanos(header.length_ns);
    let ended = header.start.plus(length);
    let reports = events.iter().filter_map(|event| {
        // Its sender's clock may be anything; it was in this interval.
        let at = taken.minus(ended.since(event.at).min(length));
        Some((at, RunReport::of(event)?))
    });
    reports.collect()
}

impl Merging<'_> {
    /// Adds a message's samples to all windows that they belong to.
    pub(super) fn add(
        &mut self,
        times: Times,
        name: &NodeName,
        of: &MergedSamples,
        node: &mut Node,
    ) {
        let MergedSamples { node_labels, latency, .. } = of;
        // Asked once for a message: it walks over all slots,
        // and one message can exceed the bound by little.
        let has_room = node.operations.heap_bytes() < NODE_BYTES_MAX;
        let (mut in_node, mut in_fleet, mut without_room, mut evicted) = (0, 0, 0, 0);
        let mut in_rollups = RollupLimits::default();

        for (series, samples) in &latency.histograms {
            let operation = &series.operation;
            let retention = self.plan.of_node(operation);
            let batch = Batch::new(samples, &retention.limits);

            if has_room {
                in_node += node.operations.add(operation, &retention, times, &batch);
            } else {
                // Counts go on exactly; only the node's distributions lack these samples.
                node.operations.add_figures(operation, times, &batch);
                without_room += samples.exact().count;
            }

            // Room is made before the samples are added. Otherwise they would be in `other` for
            // good although another node's operation may give way.
            let retention = retention.of_fleet();
            evicted += self.pools.make_room(name, operation, &retention, self.plan);
            in_fleet += self.pools.operations.add(operation, &retention, times, &batch);
            let from = Bringer { node: name, labels: node_labels };
            let shares = &mut *self.pools.group_shares;
            in_rollups += self.pools.rollups.add(series, from, shares, &retention, times, &batch);

            for Selection { budget, selector, retention } in self.plan.selections(operation) {
                if selector.selects(&series.labels, node_labels) {
                    let batch = Batch::new(samples, &retention.limits);
                    node.operations.select(budget, retention, times, &batch, has_room);
                    // Always with room: there are no more of these in the fleet than budgets.
                    let of_fleet = retention.of_fleet();
                    self.pools.operations.select(budget, &of_fleet, times, &batch, true);
                }
            }
        }

        self.counts.reject_of(node, "node_sample", in_node);
        self.counts.reject_of(node, "node_window", without_room);
        self.counts.reject_of(node, "fleet_sample", in_fleet);
        self.counts.reject_of(node, "rollup", in_rollups.samples);
        // What is evicted was another node's.
        self.counts.reject("operation", evicted);
        self.counts.reject("rollup_group", in_rollups.evicted);
    }
}

impl FleetPools<'_> {
    /// Where the fleet has no room for an operation that a node brings, evicts one of the node that
    /// has most of the room. Returns how many were evicted.
    fn make_room(
        &mut self,
        node: &NodeName,
        operation: &Operation,
        retention: &Retention,
        plan: &RetentionPlan,
    ) -> u64 {
        let Self { operations, shares, .. } = self;
        // While there is room a node may have all of it: a mesh
        // of one node must not have less than its table (A175).
        if !operations.are_crowded() {
            return 0;
        }

        let mut evicted = 0;
        // Those of budgets may be there beyond the bound.
        while !operations.has_room_for(operation, retention) {
            let of_largest = shares.largest_beside(node);
            let longest = operations.longest_without_samples(of_largest, |of| plan.is_judged(of));
            let Some(longest) = longest else { return evicted };
            operations.evict(&longest);
            shares.on_evicted(&longest);
            evicted += 1;
        }

        // Those that are never evicted are in no node's share.
        if !retention.is_judged() && !is_own(operation) {
            shares.on_brought(node, operation);
        }

        evicted
    }
}
