//! What the aggregator has read from the streams, what it sent back, and how far behind it is.

use crate::core::ingest::Recoveries;
use crate::core::view::{View, answers};
use crate::exposition::writer::{Family, Value, Writer};
use plimsoll_schemas::time::nanos;

pub(super) fn write(writer: &mut Writer, view: &View) {
    write_counters(writer, view);
    write_tables(writer, view);
    let pending = view.own.pending.iter().map(|(lane, n)| (lane.as_str(), Value::Count(*n)));
    let help = "Unread messages in the lane's stream";
    writer.by_label(Family::gauge("plimsoll_aggregator_pending_messages", help), "lane", pending);
    let help = "1 while the broker is connected and answers";
    writer.single(
        Family::gauge("plimsoll_aggregator_broker_connected", help),
        Value::flag(answers(&view.summary.broker)),
    );
    write_faults(writer, view);
    let broker = view.own.broker;
    if let Some(round_trip) = broker.round_trip {
        let help = "Median of the round trips to the broker of the aggregator and all nodes";
        let name = "plimsoll_aggregator_broker_round_trip_seconds";
        writer.single(Family::gauge(name, help), Value::nanos(nanos(round_trip)));
    }
    if let Some(used) = broker.stream_used {
        let help = "Used share of the fullest lane's stream that refuses messages when it is full";
        let name = "plimsoll_aggregator_stream_used_ratio";
        writer.single(Family::gauge(name, help), Value::Float(used));
    }
    let tables = view.tables.iter().map(|(table, share)| (table, Value::Float(share)));
    let help = "Used share of a table of names; of tables that each node has, of the fullest";
    let family = Family::gauge("plimsoll_aggregator_table_used_ratio", help);
    writer.by_label(family, "table", tables);
    let sent = view.own.confirmations;
    let all = [("sent", Value::Count(sent.sent)), ("unsent", Value::Count(sent.unsent))];
    let help = "Confirmations for nodes, by outcome: handed to the connection, or dropped before";
    writer.by_label(
        Family::counter("plimsoll_aggregator_confirmations_total", help),
        "outcome",
        all,
    );
    let help = "1 while nodes get confirmations, 0 without a state file and confirm.without_state";
    let confirms = Value::flag(view.own.checkpoints.confirms);
    writer.single(Family::gauge("plimsoll_aggregator_confirming", help), confirms);
    write_backlogs(writer, view);
}

fn write_faults(writer: &mut Writer, view: &View) {
    let help = "Faults of the connection to the broker, by cause";
    let faults = view.own.broker_faults.iter().map(|(cause, n)| (*cause, Value::Count(*n)));
    let family = Family::counter("plimsoll_aggregator_broker_faults_total", help);
    writer.by_label(family, "cause", faults);
    if let Some(advisories) = view.own.broker_advisories {
        let help = "Published advisories about the version of the connected broker";
        let family = Family::gauge("plimsoll_aggregator_broker_advisories", help);
        writer.single(family, Value::Count(advisories as u64));
    }
}

fn write_counters(writer: &mut Writer, view: &View) {
    let (counts, notifications, events) =
        (&view.own.merged, view.own.notifications, view.own.notification_events);
    let counters = [
        (
            "plimsoll_aggregator_duplicate_snapshots_total",
            "Snapshots read more than once",
            counts.duplicates,
        ),
        (
            "plimsoll_aggregator_evicted_incarnation_snapshots_total",
            "Snapshots of evicted incarnations, which are not merged",
            counts.of_evicted_incarnations,
        ),
        (
            "plimsoll_aggregator_late_samples_total",
            "Samples merged after the window of 10 s had passed them",
            counts.late_samples,
        ),
        (
            "plimsoll_aggregator_clock_ahead_snapshots_total",
            "Snapshots from a clock ahead of the aggregator's",
            counts.clock_ahead,
        ),
        (
            "plimsoll_alert_notifications_raised_total",
            "Notifications of alert changes raised for the bus",
            notifications.raised,
        ),
        (
            "plimsoll_alert_notifications_published_total",
            "Notifications of alert changes stored by the broker",
            notifications.delivered,
        ),
        (
            "plimsoll_alert_notifications_undeliverable_total",
            "Notifications of alert changes that the bus did not get",
            notifications.undeliverable,
        ),
        (
            "plimsoll_latency_high_events_raised_total",
            "latency_high events raised for the bus",
            events.raised,
        ),
        (
            "plimsoll_latency_high_events_published_total",
            "latency_high events stored by the broker",
            events.delivered,
        ),
        (
            "plimsoll_latency_high_events_undeliverable_total",
            "latency_high events that the bus did not get",
            events.undeliverable,
        ),
    ];
    for (name, help, n) in counters {
        writer.single(Family::counter(name, help), Value::Count(n));
    }
}

fn write_tables(writer: &mut Writer, view: &View) {
    let counts = &view.own.merged;
    let tables = [
        (
            "plimsoll_aggregator_merged_snapshots_total",
            "Snapshots merged, by kind",
            "kind",
            &counts.merged,
        ),
        (
            "plimsoll_aggregator_undecodable_messages_total",
            "Messages that could not be decoded, by reason",
            "reason",
            &view.own.undecodable,
        ),
        (
            "plimsoll_aggregator_limited_total",
            "Items rejected by a limit, by limit; samples are merged into the operation other",
            "what",
            &counts.limited,
        ),
    ];
    for (name, help, key, table) in tables {
        let all = table.iter().map(|(word, n)| (word.as_ref(), Value::Count(*n)));
        writer.by_label(Family::counter(name, help), key, all);
    }
}

/// A backlog begins with a thousand pending messages in a lane, and ends when none is pending.
fn write_backlogs(writer: &mut Writer, view: &View) {
    let mut lanes = |family: Family<'_>, of: fn(&Recoveries) -> Value| {
        let all = view.own.recoveries.iter().map(|(lane, figures)| (lane.as_str(), of(figures)));
        writer.by_label(family, "lane", all);
    };
    let help = "Backlogs of the lane that were read to the end";
    let count = Family::counter("plimsoll_aggregator_backlogs_total", help);
    lanes(count, |of| Value::Count(of.count));
    let help = "Duration of all backlogs of the lane together";
    let sum = Family::counter("plimsoll_aggregator_backlog_seconds_total", help);
    lanes(sum, |of| Value::Nanos(of.sum.as_nanos()));
    let help = "Duration of the lane's longest backlog";
    let max = Family::gauge("plimsoll_aggregator_backlog_max_seconds", help);
    lanes(max, |of| Value::Nanos(of.max.as_nanos()));
    let help = "Duration of the lane's latest backlog";
    let last = Family::gauge("plimsoll_aggregator_backlog_last_seconds", help);
    lanes(last, |of| Value::Nanos(of.last.as_nanos()));
}
