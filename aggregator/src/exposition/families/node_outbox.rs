//! What each node reports about its intake and its way to the broker: messages by outcome, the
//! outbox, the circuit breaker.
//!
//! DESIGN A41.

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
    write_outcomes(writer, page);
    write_counts(writer, page);
    write_reasons(writer, page);
}

fn write_gauges(writer: &mut Writer, page: &LabelledView<'_>) {
    let mut gauge = |name: &str, help: &str, of: fn(&Bus) -> Option<Value>| {
        writer.each(Family::gauge(name, help), page.up_nodes(), |node| of(&node.bus.value));
    };

    let help = "Messages that wait in the node's outbox, as they were produced before merging";
    gauge("plimsoll_node_outbox_depth", help, |bus| Some(bus.outbox_depth.into()));
    let help = "Maximum of plimsoll_node_outbox_depth during the node's last interval";
    gauge("plimsoll_node_outbox_max_depth", help, |bus| Some(bus.outbox_depth_max.into()));
    let help = "Messages in the node's outbox, merged";
    gauge("plimsoll_node_outbox_messages", help, |bus| Some(bus.outbox_messages.into()));
    let help = "Age of the node's oldest unsent message";
    gauge("plimsoll_node_outbox_age_seconds", help, |bus| Some(Value::nanos(bus.outbox_age_ns)));
    let help = "Worst of depth, bytes and age of the node's outbox, 1 where it drops";
    gauge("plimsoll_node_outbox_pressure_ratio", help, |bus| {
        Some(Value::Float(bus.outbox_pressure as f64 / 1e6))
    });
    let help = "Bytes in the node's outbox";
    gauge("plimsoll_node_outbox_bytes", help, |bus| Some(bus.outbox_bytes.into()));

    let help = "1 while the node is in conservative mode and sends on the emergency lane only";
    gauge("plimsoll_node_conservative_mode", help, |bus| Some(bus.conservative.into()));
    let help = "1 while the newest messages of the node take the emergency lane";
    gauge("plimsoll_node_rerouting", help, |bus| Some(bus.rerouting.into()));
    let help = "1 while the node drops readings, and samples for which it has no room";
    gauge("plimsoll_node_dropping", help, |bus| Some(bus.dropping.into()));
    let help =
        "1 while a node with a spool can write it, so that its unsent messages survive a crash";
    gauge("plimsoll_node_spool_durable", help, |bus| bus.spool_durable.map(Value::from));
    let help = "Latest round trip from the node to the broker";
    gauge("plimsoll_node_broker_round_trip_seconds", help, |bus| {
        bus.round_trip_ns.map(Value::nanos)
    });
}

/// By how much the way of each node to the broker is slower than that of half of the mesh.
fn write_delays(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Time by which the node's round trip to the broker exceeds the mesh's median";
    let family = Family::gauge("plimsoll_node_link_delay_seconds", help);
    writer.each(family, page.up_nodes(), |node| {
        page.view.own.broker.link_delay(NodeAt::new(node, page.view.at).way()?)
    });
}

/// A node that reports a state of a later version has 0 for all of these.
fn write_breakers(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "1 for the current state of the node's circuit breaker, 0 for the others";
    writer.family(Family::gauge("plimsoll_node_breaker_state", help), |rows| {
        let states =
            BreakerState::ALL.map(|state| (rows.labels([("state", state.as_str())]), state));
        for (labels, node) in page.up_nodes() {
            let Some(current) = node.bus.value.breaker_state else { continue };
            for (label, state) in &states {
                rows.add(&[labels, label], (state.as_number() == current).into());
            }
        }
    });
}

fn write_outcomes(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Messages of the node, by outcome";
    writer.family(Family::counter("plimsoll_node_messages_total", help), |rows| {
        let outcomes = OUTCOMES.map(|(outcome, of)| (rows.labels([("outcome", outcome)]), of));
        for (labels, node) in page.nodes() {
            for (outcome, of) in &outcomes {
                rows.add(&[labels, outcome], of(&node.bus.value).into());
            }
        }
    });
}

fn write_counts(writer: &mut Writer, page: &LabelledView<'_>) {
    let mut count = |family: Family<'_>, of: fn(&Bus) -> u64| {
        writer.each(family, page.nodes(), |node| Some(of(&node.bus.value)));
    };
    let help = "Datagrams that the node's kernel dropped because a socket of the node was full";
    let family = Family::counter("plimsoll_node_kernel_dropped_datagrams_total", help);
    count(family, |bus| bus.kernel_dropped);
    let help = "Operations of the node's ms timers with values that look like seconds";
    let family = Family::gauge("plimsoll_node_suspect_unit_operations", help);
    count(family, |bus| bus.suspect_units);
    let help = "Restarts of tasks and threads of the node that ended or panicked";
    let family = Family::counter("plimsoll_node_task_restarts_total", help);
    count(family, |bus| bus.task_restarts);
    let help = "Messages of the node whose id another client had used in a stream";
    let family = Family::counter("plimsoll_node_taken_message_ids_total", help);
    count(family, |bus| bus.taken_ids);
}

fn write_reasons(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Confirmations that the node refused, by reason";
    let family = Family::counter("plimsoll_node_refused_confirmations_total", help);
    writer.each_by(family, page.nodes(), "reason", |node| {
        let refused = &node.bus.value.confirmations_refused;
        // One row is there before the first refusal, so that a rate begins with it.
        let first = (!refused.keys().any(|of| of.as_str() == UNSIGNED)).then_some((UNSIGNED, 0));
        first.into_iter().chain(refused.iter().map(|(reason, n)| (reason.as_str(), *n)))
    });
    let help = "Lines that the node rejected, by reason";
    let family = Family::counter("plimsoll_node_rejected_lines_total", help);
    writer.each_by(family, page.nodes(), "reason", |node| {
        node.bus.value.rejected.iter().map(|(reason, n)| (reason.as_str(), *n))
    });
}
