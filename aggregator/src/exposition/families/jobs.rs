//! Counters and gauges of the jobs on a node.

use super::external_numbers::ExternalNumbers;
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Writer};

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    // DogStatsD permits negative amounts; to `rate` a fall is a restart of the counter.
    let help = "Sum of the amounts that jobs added to a counter; a negative amount lowers it";
    let family = Family::counter("plimsoll_job_increments_total", help);
    writer.family(family, |rows| {
        for (labels, node) in page.nodes() {
            let mut sums = ExternalNumbers::default();
            for (series, n) in &node.node.counters {
                *sums.entry(Some(("counter", series.operation.as_str())), &series.labels) += n;
            }
            sums.write(rows, labels);
        }
    });
    let family = Family::gauge("plimsoll_job_value", "Latest value of a job's gauge");
    writer.family(family, |rows| {
        for (labels, node) in page.up_nodes() {
            let mut values = ExternalNumbers::default();
            for (series, latest) in &node.node.gauges {
                let name = series.operation.as_str();
                *values.entry(Some(("gauge", name)), &series.labels) = latest.value;
            }
            values.write(rows, labels);
        }
    });
}
