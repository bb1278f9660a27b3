//! What a configuration may say about OTLP: what metrics are called here, which attributes of
//! their producers become labels, which spans are latencies.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::LABEL_KEY_BYTES_MAX;

use super::glob::Glob;
use crate::core::intake::units::Unit;

/// What becomes a label when nothing is said: the name of the service.
pub const RESOURCE_LABELS: [&str; 1] = ["service.name=service"];

/// The rules of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpRules {
    /// Unit of distributions of which neither unit nor name says one.
    pub unit: Unit,
    /// Attributes of resources that become labels.
    pub resource_labels: Vec<LabelOf>,
    /// What metrics are called here, where it is not their own name.
    pub operations: BTreeMap<String, Operation>,
    /// Which spans are latencies; of several that fit, the first counts.
    pub spans: Vec<SpanRule>,
}

/// An attribute and the label that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelOf {
    /// The attribute's key.
    pub attribute: String,
    /// The label's key.
    pub label: String,
}

/// Which spans are latencies, and of which series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRule {
    /// Which names fit.
    pub name: Glob,
    /// Attributes of the span, or of its resource, that must have these values as text.
    pub attributes: Vec<(String, String)>,
    /// What they are called here; by default the span's own name.
    pub operation: Option<Operation>,
    /// Attributes of the span, or of its resource, that become labels.
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
    /// Reads `service.name=service`, or `http.route`, which becomes `http_route`.
    ///
    /// # Errors
    /// Says what is wrong and what would be right.
    pub fn read(text: &str) -> Result<Self, String> {
        let (attribute, label) = match text.split_once('=') {
            Some((attribute, label)) => (attribute, label.to_owned()),
            None => (text, fit_key(text)),
        };
        let fits = label == fit_key(&label) && label.len() <= LABEL_KEY_BYTES_MAX;
        if attribute.is_empty() || label.is_empty() || !fits {
            return Err(format!(
                "{text:?} must be an attribute, `=` and a label of letters, digits and `_`, as \
                 \"service.name=service\""
            ));
        }
        Ok(Self { attribute: attribute.to_owned(), label })
    }
}

/// An attribute's key as a label's: what is no letter or digit becomes `_`.
pub(super) fn fit_key(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
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
