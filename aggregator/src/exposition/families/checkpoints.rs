//! Checkpoints of the state file. Nothing is written when no `state.path` is set.

use crate::core::view::View;
use crate::exposition::writer::{Family, Value, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    let checkpoints = &view.own.checkpoints;
    if !checkpoints.kept {
        return;
    }
    if let Some(at) = checkpoints.at {
        let help = "Age of the state in the latest checkpoint";
        let age = Value::Nanos(view.at.since(at).as_nanos());
        writer.single(Family::gauge("plimsoll_aggregator_checkpoint_age_seconds", help), age);
    }
    let help = "Bytes of records that the latest checkpoint wrote";
    let bytes = Value::Count(checkpoints.bytes);
    writer.single(Family::gauge("plimsoll_aggregator_checkpoint_bytes", help), bytes);
    let family = Family::counter("plimsoll_aggregator_checkpoints_total", "Checkpoints written");
    writer.single(family, Value::Count(checkpoints.written));
    if let Some(dropped) = view.own.history_dropped {
        let help = "Samples that the history had no room for before its next checkpoint";
        let family = Family::counter("plimsoll_aggregator_history_dropped_samples_total", help);
        writer.single(family, Value::Count(dropped));
    }
    let help = "Failed checkpoint writes and state files quarantined at the start, by reason";
    let failures = checkpoints.failures.iter().map(|(why, n)| (*why, Value::Count(*n)));
    writer.by_label(
        Family::counter("plimsoll_aggregator_checkpoint_failures_total", help),
        "reason",
        failures,
    );
}
