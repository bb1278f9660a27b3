//! The sample ledgers: of the fleet, which covers all nodes, and of each node on the page.

use plimsoll_schemas::summary::{Ledger, SampleTotals};

use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Value, Writer};

/// The ledger of all nodes together, whether they are on the page or not.
pub(super) fn write_fleet(writer: &mut Writer, page: &LabelledView<'_>) {
    let ledger = &page.view.summary.ledger;
    let help = "Samples that all nodes have recorded";
    writer.counter("plimsoll_samples_recorded_total", help, ledger.recorded);
    let help = "Samples of all nodes merged by this aggregator";
    writer.counter("plimsoll_samples_merged_total", help, ledger.merged);
    let help = "Samples of all nodes in snapshots that have not arrived yet";
    writer.gauge("plimsoll_samples_held", help, ledger.held);
    let help = "Samples of all nodes missing from incarnations that have ended";
    writer.gauge("plimsoll_samples_unaccounted", help, ledger.unaccounted);
    let help = "Samples of all nodes recorded before the oldest snapshot that was read";
    writer.gauge("plimsoll_samples_unread", help, ledger.unread);
    let help = "Samples of all nodes merged or lost beyond what they recorded";
    writer.gauge("plimsoll_samples_surplus", help, ledger.surplus);

    let help = "Samples that nodes lost, by reason";
    let lost = ledger.lost.iter().map(|(reason, n)| (reason.as_str(), *n));
    writer.by_label(Family::counter("plimsoll_samples_lost_total", help), "reason", lost);
    let help = "Incarnations of all nodes that ended without a final message of their own";
    writer.counter("plimsoll_crashed_runs_total", help, ledger.crashed_runs);
    let help = "Time between the last report of crashed incarnations whose spool is gone and the next ones";
    writer.counter("plimsoll_unknown_seconds_total", help, Value::nanos(ledger.unknown_ns));

    if let Some(SampleTotals { jobs, own }) = page.view.summary.samples {
        let help = "Samples of jobs merged, of all operations";
        writer.counter("plimsoll_samples_jobs_total", help, jobs);
        let help = "Samples merged of the operations that the system records of itself";
        writer.counter("plimsoll_samples_own_total", help, own);
    }

    let help = "Nodes by their worst trouble, including those not on the page";
    let troubles = page.view.troubles.iter().map(|(trouble, n)| (trouble.as_str(), *n));
    writer.by_label(Family::gauge("plimsoll_nodes_in_trouble", help), "trouble", troubles);
}

pub(super) fn write_nodes(writer: &mut Writer, page: &LabelledView<'_>) {
    write_troubles(writer, page);
    let mut family = |family: Family<'_>, of: fn(&Ledger) -> u64| {
        writer.each(family, page.node_rows(), |row| Some(of(&row.ledger)));
    };

    let help = "Samples that the node has recorded";
    family(Family::counter("plimsoll_node_recorded_samples_total", help), |of| of.recorded);
    let help = "Samples of the node merged by this aggregator";
    family(Family::counter("plimsoll_node_merged_samples_total", help), |of| of.merged);
    let help = "Samples of the node in snapshots that have not arrived yet";
    family(Family::gauge("plimsoll_node_held_samples", help), |of| of.held);
    let help = "Samples of the node missing from incarnations that have ended";
    family(Family::gauge("plimsoll_node_unaccounted_samples", help), |of| of.unaccounted);
    let help = "Samples of the node recorded before the oldest snapshot that was read";
    family(Family::gauge("plimsoll_node_unread_samples", help), |of| of.unread);
    let help = "Samples of the node merged or lost beyond what it recorded";
    family(Family::gauge("plimsoll_node_surplus_samples", help), |of| of.surplus);

    let help = "Samples of the node missing below its newest snapshot beyond the time for a resend";
    let gaps = Family::gauge("plimsoll_node_gap_samples", help);
    writer.each(gaps, page.node_rows(), |row| Some(row.gap_samples));
    let help = "What a limit rejected of the node's messages";
    let limited = Family::counter("plimsoll_node_limited_total", help);
    writer.each_by(limited, page.nodes(), "what", |node| {
        node.limited.iter().map(|(what, n)| (&**what, *n))
    });
    let help = "Sequence numbers of the node missing below the highest one that was read";
    let holes = Family::gauge("plimsoll_node_sequence_gaps", help);
    writer.each(holes, page.nodes(), |node| Some(node.account.holes()));

    let help = "Incarnations of the node that ended without a final message of their own";
    let crashed = Family::counter("plimsoll_node_crashed_runs_total", help);
    writer.each(crashed, page.node_rows(), |row| Some(row.ledger.crashed_runs));
    let help = "Time between the last report of crashed incarnations whose spool is gone and the next ones";
    let unknown = Family::counter("plimsoll_node_unknown_seconds_total", help);
    writer.each(unknown, page.node_rows(), |row| Some(Value::nanos(row.ledger.unknown_ns)));

    let help = "Samples that the node lost, by reason";
    let lost = Family::counter("plimsoll_node_lost_samples_total", help);
    writer.each_by(lost, page.node_rows(), "reason", |row| {
        row.ledger.lost.iter().map(|(reason, n)| (reason.as_str(), *n))
    });
}

/// The conditions that the shipped rules match, of each node.
fn write_troubles(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "1 for each trouble of the node; a counter that grew counts for five minutes";
    let nodes = page.node_rows().zip(&page.view.nodes);
    let nodes = nodes.map(|((labels, row), of)| (labels, (row, &of.node)));
    let family = Family::gauge("plimsoll_node_trouble", help);
    writer.each_by(family, nodes, "trouble", |(row, node)| {
        node.troubles(page.view.at, row.gap_samples).map(|trouble| (trouble.as_str(), 1))
    });
}
