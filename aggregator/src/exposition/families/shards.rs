//! Reports of a shard to the aggregator above it, and whether a process has a partition.
//!
//! DESIGN A172.

use crate::core::view::View;
use crate::exposition::writer::Writer;

pub(super) fn write(writer: &mut Writer, view: &View) {
    let Some(counts) = view.own.shard else { return };
    write_standing_by(writer, false);
    let help = "Reports to the aggregator above";
    writer.counter("plimsoll_aggregator_shard_reports_total", help, counts.made);
    let help = "Reports that the aggregator above has not confirmed";
    writer.gauge("plimsoll_aggregator_shard_unconfirmed_reports", help, counts.unconfirmed);
    let help = "Bytes of reports that the aggregator above has not confirmed";
    writer.gauge("plimsoll_aggregator_shard_unconfirmed_bytes", help, counts.unconfirmed_bytes);
    let help = "Messages reread that another aggregator had reported";
    let name = "plimsoll_aggregator_shard_reread_messages_total";
    writer.counter(name, help, counts.reported_before);
}

pub(super) fn write_standing_by(writer: &mut Writer, stands_by: bool) {
    let help = "1 while this process waits for a partition, 0 once it has one";
    writer.gauge("plimsoll_aggregator_standing_by", help, stands_by);
}
