//! Checkpoints of the state file. Nothing is written when no `state.path` is set.

use crate::core::view::View;
use crate::exposition::writer::{Family, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    let checkpoints = &view.own.checkpoints;
    if !checkpoints.kept {
        return;
    }
    if let Some(at) = checkpoints.at {
        let help = "Age of the state in the latest checkpoint";
        writer.gauge("plimsoll_aggregator_checkpoint_age_seconds", help, view.at.since(at));
    }
    let help = "Bytes of records that the latest checkpoint wrote";
    writer.gauge("plimsoll_aggregator_checkpoint_bytes", help, checkpoints.bytes);
    let help = "Checkpoints written";
    writer.counter("plimsoll_aggregator_checkpoints_total", help, checkpoints.written);
    if let Some(dropped) = view.own.history_dropped {
        let help = "Samples that the history had no room for before its next checkpoint";
        writer.counter("plimsoll_aggregator_history_dropped_samples_total", help, dropped);
    }
    let help = "Failed checkpoint writes and state files quarantined at the start, by reason";
    let failures = checkpoints.failures.iter().map(|(why, n)| (*why, *n));
    let family = Family::counter("plimsoll_aggregator_checkpoint_failures_total", help);
    writer.by_label(family, "reason", failures);
}
