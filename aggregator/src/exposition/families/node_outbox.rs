//! What each node reports about its intake and its way to the broker: messages by outcome, the
//! outbox, the circuit breaker.
//!
//! DESIGN A41.

use plimsoll_schemas::time::nanos;
use plimsoll_schemas::wire::signature::SignatureError;
use plimsoll_schemas::wire::{BreakerState, Bus};

use crate::core::fleet::NodeAt;
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Value, Writer};

type Outcome = (&'static str, fn(&Bus) -> u64);

/// The first reason for which a confirmation may be refused.
const UNSIGNED: &str = SignatureError::Unsigned.reason();
const OUTCOMES: [Outcome; 9] = [
    ("attempted", |bus| bus.attempted),
    ("published", |bus| bus.published),
    ("rerouted", |bus| bus.rerouted),
    ("dropped", |bus| bus.dropped),
    ("refused", |bus| bus.refused),
    ("retried", |bus| bus.retried),
    ("coalesced", |bus| bus.coalesced),
    ("combined", |bus| bus.combined),
    ("rate_limited", |bus| bus.rate_limited),
];

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    write_gauges(writer, page);
    write_delays(writer, page);
    write_breakers(writer, page);
    let help = "Messages of the node, by outcome";
    writer.family(Family::counter("plimsoll_node_messages_total", help), |rows| {
        let outcomes = OUTCOMES.map(|(outcome, of)| (rows.labels([("outcome", outcome)]), of));
        for (labels, node) in page.nodes() {
            for (outcome, of) in &outcomes {
                rows.add(&[labels, outcome], Value::Count(of(&node.node.bus.value)));
            }
        }
    });
    let help = "Datagrams that the node's kernel dropped because a socket of the node was full";
    let name = "plimsoll_node_kernel_dropped_datagrams_total";
    writer.family(Family::counter(name, help), |rows| {
        for (labels, node) in page.nodes() {
            rows.add(&[labels], Value::Count(node.node.bus.value.kernel_dropped));
        }
    });
    let help = "Operations of the node's ms timers with values that look like seconds";
    writer.family(Family::gauge("plimsoll_node_suspect_unit_operations", help), |rows| {
        for (labels, node) in page.nodes() {
            rows.add(&[labels], Value::Count(node.node.bus.value.suspect_units));
        }
    });
    let help = "Restarts of tasks and threads of the node that ended or panicked";
    writer.family(Family::counter("plimsoll_node_task_restarts_total", help), |rows| {
        for (labels, node) in page.nodes() {
            rows.add(&[labels], Value::Count(node.node.bus.value.task_restarts));
        }
    });
    let help = "Messages of the node whose id another client had used in a stream";
    writer.family(Family::counter("plimsoll_node_taken_message_ids_total", help), |rows| {
        for (labels, node) in page.nodes() {
            rows.add(&[labels], Value::Count(node.node.bus.value.taken_ids));
        }
    });
    let help = "Confirmations that the node refused, by reason";
    writer.family(Family::counter("plimsoll_node_refused_confirmations_total", help), |rows| {
        for (labels, node) in page.nodes() {
            let refused = &node.node.bus.value.confirmations_refused;
            // One row is there before the first refusal, so that a rate begins with it.
            let first =
                (!refused.keys().any(|of| of.as_str() == UNSIGNED)).then_some((UNSIGNED, 0));
            let counted = refused.iter().map(|(reason, n)| (reason.as_str(), *n));
            for (reason, n) in first.into_iter().chain(counted) {
                let reason = rows.labels([("reason", reason)]);
                rows.add(&[labels, &reason], Value::Count(n));
            }
        }
    });
    let help = "Lines that the node rejected, by reason";
    writer.family(Family::counter("plimsoll_node_rejected_lines_total", help), |rows| {
        for (labels, node) in page.nodes() {
            for (reason, n) in &node.node.bus.value.rejected {
                let reason = rows.labels([("reason", reason.as_str())]);
                rows.add(&[labels, &reason], Value::Count(*n));
            }
        }
    });
}

fn write_gauges(writer: &mut Writer, page: &LabelledView<'_>) {
    let mut gauge = |name: &str, help: &str, of: fn(&Bus) -> Option<Value>| {
        writer.family(Family::gauge(name, help), |rows| {
            for (labels, node) in page.up_nodes() {
                if let Some(value) = of(&node.node.bus.value) {
                    rows.add(&[labels], value);
                }
            }
        });
    };
    let help = "Messages that wait in the node's outbox, as they were produced before merging";
    gauge("plimsoll_node_outbox_depth", help, |bus| Some(Value::Count(bus.outbox_depth)));
    let help = "Maximum of plimsoll_node_outbox_depth during the node's last interval";
    gauge("plimsoll_node_outbox_max_depth", help, |bus| Some(Value::Count(bus.outbox_depth_max)));
    gauge("plimsoll_node_outbox_messages", "Messages in the node's outbox, merged", |bus| {
        Some(Value::Count(bus.outbox_messages))
    });
    gauge("plimsoll_node_outbox_age_seconds", "Age of the node's oldest unsent message", |bus| {
        Some(Value::nanos(bus.outbox_age_ns))
    });
    let help = "Worst of depth, bytes and age of the node's outbox, 1 where it drops";
    gauge("plimsoll_node_outbox_pressure_ratio", help, |bus| {
        Some(Value::Float(bus.outbox_pressure as f64 / 1e6))
    });
    gauge("plimsoll_node_outbox_bytes", "Bytes in the node's outbox", |bus| {
        Some(Value::Count(bus.outbox_bytes))
    });
    let help = "1 while the node is in conservative mode and sends on the emergency lane only";
    gauge("plimsoll_node_conservative_mode", help, |bus| Some(Value::flag(bus.conservative)));
    let help = "1 while the newest messages of the node take the emergency lane";
    gauge("plimsoll_node_rerouting", help, |bus| Some(Value::flag(bus.rerouting)));
    let help = "1 while the node drops readings, and samples for which it has no room";
    gauge("plimsoll_node_dropping", help, |bus| Some(Value::flag(bus.dropping)));
    let help =
        "1 while a node with a spool can write it, so that its unsent messages survive a crash";
    gauge("plimsoll_node_spool_durable", help, |bus| bus.spool_durable.map(Value::flag));
    let help = "Latest round trip from the node to the broker";
    gauge("plimsoll_node_broker_round_trip_seconds", help, |bus| {
        bus.round_trip_ns.map(Value::nanos)
    });
}

/// By how much the way of each node to the broker is slower than that of half of the mesh.
fn write_delays(writer: &mut Writer, page: &LabelledView<'_>) {
    let help =
        "Time by which the node's round trip to the broker is longer than that of half of the mesh";
    writer.family(Family::gauge("plimsoll_node_link_delay_seconds", help), |rows| {
        for (labels, node) in page.up_nodes() {
            let way = NodeAt::new(&node.node, page.view.at).way();
            if let Some(delay) = way.and_then(|way| page.view.own.broker.link_delay(way)) {
                rows.add(&[labels], Value::nanos(nanos(delay)));
            }
        }
    });
}

/// A node that reports a state of a later version has 0 for all of these.
fn write_breakers(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "1 for the current state of the node's circuit breaker, 0 for the others";
    writer.family(Family::gauge("plimsoll_node_breaker_state", help), |rows| {
        let states =
            BreakerState::ALL.map(|state| (rows.labels([("state", state.as_str())]), state));
        for (labels, node) in page.up_nodes() {
            let Some(current) = node.node.bus.value.breaker_state else { continue };
            for (label, state) in &states {
                rows.add(&[labels, label], Value::flag(state.as_number() == current));
            }
        }
    });
}
