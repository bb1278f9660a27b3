//! What the aggregator has read from the streams, what it sent back, and how far behind it is.

use crate::core::ingest::Recoveries;
use crate::core::view::{View, answers};
use crate::exposition::writer::{Family, Value, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    write_merged(writer, view);
    write_notifications(writer, view);
    write_broker(writer, view);
    let tables = view.tables.iter();
    let help = "Used share of a table of names; of tables that each node has, of the fullest";
    let family = Family::gauge("plimsoll_aggregator_table_used_ratio", help);
    writer.by_label(family, "table", tables);

    let sent = view.own.confirmations;
    let outcomes = [("sent", sent.sent), ("unsent", sent.unsent)];
    let help = "Confirmations for nodes, by outcome: handed to the connection, or dropped before";
    let family = Family::counter("plimsoll_aggregator_confirmations_total", help);
    writer.by_label(family, "outcome", outcomes);
    let help = "1 while nodes get confirmations, 0 without a state file and confirm.without_state";
    writer.gauge("plimsoll_aggregator_confirming", help, view.own.checkpoints.confirms);

    write_backlogs(writer, view);
}

fn write_merged(writer: &mut Writer, view: &View) {
    let counts = &view.own.merged;
    let help = "Snapshots read more than once";
    writer.counter("plimsoll_aggregator_duplicate_snapshots_total", help, counts.duplicates);
    let help = "Snapshots of evicted incarnations, which are not merged";
    let name = "plimsoll_aggregator_evicted_incarnation_snapshots_total";
    writer.counter(name, help, counts.of_evicted_incarnations);
    let help = "Samples merged after the window of 10 s had passed them";
    writer.counter("plimsoll_aggregator_late_samples_total", help, counts.late_samples);
    let help = "Snapshots from a clock ahead of the aggregator's";
    writer.counter("plimsoll_aggregator_clock_ahead_snapshots_total", help, counts.clock_ahead);

    let help = "Snapshots merged, by kind";
    let family = Family::counter("plimsoll_aggregator_merged_snapshots_total", help);
    writer.by_label(family, "kind", counts.merged.iter().map(|(kind, n)| (&**kind, *n)));
    let help = "Messages that could not be decoded, by reason";
    let family = Family::counter("plimsoll_aggregator_undecodable_messages_total", help);
    writer.by_label(family, "reason", view.own.undecodable.iter().map(|(why, n)| (&**why, *n)));
    let help = "Items rejected by a limit, by limit; samples are merged into the operation other";
    let family = Family::counter("plimsoll_aggregator_limited_total", help);
    writer.by_label(family, "what", counts.limited.iter().map(|(what, n)| (&**what, *n)));
}

fn write_notifications(writer: &mut Writer, view: &View) {
    let changes = view.own.notifications;
    let help = "Notifications of alert changes raised for the bus";
    writer.counter("plimsoll_alert_notifications_raised_total", help, changes.raised);
    let help = "Notifications of alert changes stored by the broker";
    writer.counter("plimsoll_alert_notifications_published_total", help, changes.delivered);
    let help = "Notifications of alert changes that the bus did not get";
    writer.counter("plimsoll_alert_notifications_undeliverable_total", help, changes.undeliverable);

    let events = view.own.notification_events;
    let help = "latency_high events raised for the bus";
    writer.counter("plimsoll_latency_high_events_raised_total", help, events.raised);
    let help = "latency_high events stored by the broker";
    writer.counter("plimsoll_latency_high_events_published_total", help, events.delivered);
    let help = "latency_high events that the bus did not get";
    writer.counter("plimsoll_latency_high_events_undeliverable_total", help, events.undeliverable);
}

fn write_broker(writer: &mut Writer, view: &View) {
    let help = "Unread messages in the lane's stream";
    let pending = view.own.pending.iter().map(|(lane, n)| (lane.as_str(), *n));
    writer.by_label(Family::gauge("plimsoll_aggregator_pending_messages", help), "lane", pending);
    let help = "1 while the broker is connected and answers";
    let is_connected = answers(&view.summary.broker);
    writer.gauge("plimsoll_aggregator_broker_connected", help, is_connected);
    let help = "Faults of the connection to the broker, by cause";
    let faults = view.own.broker_faults.iter().map(|(cause, n)| (*cause, *n));
    let family = Family::counter("plimsoll_aggregator_broker_faults_total", help);
    writer.by_label(family, "cause", faults);

    if let Some(advisories) = view.own.broker_advisories {
        let help = "Published advisories about the version of the connected broker";
        writer.gauge("plimsoll_aggregator_broker_advisories", help, advisories as u64);
    }

    if let Some(round_trip) = view.own.broker.round_trip {
        let help = "Median of the round trips to the broker of the aggregator and all nodes";
        writer.gauge("plimsoll_aggregator_broker_round_trip_seconds", help, round_trip);
    }

    if let Some(used) = view.own.broker.stream_used {
        let help = "Used share of the fullest lane's stream that refuses messages when it is full";
        writer.gauge("plimsoll_aggregator_stream_used_ratio", help, used);
    }
}

/// A backlog begins with a thousand pending messages in a lane, and ends when none is pending.
fn write_backlogs(writer: &mut Writer, view: &View) {
    let mut lanes = |family: Family<'_>, of: fn(&Recoveries) -> Value| {
        let all = view.own.recoveries.iter().map(|(lane, figures)| (lane.as_str(), of(figures)));
        writer.by_label(family, "lane", all);
    };
    let help = "Backlogs of the lane that were read to the end";
    lanes(Family::counter("plimsoll_aggregator_backlogs_total", help), |of| of.count.into());
    let help = "Duration of all backlogs of the lane together";
    lanes(Family::counter("plimsoll_aggregator_backlog_seconds_total", help), |of| of.sum.into());
    let help = "Duration of the lane's longest backlog";
    lanes(Family::gauge("plimsoll_aggregator_backlog_max_seconds", help), |of| of.max.into());
    let help = "Duration of the lane's latest backlog";
    lanes(Family::gauge("plimsoll_aggregator_backlog_last_seconds", help), |of| of.last.into());
}
