//! The families of jobs' own counters and gauges.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{Labels, Series};

use super::families::Page;
use super::labels::mended;
use super::writer::{Family, LabelSet, Rows, Value, Writer};

impl Page<'_> {
    pub(super) fn job_numbers(&self, writer: &mut Writer) {
        // A DogStatsD counter may be given negative amounts, which a Prometheus counter cannot
        // show.
        let family = Family::gauge("plimsoll_job_increments", "Sum of a job's counter");
        writer.family(family, |rows| {
            for (labels, node) in self.nodes() {
                let counters = node.node.counters.iter().map(|(series, sum)| (series, *sum));
                let add = |sum: &mut f64, n| *sum += n;
                Numbers::of("counter", counters, add).write(rows, labels);
            }
        });
        let family = Family::gauge("plimsoll_job_value", "Latest value of a job's gauge");
        writer.family(family, |rows| {
            for (labels, node) in self.nodes().filter(|(_, node)| node.speaks) {
                let gauges = node.node.gauges.iter().map(|(series, latest)| (series, latest.value));
                let replace = |value: &mut f64, n| *value = n;
                Numbers::of("gauge", gauges, replace).write(rows, labels);
            }
        });
    }
}

/// Numbers with labels from outside. Two sets of labels that differ only in what Prometheus cannot
/// hold become one row here: the same series twice would cost the whole scrape.
#[derive(Default)]
pub(super) struct Numbers<'a>(BTreeMap<Vec<(String, &'a str)>, f64>);

impl<'a> Numbers<'a> {
    fn of(
        key: &str,
        all: impl Iterator<Item = (&'a Series, f64)>,
        join: fn(&mut f64, f64),
    ) -> Self {
        let mut numbers = Self::default();
        for (series, n) in all {
            let name = Some((key, series.operation.as_str()));
            join(numbers.at(name, &series.labels), n);
        }
        numbers
    }

    pub(super) fn at(&mut self, name: Option<(&str, &'a str)>, labels: &'a Labels) -> &mut f64 {
        let mut row: Vec<_> =
            name.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        row.extend(mended(labels));
        self.0.entry(row).or_default()
    }

    pub(super) fn write(&self, rows: &mut Rows<'_>, node: &LabelSet) {
        for (labels, value) in &self.0 {
            let labels = rows.labels(labels.iter().map(|(key, value)| (key.as_str(), *value)));
            rows.add(&[node, &labels], Value::Float(*value));
        }
    }
}
