//! The families about nodes: their accounts, their presence, their way to the broker.

use plimsoll_schemas::summary::{Ledger, NodeRow, Presence};
use plimsoll_schemas::wire::Bus;

use super::families::Page;
use super::labels::mended;
use super::writer::{Family, LabelSet, NONE, Value, Writer};

impl Page<'_> {
    /// The account of all nodes together, shown or not.
    pub(super) fn fleet_account(&self, writer: &mut Writer) {
        let ledger = &self.view.summary.ledger;
        let mut family = |family: Family<'_>, n: u64| {
            writer.family(family, |rows| rows.add(&[NONE], Value::Count(n)));
        };
        let help = "Samples that all nodes put into snapshots";
        family(Family::counter("plimsoll_fleet_samples_recorded_total", help), ledger.recorded);
        let help = "Samples of all nodes merged here";
        family(Family::counter("plimsoll_fleet_samples_merged_total", help), ledger.merged);
        let help = "Samples of all nodes in snapshots that are still to come";
        family(Family::gauge("plimsoll_fleet_samples_held", help), ledger.held);
        let help = "Samples of all nodes missing from incarnations that have ended";
        family(Family::gauge("plimsoll_fleet_samples_unaccounted", help), ledger.unaccounted);
        let help = "Samples of all nodes recorded before the oldest snapshots heard";
        family(Family::gauge("plimsoll_fleet_samples_unseen", help), ledger.unseen);
        let help = "Samples that nodes gave up, by reason";
        writer.family(Family::counter("plimsoll_fleet_samples_lost_total", help), |rows| {
            for (reason, n) in &ledger.lost {
                rows.add(&[&rows.labels([("reason", reason.as_str())])], Value::Count(*n));
            }
        });
        let help = "Nodes, shown or not, by the worst of what ails them";
        writer.family(Family::gauge("plimsoll_nodes_in_trouble", help), |rows| {
            for (trouble, n) in &self.view.troubles {
                rows.add(&[&rows.labels([("trouble", trouble.as_str())])], Value::Count(*n));
            }
        });
    }

    pub(super) fn accounts(&self, writer: &mut Writer) {
        self.troubles(writer);
        let mut family = |family: Family<'_>, of: fn(&Ledger) -> u64| {
            writer.family(family, |rows| {
                for (labels, row) in self.node_rows() {
                    rows.add(&[labels], Value::Count(of(&row.ledger)));
                }
            });
        };
        let help = "Samples that the node put into snapshots";
        family(Family::counter("plimsoll_samples_recorded_total", help), |of| of.recorded);
        let help = "Samples merged here";
        family(Family::counter("plimsoll_samples_merged_total", help), |of| of.merged);
        let help = "Samples in snapshots that are still to come";
        family(Family::gauge("plimsoll_samples_held", help), |of| of.held);
        let help = "Samples missing from an incarnation that has ended";
        family(Family::gauge("plimsoll_samples_unaccounted", help), |of| of.unaccounted);
        let help = "Samples recorded before the oldest snapshot heard";
        family(Family::gauge("plimsoll_samples_unseen", help), |of| of.unseen);
        let help = "Samples missing below the newest snapshot for too long to come by themselves";
        writer.family(Family::gauge("plimsoll_ledger_gap_samples", help), |rows| {
            for (labels, row) in self.node_rows() {
                rows.add(&[labels], Value::Count(row.gap_samples));
            }
        });
        let help = "Sequence numbers missing below the highest one heard";
        writer.family(Family::gauge("plimsoll_sequence_holes", help), |rows| {
            for (labels, node) in self.nodes() {
                rows.add(&[labels], Value::Count(node.node.account.holes()));
            }
        });
        let help = "Samples that the node gave up, by reason";
        writer.family(Family::counter("plimsoll_samples_lost_total", help), |rows| {
            for (labels, row) in self.node_rows() {
                for (reason, n) in &row.ledger.lost {
                    let reason = rows.labels([("reason", reason.as_str())]);
                    rows.add(&[labels, &reason], Value::Count(*n));
                }
            }
        });
    }

    /// What the rules look for on a node, also on one that was not shown before.
    fn troubles(&self, writer: &mut Writer) {
        let help = "1 under each trouble of the node; a counter that grew is one for five minutes";
        writer.family(Family::gauge("plimsoll_node_trouble", help), |rows| {
            for ((labels, row), node) in self.node_rows().zip(&self.view.nodes) {
                for trouble in node.node.troubles(self.view.at, row.gap_samples) {
                    let trouble = rows.labels([("trouble", trouble.as_str())]);
                    rows.add(&[labels, &trouble], Value::flag(true));
                }
            }
        });
    }

    pub(super) fn presence(&self, writer: &mut Writer) {
        let help = "1 while the node should speak and does not";
        writer.family(Family::gauge("plimsoll_node_silent", help), |rows| {
            for (labels, row) in self.node_rows() {
                rows.add(&[labels], Value::flag(row.presence == Presence::Silent));
            }
        });
        let help = "When the node was last heard";
        let name = "plimsoll_node_last_heard_timestamp_seconds";
        writer.family(Family::gauge(name, help), |rows| {
            for (labels, node) in self.nodes() {
                rows.add(&[labels], Value::nanos(node.node.last_heard.0));
            }
        });
        let help = "How far the node's clock is ahead of the broker's; negative when it is behind";
        writer.family(Family::gauge("plimsoll_node_clock_skew_seconds", help), |rows| {
            for (labels, node) in self.nodes().filter(|(_, node)| node.speaks) {
                if let Some(skew) = node.node.skew {
                    rows.add(&[labels], Value::Float(seconds(skew.ahead_ns)));
                }
            }
        });
        let help = "1, with the node's own labels, to join with what else is known of it";
        writer.family(Family::gauge("plimsoll_node_info", help), |rows| {
            for (labels, node) in self.nodes() {
                let own = mended(&node.node.labels.value);
                let own = rows.labels(own.iter().map(|(key, value)| (key.as_str(), *value)));
                rows.add(&[labels, &own], Value::flag(true));
            }
        });
        let help = "Snapshots of a run that went on although a later one had begun: two nodes of \
                    one name";
        writer.family(Family::counter("plimsoll_node_name_conflicts_total", help), |rows| {
            for (labels, node) in self.nodes() {
                rows.add(&[labels], Value::Count(node.node.account.conflicts()));
            }
        });
    }

    pub(super) fn delivery(&self, writer: &mut Writer) {
        self.outboxes(writer);
        let help = "The node's messages by what became of them";
        writer.family(Family::counter("plimsoll_publish_total", help), |rows| {
            let outcomes = OUTCOMES.map(|(outcome, of)| (rows.labels([("outcome", outcome)]), of));
            for (labels, node) in self.nodes() {
                for (outcome, of) in &outcomes {
                    rows.add(&[labels, outcome], Value::Count(of(&node.node.bus.value)));
                }
            }
        });
        let help = "Datagrams that the node's kernel dropped because a socket of the node was full";
        let name = "plimsoll_node_kernel_dropped_datagrams_total";
        writer.family(Family::counter(name, help), |rows| {
            for (labels, node) in self.nodes() {
                rows.add(&[labels], Value::Count(node.node.bus.value.kernel_dropped));
            }
        });
        let help = "Lines that the node refused, by reason";
        writer.family(Family::counter("plimsoll_node_rejected_lines_total", help), |rows| {
            for (labels, node) in self.nodes() {
                for (reason, n) in &node.node.bus.value.rejected {
                    let reason = rows.labels([("reason", reason.as_str())]);
                    rows.add(&[labels, &reason], Value::Count(*n));
                }
            }
        });
    }

    fn outboxes(&self, writer: &mut Writer) {
        let mut gauge = |name: &str, help: &str, of: fn(&Bus) -> Option<Value>| {
            writer.family(Family::gauge(name, help), |rows| {
                for (labels, node) in self.nodes().filter(|(_, node)| node.speaks) {
                    if let Some(value) = of(&node.node.bus.value) {
                        rows.add(&[labels], value);
                    }
                }
            });
        };
        gauge("plimsoll_node_outbox_messages", "Messages in the node's outbox", |bus| {
            Some(Value::Count(bus.outbox_messages))
        });
        let help = "The most there were in its last interval";
        gauge("plimsoll_node_outbox_messages_max", help, |bus| {
            Some(Value::Count(bus.outbox_messages_max))
        });
        gauge("plimsoll_node_outbox_bytes", "Bytes in the node's outbox", |bus| {
            Some(Value::Count(bus.outbox_bytes))
        });
        let help = "The node's breaker: 0 closed, 1 half-open, 2 open";
        gauge("plimsoll_node_breaker_state", help, |bus| {
            bus.breaker_state.map(|state| Value::Count(state.into()))
        });
        let help = "1 while the node sends by the emergency lane alone";
        gauge("plimsoll_node_conservative_mode", help, |bus| Some(Value::flag(bus.conservative)));
        let help = "The node's latest round trip to the broker";
        gauge("plimsoll_node_round_trip_seconds", help, |bus| bus.round_trip_ns.map(Value::nanos));
    }

    fn node_rows(&self) -> impl Iterator<Item = (&LabelSet, &NodeRow)> {
        self.sets.nodes.iter().zip(&self.view.summary.nodes)
    }
}

type Outcome = (&'static str, fn(&Bus) -> u64);

const OUTCOMES: [Outcome; 8] = [
    ("attempted", |bus| bus.attempted),
    ("published", |bus| bus.published),
    ("rerouted", |bus| bus.rerouted),
    ("dropped", |bus| bus.dropped),
    ("refused", |bus| bus.refused),
    ("retried", |bus| bus.retried),
    ("coalesced", |bus| bus.coalesced),
    ("rate_limited", |bus| bus.rate_limited),
];

#[expect(clippy::cast_precision_loss, reason = "a clock a hundred days off is told to the second")]
fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}
