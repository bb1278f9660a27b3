//! What the aggregator says about itself: what it read, told, stored, showed, and has still to
//! read.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_runtime::http::Figures;

use super::rule_files;
use super::writer::{Family, NONE, Value, Writer};
use crate::core::ingest::Recoveries;
use crate::core::view::View;

/// What showing things has cost so far.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Looks at the state.
    pub looks: Looks,
    /// Connections of those who ask.
    pub connections: Figures,
    /// By page and format.
    pub pages: BTreeMap<(&'static str, &'static str), Rendered>,
    /// Answers by page, format and encoding.
    pub answers: BTreeMap<(&'static str, &'static str, &'static str), u64>,
}

/// What it costs the task that merges to give out what it knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// How many there were.
    pub taken: u64,
    /// Time that took.
    pub spent: Duration,
    /// Time that the longest took.
    pub longest: Duration,
}

/// What one page cost in one format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rendered {
    /// How often it was made.
    pub times: u64,
    /// Time that took, on threads of its own.
    pub spent: Duration,
    /// Bytes of the latest one.
    pub bytes: u64,
}

/// All families of the aggregator's own.
pub(super) fn write(writer: &mut Writer, view: &View, own: &Own) {
    reading(writer, view);
    recoveries(writer, view);
    checkpoints(writer, view);
    rule_files::write(writer, view);
    showing(writer, own);
    connections(writer, &own.connections);
}

fn single(writer: &mut Writer, family: Family<'_>, value: Value) {
    writer.family(family, |rows| rows.add(&[NONE], value));
}

/// One family with one label.
fn by<'a>(
    writer: &mut Writer,
    family: Family<'_>,
    key: &str,
    all: impl IntoIterator<Item = (&'a str, Value)>,
) {
    writer.family(family, |rows| {
        for (name, value) in all {
            rows.add(&[&rows.labels([(key, name)])], value);
        }
    });
}

fn reading(writer: &mut Writer, view: &View) {
    let (counts, notices, events) = (&view.counts, view.notices, view.notice_events);
    let counters = [
        ("plimsoll_duplicate_snapshots_total", "Snapshots merged before", counts.duplicates),
        ("plimsoll_forgotten_snapshots_total", "Snapshots of old incarnations", counts.forgotten),
        ("plimsoll_late_samples_total", "Samples too old for 10 s", counts.late_samples),
        ("plimsoll_clock_ahead_total", "Snapshots from a clock ahead", counts.clock_ahead),
        ("plimsoll_notices_raised_total", "Notices made", notices.raised),
        ("plimsoll_notices_delivered_total", "Notices the broker has", notices.delivered),
        ("plimsoll_notices_undelivered_total", "Notices given up", notices.undelivered),
        ("plimsoll_notice_events_raised_total", "Events latency_high made", events.raised),
        ("plimsoll_notice_events_delivered_total", "Such that the broker has", events.delivered),
        ("plimsoll_notice_events_undelivered_total", "Such given up", events.undelivered),
    ];
    for (name, help, n) in counters {
        single(writer, Family::counter(name, help), Value::Count(n));
    }
    let tables = [
        ("plimsoll_merged_snapshots_total", "Snapshots merged", "kind", &counts.merged),
        (
            "plimsoll_undecodable_total",
            "Messages that could not be read, by reason",
            "reason",
            &view.undecodable,
        ),
        (
            "plimsoll_over_cap_total",
            "What found no room: samples went to the operation other, the rest is not shown",
            "what",
            &counts.over_cap,
        ),
    ];
    for (name, help, key, table) in tables {
        let all = table.iter().map(|(word, n)| (word.as_ref(), Value::Count(*n)));
        by(writer, Family::counter(name, help), key, all);
    }
    let pending = view.pending.iter().map(|(lane, n)| (lane.as_str(), Value::Count(*n)));
    let help = "Messages of the lane still to be read";
    by(writer, Family::gauge("plimsoll_stream_pending_messages", help), "lane", pending);
    let connected = !matches!(view.summary.broker.as_str(), "disconnected" | "silent");
    let family = Family::gauge("plimsoll_broker_connected", "1 while there is a broker");
    single(writer, family, Value::flag(connected));
    let told = view.confirmations;
    let all = [("sent", Value::Count(told.sent)), ("unsent", Value::Count(told.unsent))];
    let help = "Confirmations for nodes: handed to the connection, or let go before that";
    by(writer, Family::counter("plimsoll_confirmations_total", help), "outcome", all);
}

/// A backlog is a lane with a thousand messages pending, until it has none.
fn recoveries(writer: &mut Writer, view: &View) {
    let mut lanes = |family: Family<'_>, of: fn(&Recoveries) -> Value| {
        let all = view.recoveries.iter().map(|(lane, figures)| (lane.as_str(), of(figures)));
        by(writer, family, "lane", all);
    };
    let help = "Backlogs of the lane that were worked off";
    let count = Family::counter("plimsoll_queue_recoveries_total", help);
    lanes(count, |of| Value::Count(of.count));
    let help = "Time that this took, all backlogs together";
    let sum = Family::counter("plimsoll_queue_recovery_seconds_total", help);
    lanes(sum, |of| Value::Nanos(of.sum.as_nanos()));
    let help = "Time that the longest backlog took";
    let max = Family::gauge("plimsoll_queue_recovery_max_seconds", help);
    lanes(max, |of| Value::Nanos(of.max.as_nanos()));
    let help = "Time that the latest backlog took";
    let last = Family::gauge("plimsoll_queue_recovery_last_seconds", help);
    lanes(last, |of| Value::Nanos(of.last.as_nanos()));
}

/// Where the state outlives the process; nothing when it does not.
fn checkpoints(writer: &mut Writer, view: &View) {
    let figures = &view.checkpoints;
    if !figures.kept {
        return;
    }
    if let Some(at) = figures.at {
        let help = "Time since the stored state was taken";
        let age = Value::Nanos(view.at.since(at).as_nanos());
        single(writer, Family::gauge("plimsoll_checkpoint_age_seconds", help), age);
    }
    let help = "Bytes of records that the latest checkpoint wrote";
    let bytes = Value::Count(figures.bytes);
    single(writer, Family::gauge("plimsoll_checkpoint_bytes", help), bytes);
    let family = Family::counter("plimsoll_checkpoints_written_total", "Checkpoints");
    single(writer, family, Value::Count(figures.written));
    let help = "Checkpoints not written, and stores set aside at the start, by reason";
    let all = figures.failures.iter().map(|(why, n)| (*why, Value::Count(*n)));
    by(writer, Family::counter("plimsoll_checkpoint_failures_total", help), "reason", all);
}

/// What showing all this costs: the driver for a look at its state, other threads for the rest.
fn showing(writer: &mut Writer, own: &Own) {
    let looks = own.looks;
    let help = "Looks at the whole state, by the task that merges";
    let taken = Value::Count(looks.taken);
    single(writer, Family::counter("plimsoll_aggregator_looks_total", help), taken);
    let help = "Time that these looks took from merging";
    let spent = Value::Nanos(looks.spent.as_nanos());
    single(writer, Family::counter("plimsoll_aggregator_look_seconds_total", help), spent);
    let help = "Time that the longest of these looks took";
    let longest = Value::Nanos(looks.longest.as_nanos());
    single(writer, Family::gauge("plimsoll_aggregator_look_max_seconds", help), longest);
    let mut pages = |family: Family<'_>, of: fn(&Rendered) -> Value| {
        writer.family(family, |rows| {
            for ((page, format), figures) in &own.pages {
                let labels = rows.labels([("page", *page), ("format", *format)]);
                rows.add(&[&labels], of(figures));
            }
        });
    };
    let help = "Pages made, off the task that merges";
    let times = Family::counter("plimsoll_aggregator_renders_total", help);
    pages(times, |of| Value::Count(of.times));
    let help = "Time that making pages took";
    let spent = Family::counter("plimsoll_aggregator_render_seconds_total", help);
    pages(spent, |of| Value::Nanos(of.spent.as_nanos()));
    let help = "Bytes of the latest page before compression";
    let bytes = Family::gauge("plimsoll_aggregator_page_bytes", help);
    pages(bytes, |of| Value::Count(of.bytes));
    let help = "Answers with a page; several share one that was made";
    writer.family(Family::counter("plimsoll_aggregator_scrapes_total", help), |rows| {
        for ((page, format, encoding), n) in &own.answers {
            let labels = [("page", *page), ("format", *format), ("encoding", *encoding)];
            rows.add(&[&rows.labels(labels)], Value::Count(*n));
        }
    });
}

fn connections(writer: &mut Writer, figures: &Figures) {
    let help = "Connections to these pages, by what they wait for";
    let open = figures.open.map(|(stage, n)| (stage.as_str(), Value::Count(n as u64)));
    by(writer, Family::gauge("plimsoll_aggregator_connections", help), "stage", open);
    let help = "Connections to these pages that are over, by reason";
    let closed = figures.closed().map(|(reason, n)| (reason.as_str(), Value::Count(n)));
    let family = Family::counter("plimsoll_aggregator_connections_closed_total", help);
    by(writer, family, "reason", closed);
    let help = "Bytes of pages that askers have not taken yet";
    let owed = Value::Count(figures.owed_bytes);
    single(writer, Family::gauge("plimsoll_aggregator_owed_bytes", help), owed);
}
