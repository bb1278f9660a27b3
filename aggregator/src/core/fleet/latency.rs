//! A message's samples on their way into windows: those of its node, of the fleet, of roll-ups and
//! of what is kept apart for budgets. Whether they are to be merged was decided before.

use std::sync::Arc;

use crate::limits::NODE_BYTES_MAX;
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::wire::{Header, Latency};

use crate::core::Core;
use crate::core::fleet::retention::Selection;
use crate::core::fleet::window::{Batch, Times};

impl Core {
    pub(crate) fn on_latency(&mut self, times: Times, header: &Header, latency: &Latency<Packed>) {
        let Some(node) = self.nodes.get_mut(&header.node).map(Arc::make_mut) else { return };
        let fleet = Arc::make_mut(&mut self.fleet);
        let numbers = node.take_numbers((header.incarnation, header.seq), latency);
        node.watch_jobs(&self.rules, &latency.counters);
        node.take_labels((header.incarnation, header.seq), &header.labels);
        let has_room = node.operations.heap_bytes() < NODE_BYTES_MAX;
        let (mut in_node, mut in_fleet, mut in_rollups, mut without_room) = (0, 0, 0, 0);
        for (series, samples) in &latency.histograms {
            let operation = &series.operation;
            self.matches.on_samples(self.passed.mono, series, &header.labels);
            let keeping = self.keepings.of_node(operation);
            let batch = Batch::new(samples, &keeping.limits);
            if has_room {
                in_node += node.operations.add(operation, &keeping, times, &batch);
            } else {
                node.operations.add_figures(operation, times, &batch);
                without_room += samples.exact().count;
            }
            let keeping = keeping.of_fleet();
            in_fleet += fleet.add(operation, &keeping, times, &batch);
            let how = (&keeping, times);
            in_rollups += self.rollups.add(series, &header.labels, how, &batch);
            for Selection { budget, selector, keeping } in self.keepings.selections(operation) {
                if selector.selects(&series.labels, &header.labels) {
                    let batch = Batch::new(samples, &keeping.limits);
                    node.operations.select(budget, keeping, times, &batch, has_room);
                    fleet.select(budget, &keeping.of_fleet(), times, &batch, true);
                }
            }
        }
        self.count_over_cap("number", numbers);
        self.count_over_cap("node_sample", in_node);
        self.count_over_cap("node_window", without_room);
        self.count_over_cap("fleet_sample", in_fleet);
        self.count_over_cap("rollup", in_rollups);
    }
}
