//! CPU, memory and file handles of this process, under the names that every client library uses,
//! and the restarts of its tasks.

use plimsoll_runtime::{build, process};
use prometheus::proto::MetricType;

use crate::core::view::View;
use crate::exposition::writer::{Family, NONE, Value, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    write_build(writer);
    let help = "Restarts of tasks and threads that ended or panicked, by task";
    let restarts = view.own.task_restarts.iter().map(|(task, n)| (*task, *n));
    let family = Family::counter("plimsoll_aggregator_task_restarts_total", help);
    writer.by_label(family, "task", restarts);
    write_resources(writer);
}

pub(super) fn write_build(writer: &mut Writer) {
    let family = Family::gauge("plimsoll_aggregator_build_info", build::HELP);
    writer.family(family, |rows| {
        let [version, commit] = build::LABELS;
        let labels = rows.labels([(version, build::VERSION), (commit, build::COMMIT)]);
        rows.add(&[&labels], Value::Count(1));
    });
}

pub(super) fn write_resources(writer: &mut Writer) {
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
