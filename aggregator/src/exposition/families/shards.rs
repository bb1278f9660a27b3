//! Reports of a shard to the aggregator above it, and whether a process has a partition.
//!
//! DESIGN A172.

use crate::core::durable::shard::ShardCounts;
use crate::core::view::View;
use crate::exposition::writer::{Family, Value, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    let Some(counts) = view.own.shard else { return };
    write_standing_by(writer, false);
    let ShardCounts { made, unconfirmed, unconfirmed_bytes, reported_before } = counts;
    let mut one = |family, n| writer.single(family, Value::Count(n));
    let help = "Reports to the aggregator above";
    one(Family::counter("plimsoll_aggregator_shard_reports_total", help), made);
    let help = "Reports that the aggregator above has not confirmed";
    one(Family::gauge("plimsoll_aggregator_shard_unconfirmed_reports", help), unconfirmed);
    let help = "Bytes of reports that the aggregator above has not confirmed";
    one(Family::gauge("plimsoll_aggregator_shard_unconfirmed_bytes", help), unconfirmed_bytes);
    let help = "Messages reread that another aggregator had reported";
    one(Family::counter("plimsoll_aggregator_shard_reread_messages_total", help), reported_before);
}

pub(super) fn write_standing_by(writer: &mut Writer, stands_by: bool) {
    let help = "1 while this process waits for a partition, 0 once it has one";
    let family = Family::gauge("plimsoll_aggregator_standing_by", help);
    writer.single(family, Value::Count(stands_by.into()));
}
