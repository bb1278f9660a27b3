//! Numbers of one node under external labels. Two label sets that become equal once their keys are
//! valid become one row: a series written twice would make Prometheus reject the whole scrape.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Labels;

use crate::exposition::external_labels::valid_labels;
use crate::exposition::writer::{LabelSet, Rows, Value};

#[derive(Default)]
pub(super) struct ExternalNumbers<'a>(BTreeMap<Vec<(String, &'a str)>, f64>);

impl<'a> ExternalNumbers<'a> {
    /// The number under these labels, with one of our own in front.
    pub(super) fn entry(&mut self, own: Option<(&str, &'a str)>, labels: &'a Labels) -> &mut f64 {
        let mut row: Vec<_> = own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        row.extend(valid_labels(labels));
        self.0.entry(row).or_default()
    }

    pub(super) fn write(&self, rows: &mut Rows<'_>, node: &LabelSet) {
        for (labels, value) in &self.0 {
            let labels = rows.labels(labels.iter().map(|(key, value)| (key.as_str(), *value)));
            rows.add(&[node, &labels], Value::Float(*value));
        }
    }
}
