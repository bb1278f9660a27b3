//! What the aggregator says about itself: what it read, told, stored, and still has to read.

use plimsoll_process::page::{Family, Page};
use plimsoll_schemas::time::seconds;

use crate::core::progress::Recoveries;
use crate::core::view::View;

const MERGED: Family =
    Family { name: "plimsoll_merged_snapshots_total", help: "Snapshots merged", labels: &["kind"] };
const UNDECODABLE: Family = Family {
    name: "plimsoll_undecodable_total",
    help: "Messages that could not be read, by reason",
    labels: &["reason"],
};
const OVER_CAP: Family = Family {
    name: "plimsoll_over_cap_total",
    help: "What found no room: samples went to the operation other, the rest is not shown",
    labels: &["what"],
};
const PENDING: Family = Family {
    name: "plimsoll_stream_pending_messages",
    help: "Messages of the lane still to be read",
    labels: &["lane"],
};

const CHECKPOINT_FAILURES: Family = Family {
    name: "plimsoll_checkpoint_failures_total",
    help: "Checkpoints not written, and stores set aside at the start, by reason",
    labels: &["reason"],
};

const CONFIRMATIONS: Family = Family {
    name: "plimsoll_confirmations_total",
    help: "Confirmations for nodes: handed to the connection, or let go before that",
    labels: &["outcome"],
};

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_confirmations(page: &Page, view: &View) {
    let figures = view.confirmations;
    let rows = [(["sent"], figures.sent), (["unsent"], figures.unsent)];
    page.counters(CONFIRMATIONS, rows.iter().map(|(labels, n)| (&labels[..], *n as f64)));
}

/// A backlog is a lane with a thousand messages pending, until it has none.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_recoveries(page: &Page, view: &View) {
    let labels = &["lane"][..];
    let rows = |of: fn(&Recoveries) -> f64| -> Vec<([&str; 1], f64)> {
        view.recoveries.iter().map(|(lane, figures)| ([lane.as_str()], of(figures))).collect()
    };
    let (count, sum) = (rows(|of| of.count as f64), rows(|of| of.sum.as_secs_f64()));
    let (max, last) = (rows(|of| of.max.as_secs_f64()), rows(|of| of.last.as_secs_f64()));
    let name = "plimsoll_queue_recoveries_total";
    let help = "Backlogs of the lane that were worked off";
    let counter = |name, help, rows: &[([&str; 1], f64)]| {
        let rows = rows.iter().map(|(labels, n)| (&labels[..], *n));
        page.counters(Family { name, help, labels }, rows);
    };
    counter(name, help, &count);
    let name = "plimsoll_queue_recovery_seconds_total";
    counter(name, "Time that this took, all backlogs together", &sum);
    let gauge = |name, help, rows: &[([&str; 1], f64)]| {
        let rows = rows.iter().map(|(labels, n)| (&labels[..], *n));
        page.gauges(Family { name, help, labels }, rows);
    };
    gauge("plimsoll_queue_recovery_max_seconds", "Time that the longest backlog took", &max);
    gauge("plimsoll_queue_recovery_last_seconds", "Time that the latest backlog took", &last);
}

/// Where the state outlives the process; nothing when it does not.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_checkpoints(page: &Page, view: &View) {
    let figures = &view.checkpoints;
    if !figures.kept {
        return;
    }
    if let Some(at) = figures.at {
        let age = view.summary.at_seconds - seconds(at.0);
        let help = "Time since the stored state was taken";
        page.gauge("plimsoll_checkpoint_age_seconds", help, age.max(0.0));
    }
    let help = "Bytes of records that the latest checkpoint wrote";
    page.gauge("plimsoll_checkpoint_bytes", help, figures.bytes as f64);
    page.counter("plimsoll_checkpoints_written_total", "Checkpoints", figures.written as f64);
    let rows: Vec<_> = figures.failures.iter().map(|(why, n)| ([*why], *n as f64)).collect();
    page.counters(CHECKPOINT_FAILURES, rows.iter().map(|(labels, n)| (&labels[..], *n)));
}

/// What the aggregator says about itself.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
pub fn own(view: &View) -> String {
    let page = Page::default();
    let (counts, notices) = (&view.counts, view.notices);
    let counters = [
        ("plimsoll_duplicate_snapshots_total", "Snapshots merged before", counts.duplicates),
        ("plimsoll_forgotten_snapshots_total", "Snapshots of old incarnations", counts.forgotten),
        ("plimsoll_late_samples_total", "Samples too old for 10 s", counts.late_samples),
        ("plimsoll_clock_ahead_total", "Snapshots from a clock ahead", counts.clock_ahead),
        ("plimsoll_notices_raised_total", "Notices made", notices.raised),
        ("plimsoll_notices_delivered_total", "Notices the broker has", notices.delivered),
        ("plimsoll_notices_undelivered_total", "Notices given up", notices.undelivered),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value as f64);
    }
    let families = [
        (MERGED, &counts.merged),
        (UNDECODABLE, &counts.undecodable),
        (OVER_CAP, &counts.over_cap),
    ];
    for (family, rows) in families {
        let rows: Vec<_> = rows.iter().map(|(value, n)| ([value.as_ref()], *n as f64)).collect();
        page.counters(family, rows.iter().map(|(labels, n)| (&labels[..], *n)));
    }
    let pending: Vec<_> =
        view.pending.iter().map(|(lane, n)| ([lane.as_str()], *n as f64)).collect();
    page.gauges(PENDING, pending.iter().map(|(labels, n)| (&labels[..], *n)));
    let broker = view.summary.broker.as_str();
    let connected = f64::from(u8::from(!matches!(broker, "disconnected" | "silent")));
    page.gauge("plimsoll_broker_connected", "1 while there is a broker", connected);
    add_recoveries(&page, view);
    add_confirmations(&page, view);
    add_checkpoints(&page, view);
    page.render()
}
