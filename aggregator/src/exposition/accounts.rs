//! The families about nodes: their accounts, their presence, their way to the broker.

use plimsoll_schemas::summary::{Ledger, Presence};
use plimsoll_schemas::time::seconds;
use plimsoll_schemas::wire::Bus;

use super::FamilyType::{Counter, Gauge};
use super::{Exposition, float};
use crate::core::view::View;

pub(super) fn ledger(exposition: &mut Exposition, view: &View) {
    let mut family = |name, family_type, help, of: fn(&Ledger) -> u64| {
        let rows = view.summary.nodes.iter();
        let rows = rows.map(|row| (vec![("node", row.node.as_str())], float(of(&row.ledger))));
        exposition.family(name, family_type, help, rows);
    };
    let help = "Samples that the node put into snapshots";
    family("plimsoll_samples_recorded_total", Counter, help, |ledger| ledger.recorded);
    let help = "Samples merged here";
    family("plimsoll_samples_merged_total", Counter, help, |ledger| ledger.merged);
    let help = "Samples in snapshots that are still to come";
    family("plimsoll_samples_held", Gauge, help, |ledger| ledger.held);
    let help = "Samples missing from an incarnation that has ended";
    family("plimsoll_samples_unaccounted", Gauge, help, |ledger| ledger.unaccounted);
    let help = "Samples recorded before the oldest snapshot heard";
    family("plimsoll_samples_unseen", Gauge, help, |ledger| ledger.unseen);
    let gaps = view.summary.nodes.iter();
    let gaps = gaps.map(|row| (vec![("node", row.node.as_str())], float(row.gap_samples)));
    let help = "Samples missing below the newest snapshot for too long to come by themselves";
    exposition.family("plimsoll_ledger_gap_samples", Gauge, help, gaps);
    let holes =
        view.nodes.iter().map(|node| (vec![("node", node.node.as_str())], float(node.holes)));
    let help = "Sequence numbers missing below the highest one heard";
    exposition.family("plimsoll_sequence_holes", Gauge, help, holes);
    let lost = view.summary.nodes.iter().flat_map(|row| {
        row.ledger.lost.iter().map(|(reason, n)| {
            (vec![("node", row.node.as_str()), ("reason", reason.as_str())], float(*n))
        })
    });
    let help = "Samples that the node gave up, by reason";
    exposition.family("plimsoll_samples_lost_total", Counter, help, lost);
}

pub(super) fn nodes(exposition: &mut Exposition, view: &View) {
    let rows = || view.summary.nodes.iter().map(|row| (vec![("node", row.node.as_str())], row));
    let silent =
        rows().map(|(labels, row)| (labels, f64::from(u8::from(row.presence == Presence::Silent))));
    let help = "1 while the node should speak and does not";
    exposition.family("plimsoll_node_silent", Gauge, help, silent);
    let heard = rows().map(|(labels, row)| (labels, row.last_heard_seconds));
    let help = "When the node was last heard";
    exposition.family("plimsoll_node_last_heard_timestamp_seconds", Gauge, help, heard);
    let conflicts = view.nodes.iter();
    let conflicts =
        conflicts.map(|node| (vec![("node", node.node.as_str())], float(node.name_conflicts)));
    let help = "Snapshots of a run that went on although a later one had begun: two nodes of one \
                name";
    exposition.family("plimsoll_node_name_conflicts_total", Counter, help, conflicts);
}

pub(super) fn delivery(exposition: &mut Exposition, view: &View) {
    let rows = || view.nodes.iter().map(|node| (vec![("node", node.node.as_str())], &node.bus));
    let mut gauge = |name: &str, help: &str, of: fn(&Bus) -> u64| {
        exposition.family(name, Gauge, help, rows().map(|(labels, bus)| (labels, float(of(bus)))));
    };
    gauge("plimsoll_node_outbox_messages", "Messages in the node's outbox", |bus| {
        bus.outbox_messages
    });
    gauge("plimsoll_node_outbox_messages_max", "The most there were in its last interval", |bus| {
        bus.outbox_messages_max
    });
    gauge("plimsoll_node_outbox_bytes", "Bytes in the node's outbox", |bus| bus.outbox_bytes);
    let outcomes = rows().flat_map(|(labels, bus)| {
        [
            ("attempted", bus.attempted),
            ("published", bus.published),
            ("rerouted", bus.rerouted),
            ("dropped", bus.dropped),
            ("refused", bus.refused),
            ("retried", bus.retried),
            ("coalesced", bus.coalesced),
            ("rate_limited", bus.rate_limited),
        ]
        .map(|(outcome, n)| {
            let mut labels = labels.clone();
            labels.push(("outcome", outcome));
            (labels, float(n))
        })
    });
    let help = "The node's messages by what became of them";
    exposition.family("plimsoll_publish_total", Counter, help, outcomes);
    let breakers =
        rows().filter_map(|(labels, bus)| Some((labels, float(bus.breaker_state?.into()))));
    let help = "The node's breaker: 0 closed, 1 half-open, 2 open";
    exposition.family("plimsoll_node_breaker_state", Gauge, help, breakers);
    let trips = rows().filter_map(|(labels, bus)| Some((labels, seconds(bus.round_trip_ns?))));
    let help = "The node's latest round trip to the broker";
    exposition.family("plimsoll_node_round_trip_seconds", Gauge, help, trips);
    let dropped = rows().map(|(labels, bus)| (labels, float(bus.kernel_dropped)));
    let help = "Datagrams that the node's kernel dropped because a socket of the node was full";
    exposition.family("plimsoll_node_kernel_dropped_datagrams_total", Counter, help, dropped);
    let rejected = view.nodes.iter().flat_map(|node| {
        node.bus.rejected.iter().map(|(reason, n)| {
            (vec![("node", node.node.as_str()), ("reason", reason.as_str())], float(*n))
        })
    });
    let help = "Lines that the node refused, by reason";
    exposition.family("plimsoll_node_rejected_lines_total", Counter, help, rejected);
}
