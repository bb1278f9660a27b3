//! The page `/api/v1/backpressure`: what waits in the outboxes of nodes and in the streams, and the
//! ledger as a balance.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{BackpressurePage, Ledger, NodeOutbox, OutboxRow, Presence};
use plimsoll_schemas::time::seconds;
use plimsoll_schemas::wire::{BreakerState, Bus};

use super::read_view::ReadView;
use crate::core::fleet::Node;
use crate::limits::exposition::OUTBOXES_MAX;

impl ReadView {
    /// All nodes added up, and the worst of them. Takes a while for many nodes.
    pub fn backpressure_page(&self) -> BackpressurePage {
        let mut ledger: Ledger = self.own.merged.gone.clone();
        let mut outboxes = OutboxRow::default();
        let mut breakers: BTreeMap<String, u64> =
            BreakerState::ALL.map(|state| (state.as_str().to_owned(), 0)).into();
        let mut conservative = 0;

        for (_, node) in &self.nodes {
            ledger.add(&node.account.ledger());
            // The ledger counts all nodes; what waits in an
            // outbox is known only of those that report.
            if node.hidden || node.presence(self.at) != Presence::Up {
                continue;
            }
            add(&mut outboxes, &outbox(&node.bus.value));
            conservative += u64::from(node.bus.value.conservative);
            if let Some(state) = breaker(&node.bus.value) {
                *breakers.entry(state.as_str().to_owned()).or_default() += 1;
            }
        }

        let mut worst: Vec<_> = self.shown().collect();
        worst.sort_by_key(|(_, node)| {
            let bus = &node.bus.value;
            // Nodes that report first: of the others the figures are those of their last message.
            let reports = node.presence(self.at) == Presence::Up;
            Reverse((reports, bus.outbox_pressure, bus.dropped, bus.rerouted, bus.outbox_depth))
        });

        let worst = worst.into_iter().take(OUTBOXES_MAX);
        let pending = self.own.pending.iter();

        BackpressurePage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            broker: self.broker.clone(),
            pending: pending.map(|(lane, n)| (lane.as_str().to_owned(), *n)).collect(),
            ledger,
            outboxes,
            breakers,
            conservative,
            nodes: worst.map(|(name, node)| node_outbox(self, name, node)).collect(),
        }
    }
}

pub(super) fn node_outbox(view: &ReadView, name: &NodeName, node: &Node) -> NodeOutbox {
    let bus = &node.bus.value;
    NodeOutbox {
        node: name.to_string(),
        presence: node.presence(view.at),
        breaker: breaker(bus).map(|state| state.as_str().to_owned()),
        conservative: bus.conservative,
        outbox: outbox(bus),
    }
}

/// A state that is unknown is none.
fn breaker(bus: &Bus) -> Option<BreakerState> {
    BreakerState::ALL.into_iter().find(|state| Some(state.as_number()) == bus.breaker_state)
}

#[expect(clippy::cast_precision_loss, reason = "a share in millionths, shown to people")]
fn outbox(bus: &Bus) -> OutboxRow {
    OutboxRow {
        attempted: bus.attempted,
        published: bus.published,
        confirmed: bus.confirmed,
        unconfirmed: bus.unconfirmed,
        rerouted: bus.rerouted,
        rate_limited: bus.rate_limited,
        dropped: bus.dropped,
        refused: bus.refused,
        coalesced: bus.coalesced,
        combined: bus.combined,
        retried: bus.retried,
        messages: bus.outbox_messages,
        depth: bus.outbox_depth,
        depth_max: bus.outbox_depth_max,
        bytes: bus.outbox_bytes,
        age_seconds: seconds(bus.outbox_age_ns),
        pressure: bus.outbox_pressure as f64 / 1e6,
    }
}

fn add(sum: &mut OutboxRow, other: &OutboxRow) {
    let sums = [
        (&mut sum.attempted, other.attempted),
        (&mut sum.published, other.published),
        (&mut sum.confirmed, other.confirmed),
        (&mut sum.unconfirmed, other.unconfirmed),
        (&mut sum.rerouted, other.rerouted),
        (&mut sum.rate_limited, other.rate_limited),
        (&mut sum.dropped, other.dropped),
        (&mut sum.refused, other.refused),
        (&mut sum.coalesced, other.coalesced),
        (&mut sum.combined, other.combined),
        (&mut sum.retried, other.retried),
        (&mut sum.messages, other.messages),
        (&mut sum.depth, other.depth),
        (&mut sum.bytes, other.bytes),
    ];

    for (sum, n) in sums {
        *sum = sum.saturating_add(n);
    }
    sum.depth_max = sum.depth_max.max(other.depth_max);
    sum.age_seconds = sum.age_seconds.max(other.age_seconds);
    sum.pressure = sum.pressure.max(other.pressure);
}
