//! Which metric families a page holds, and in which order. Each file writes one group of families
//! from the view; this one composes them. No file decides which nodes are on the page: the view
//! does.
//!
//! DESIGN A11.

mod alerts;
mod aliases;
mod budgets;
mod events;
mod external_numbers;
mod ingest;
mod jobs;
mod latencies;
mod ledger;
mod node_outbox;
mod own_state;
mod presence;
mod receivers;
mod rules;
mod sensors;
mod serving;
mod stragglers;

use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::summary::Presence;

use super::labelled_view::LabelledView;
use super::writer::{Family, Writer};
use crate::core::view::View;

pub(super) use own_state::write_standby;
pub use serving::{PageStats, ReadViewStats, RefusedStreams, ServingStats, StreamStats};

/// What a page holds beside a view's own rows.
#[derive(Clone, Copy, Debug)]
pub struct PageOptions<'a> {
    pub budgets: &'a [Budget],
    /// Whether old metric names are written too.
    pub aliases: bool,
}

/// Families of the fleet, then those of the nodes. Until the streams' backlog has been read only
/// the constant ones: `rate` counts a counter that climbs from zero as new samples.
pub(super) fn write_fleet(writer: &mut Writer, page: &LabelledView<'_>, options: PageOptions<'_>) {
    rules::write_budgets(writer, options.budgets);
    write_summary(writer, page.view);
    if page.view.summary.ready {
        rules::write_thresholds(writer, page);
        rules::write_error_budgets(writer, page);
        stragglers::write(writer, page);
        ledger::write_fleet(writer, page);
        alerts::write_counts(writer, page);
    }
    write_nodes(writer, page, options);
}

/// Families with series of the nodes, and of the fleet when the view has it.
pub(super) fn write_nodes(writer: &mut Writer, page: &LabelledView<'_>, options: PageOptions<'_>) {
    if !page.view.summary.ready {
        return;
    }
    latencies::write(writer, page);
    budgets::write(writer, page);
    alerts::write(writer, page);
    ledger::write_nodes(writer, page);
    presence::write(writer, page);
    node_outbox::write(writer, page);
    events::write(writer, page);
    jobs::write(writer, page);
    sensors::write(writer, page);
    if options.aliases {
        aliases::write(writer, page);
    }
}

pub(super) fn write_aggregator(writer: &mut Writer, view: &View, serving: &ServingStats) {
    ingest::write(writer, view);
    own_state::write(writer, view);
    serving::write(writer, serving);
    receivers::write(writer, view);
    own_state::write_process(writer, view);
}

fn write_summary(writer: &mut Writer, view: &View) {
    let n = |presence| view.summary.presence.get(&presence).copied().unwrap_or_default();
    let presence = Presence::ALL.map(|presence| (presence.as_str(), n(presence)));
    writer.by_label(Family::gauge("plimsoll_nodes", "Nodes by presence"), "state", presence);
    let freshness = view.summary.freshness;
    let help = "1 while the broker or every node is silent, so that figures are out of date";
    writer.gauge("plimsoll_nodes_stale", help, freshness.stale);

    if let Some(at) = freshness.as_of_seconds {
        let help = "Time at which any node was last seen";
        writer.gauge("plimsoll_nodes_last_seen_timestamp_seconds", help, at);
    }

    let help = "Nodes with series of their own on this page";
    writer.gauge("plimsoll_nodes_exported", help, view.nodes.len() as u64);
    let help = "1 once everything that the streams held at the start has been read";
    writer.gauge("plimsoll_aggregator_ready", help, view.summary.ready);
}
