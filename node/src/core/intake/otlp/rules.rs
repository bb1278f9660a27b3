//! The rules for OTLP that a configuration sets: names of metrics, attributes that become labels,
//! and spans that are recorded as latencies.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::LABEL_KEY_BYTES_MAX;

use super::names::to_label_key;
use crate::core::intake::glob::Glob;
use crate::core::intake::lines::Unit;

/// What becomes a label when nothing is configured: the name of the service.
pub const RESOURCE_LABELS: [&str; 1] = ["service.name=service"];

/// The OTLP rules of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpRules {
    /// Unit of distributions without a unit of their own or in their name.
    pub unit: Unit,
    /// Resource attributes that become labels.
    pub resource_labels: Vec<LabelOf>,
    /// Operations by metric name, for metrics that do not keep their name.
    pub operations: BTreeMap<String, Operation>,
    /// Which spans are latencies; the first match wins.
    pub spans: Vec<SpanRule>,
}

/// An attribute and the label that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelOf {
    pub attribute: String,
    pub label: String,
}

/// Spans that are recorded as latencies, and their series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRule {
    /// Pattern of the span's name.
    pub name: Glob,
    /// Attributes of the span or its resource, with the values that they must have as text.
    pub attributes: Vec<(String, String)>,
    /// The operation; by default the span's name.
    pub operation: Option<Operation>,
    /// Attributes of the span or its resource that become labels.
    pub labels: Vec<LabelOf>,
}

impl Default for OtlpRules {
    fn default() -> Self {
        let resource_labels =
            RESOURCE_LABELS.into_iter().filter_map(|text| LabelOf::read(text).ok());
        Self {
            unit: Unit(None),
            resource_labels: resource_labels.collect(),
            operations: BTreeMap::new(),
            spans: Vec::new(),
        }
    }
}

impl LabelOf {
    /// Parses `service.name=service`, or `http.route`, which becomes `http_route`.
    ///
    /// # Errors
    /// What is wrong, and the right form.
    pub fn read(text: &str) -> Result<Self, String> {
        let (attribute, label) = match text.split_once('=') {
            Some((attribute, label)) => (attribute, label.to_owned()),
            None => (text, to_label_key(text)),
        };
        let fits = label == to_label_key(&label) && label.len() <= LABEL_KEY_BYTES_MAX;
        if attribute.is_empty() || label.is_empty() || !fits {
            return Err(format!(
                "{text:?} must be an attribute, `=` and a label of letters, digits and `_`, as \
                 \"service.name=service\""
            ));
        }
        Ok(Self { attribute: attribute.to_owned(), label })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_becomes_the_label_that_is_named_or_one_made_of_its_key() {
        for (text, expected) in [
            ("service.name=service", Some(("service.name", "service"))),
            ("http.route", Some(("http.route", "http_route"))),
            ("a=b_1", Some(("a", "b_1"))),
            ("a=b.c", None),
            ("a=b=c", None),
            ("=b", None),
            ("a=", None),
            ("", None),
        ] {
            let read = LabelOf::read(text).ok();
            let read = read.as_ref().map(|l| (l.attribute.as_str(), l.label.as_str()));
            assert_eq!(read, expected, "{text:?}");
        }
        assert!(LabelOf::read(&"k".repeat(LABEL_KEY_BYTES_MAX + 1)).is_err());
        assert_eq!(OtlpRules::default().resource_labels.len(), RESOURCE_LABELS.len());
    }
}
