//! The aggregator's own state: its process and tasks, checkpoints, requests of nodes' histories,
//! reports to an aggregator above, and the files that rules come from.
//!
//! DESIGN A88, A172.

use plimsoll_runtime::{build, process};
use prometheus::proto::MetricType;

use crate::core::captures::CaptureEnd;
use crate::core::view::{AskCounts, View};
use crate::exposition::writer::{Family, NONE, Value, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    write_checkpoints(writer, view);
    write_history_requests(writer, view);
    write_captures(writer, view);
    write_shard(writer, view);
    write_rule_files(writer, view);
}

pub(super) fn write_process(writer: &mut Writer, view: &View) {
    write_build(writer);
    let help = "Restarts of tasks and threads that ended or panicked, by task";
    let restarts = view.own.task_restarts.iter().map(|(task, n)| (*task, *n));
    let family = Family::counter("plimsoll_aggregator_task_restarts_total", help);
    writer.by_label(family, "task", restarts);
    write_resources(writer);
}

/// All of a process that waits for a partition.
pub(in crate::exposition) fn write_standby(writer: &mut Writer) {
    write_standing_by(writer, true);
    write_build(writer);
    write_resources(writer);
}

fn write_build(writer: &mut Writer) {
    let family = Family::gauge("plimsoll_aggregator_build_info", build::HELP);
    writer.family(family, |rows| {
        let [version, commit] = build::LABELS;
        let labels = rows.labels([(version, build::VERSION), (commit, build::COMMIT)]);
        rows.add(&[&labels], Value::Count(1));
    });
}

fn write_resources(writer: &mut Writer) {
    for found in process::families() {
        let is_counter = found.get_field_type() == MetricType::COUNTER;
        let family = if is_counter { Family::counter } else { Family::gauge };

        writer.family(family(found.name(), found.help()), |rows| {
            for metric in found.get_metric() {
                let value = if is_counter {
                    metric.get_counter().get_value()
                } else {
                    metric.get_gauge().get_value()
                };
                rows.add(&[NONE], Value::Float(value));
            }
        });
    }
}

/// Nothing without a state file.
fn write_checkpoints(writer: &mut Writer, view: &View) {
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

    if let Some(dropped) = view.own.history_dropped_values {
        let help = "Values of jobs' counters and gauges that the history had no room for";
        writer.counter("plimsoll_aggregator_history_dropped_values_total", help, dropped);
    }

    let help = "Failed checkpoint writes and state files quarantined at the start, by reason";
    let failures = checkpoints.failures.iter().map(|(why, n)| (*why, *n));
    let family = Family::counter("plimsoll_aggregator_checkpoint_failures_total", help);
    writer.by_label(family, "reason", failures);
}

fn write_history_requests(writer: &mut Writer, view: &View) {
    let AskCounts { answered, refused, invalid, missing, unexpected } = view.own.asks;
    let rows = [
        ("answered", answered),
        ("refused", refused),
        ("invalid", invalid),
        ("missing", missing),
        ("unexpected", unexpected),
    ];
    let help = "Requests of nodes' own histories, and responses to none of them, by result";
    let family = Family::counter("plimsoll_aggregator_history_requests_total", help);
    writer.by_label(family, "result", rows);
}

/// Captures have each one end or run.
fn write_captures(writer: &mut Writer, view: &View) {
    let captures = &view.own.captures;
    let help = "Captures that have been ordered and have not ended";
    writer.gauge("plimsoll_aggregator_captures_running", help, captures.running());
    let help = "Captures that have ended, by outcome and reason";
    writer.family(Family::counter("plimsoll_aggregator_captures_total", help), |rows| {
        for (CaptureEnd { state, reason }, n) in &captures.ended {
            let labels = rows.labels([("outcome", state.as_str()), ("reason", reason)]);
            rows.add(&[&labels], Value::Count(*n));
        }
    });

    let Some(quarantined) = view.own.profiles_quarantined else { return };
    let help = "Files of profiles that were quarantined";
    writer.counter("plimsoll_aggregator_profiles_quarantined_total", help, quarantined);
}

/// Reports of a shard to the aggregator above it.
fn write_shard(writer: &mut Writer, view: &View) {
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

fn write_standing_by(writer: &mut Writer, stands_by: bool) {
    let help = "1 while this process waits for a partition, 0 once it has one";
    writer.gauge("plimsoll_aggregator_standing_by", help, stands_by);
}

/// The files that rules come from, and budgets that match no sample.
fn write_rule_files(writer: &mut Writer, view: &View) {
    let files = &view.own.rule_files;
    let help = "Reloads of the rule files, by outcome";
    let outcomes =
        [("loaded", files.loaded), ("unchanged", files.unchanged), ("refused", files.refused)];
    writer.by_label(Family::counter("plimsoll_rules_reloads_total", help), "outcome", outcomes);
    let help = "Time of the last successful read of the rule files";
    let name = "plimsoll_rules_loaded_timestamp_seconds";
    writer.gauge(name, help, Value::nanos(files.loaded_at.0));
    let help = "1 while the rule files are invalid and the previous rules stay active";
    writer.gauge("plimsoll_rules_invalid", help, files.error.is_some());

    let help = "1 for a budget that no sample has matched in minutes of samples, otherwise 0";
    let unmatched = view.unmatched.iter().map(|(budget, is_so)| (budget.as_str(), *is_so));
    writer.by_label(Family::gauge("plimsoll_budget_unmatched", help), "budget", unmatched);
    let help = "1 for a budget that has had too few samples to judge for 15 minutes, some of them \
                over its limit, otherwise 0";
    let few = view.insufficient.iter().map(|(budget, is_so)| (budget.as_str(), *is_so));
    writer.by_label(Family::gauge("plimsoll_budget_insufficient", help), "budget", few);
    let help = "1 for an operation with a budget whose samples stopped although its jobs have not \
                ended, otherwise 0";
    let absent = view.absence.iter().map(|(operation, is_so)| (operation.as_str(), *is_so));
    writer.by_label(Family::gauge("plimsoll_operation_absent", help), "operation", absent);
}
