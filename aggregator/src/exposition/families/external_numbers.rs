//! Numbers of one node under external labels. Two label sets that become equal once their keys are
//! valid become one row: a series written twice would make Prometheus reject the whole scrape.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Labels;

use crate::exposition::external_labels::{ValidLabels, valid_labels};
use crate::exposition::writer::{LabelSet, Rows, Value};

#[derive(Default)]
pub(super) struct ExternalNumbers<'a>(BTreeMap<ValidLabels<'a>, f64>);

impl<'a> ExternalNumbers<'a> {
    pub(super) fn entry(&mut self, labels: &'a Labels) -> &mut f64 {
        self.0.entry(valid_labels(labels)).or_default()
    }

    pub(super) fn write(&self, rows: &mut Rows<'_>, node: &LabelSet) {
        for (labels, value) in &self.0 {
            let labels = rows.labels(labels.iter().map(|(key, value)| (&**key, *value)));
            rows.add(&[node, &labels], Value::Float(*value));
        }
    }
}
