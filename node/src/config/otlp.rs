//! Settings of OpenTelemetry: addresses, and rules for metrics, attributes and spans.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::limits::{OTLP_OPERATIONS_MAX, OTLP_SPAN_ATTRIBUTES_MAX, OTLP_SPAN_RULES_MAX};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::LABELS_MAX;

use super::intake::unit;
use super::section::{few, section};
use crate::core::intake::glob::Glob;
use crate::core::intake::lines::Unit;
use crate::core::intake::otlp::{LabelOf, OtlpRules, RESOURCE_LABELS, SpanRule};
use plimsoll_runtime::optional::address_or_none;

section! {
    pub struct OtlpSettings {
        #[serde(deserialize_with = "address_or_none")]
        pub http: Option<SocketAddr> = None,
        #[serde(deserialize_with = "address_or_none")]
        pub grpc: Option<SocketAddr> = None,
        #[serde(deserialize_with = "unit")]
        pub unit: Unit = Unit(None),
        pub resource_labels: Vec<String> = RESOURCE_LABELS.map(str::to_owned).into(),
        pub operations: Vec<String> = Vec::new(),
        pub span: Vec<SpanSettings> = Vec::new(),
    }
}

section! {
    /// An `[[otlp.span]]` section: spans to record as latencies, and their series.
    pub struct SpanSettings {
        pub name: String = "*".to_owned(),
        pub attributes: Vec<String> = Vec::new(),
        pub operation: Option<Operation> = None,
        pub labels: Vec<String> = Vec::new(),
    }
}

pub(super) fn rules(otlp: &OtlpSettings) -> Result<OtlpRules, String> {
    few("otlp.operations", otlp.operations.len(), OTLP_OPERATIONS_MAX, "entries")?;
    few("otlp.span", otlp.span.len(), OTLP_SPAN_RULES_MAX, "entries")?;
    let mut operations = BTreeMap::new();

    for text in &otlp.operations {
        let (metric, operation) = operation(text)?;
        if operations.insert(metric, operation).is_some() {
            return Err(format!("otlp.operations: {text:?} renames a metric twice; remove one"));
        }
    }

    Ok(OtlpRules {
        unit: otlp.unit,
        resource_labels: labels("otlp.resource_labels", &otlp.resource_labels)?,
        operations,
        spans: otlp.span.iter().map(span).collect::<Result<_, _>>()?,
    })
}

fn operation(text: &str) -> Result<(String, Operation), String> {
    let (metric, name) = text.split_once('=').unwrap_or((text, ""));
    let operation = Operation::new(name)
        .map_err(|error| format!("otlp.operations: {text:?} must be metric=operation: {error}"))?;
    if metric.is_empty() {
        return Err(format!("otlp.operations: {text:?} must be metric=operation"));
    }
    Ok((metric.to_owned(), operation))
}

fn labels(key: &str, texts: &[String]) -> Result<Vec<LabelOf>, String> {
    few(key, texts.len(), LABELS_MAX, "entries")?;
    let mut named = BTreeSet::new();
    let mut labels = Vec::new();
    for text in texts {
        let label = LabelOf::read(text).map_err(|error| format!("{key}: {error}"))?;
        if !named.insert(label.label.clone()) {
            return Err(format!("{key}: {text:?} repeats the label of another entry; remove one"));
        }
        labels.push(label);
    }
    Ok(labels)
}

fn span(settings: &SpanSettings) -> Result<SpanRule, String> {
    let SpanSettings { name, attributes, operation, labels: texts } = settings;
    few("otlp.span.attributes", attributes.len(), OTLP_SPAN_ATTRIBUTES_MAX, "entries")?;

    let attribute = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("otlp.span.attributes: {text:?} must be attribute=value")),
    };

    if name.is_empty() {
        return Err("otlp.span.name must not be empty; \"*\" matches every span".to_owned());
    }

    Ok(SpanRule {
        name: Glob::new(name),
        attributes: attributes.iter().map(attribute).collect::<Result<_, _>>()?,
        operation: operation.clone(),
        labels: labels("otlp.span.labels", texts)?,
    })
}
