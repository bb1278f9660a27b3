//! What a node may be told about OpenTelemetry: where it listens, and what becomes of metrics,
//! attributes and spans.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::limits::{OTLP_OPERATIONS_MAX, OTLP_SPAN_ATTRIBUTES_MAX, OTLP_SPAN_RULES_MAX};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::LABELS_MAX;
use serde::Deserialize;

use super::address_or_none;
use super::intake::unit;
use crate::core::intake::glob::Glob;
use crate::core::intake::lines::Unit;
use crate::core::intake::otlp::{LabelOf, OtlpRules, RESOURCE_LABELS, SpanRule};

/// The `[otlp]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OtlpSettings {
    /// Address of OTLP over HTTP; `""`, the default, for none.
    #[serde(deserialize_with = "address_or_none")]
    pub http: Option<SocketAddr>,
    /// Address of OTLP over gRPC; `""`, the default, for none.
    #[serde(deserialize_with = "address_or_none")]
    pub grpc: Option<SocketAddr>,
    /// Unit of histograms of which neither the unit nor the last part of the name says one; with
    /// `none` these are refused.
    #[serde(deserialize_with = "unit")]
    pub unit: Unit,
    /// Attributes of resources that become labels, as `service.name=service`.
    pub resource_labels: Vec<String>,
    /// What metrics are called here, as `http.server.request.duration=http_request`.
    pub operations: Vec<String>,
    /// Which spans are latencies.
    pub span: Vec<SpanSettings>,
}

/// An `[[otlp.span]]` section: which spans are latencies, and of which series.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SpanSettings {
    /// Their names; `*` stands for any text.
    pub name: String,
    /// Attributes that they, or their resource, must have, as `http.request.method=GET`.
    pub attributes: Vec<String>,
    /// What they are called here; by default the span's own name.
    pub operation: Option<Operation>,
    /// Attributes that become labels, as `http.route` or `http.route=route`.
    pub labels: Vec<String>,
}

impl Default for OtlpSettings {
    fn default() -> Self {
        Self {
            http: None,
            grpc: None,
            unit: Unit(None),
            resource_labels: RESOURCE_LABELS.map(str::to_owned).into(),
            operations: Vec::new(),
            span: Vec::new(),
        }
    }
}

impl Default for SpanSettings {
    fn default() -> Self {
        let (attributes, labels) = (Vec::new(), Vec::new());
        Self { name: "*".to_owned(), attributes, operation: None, labels }
    }
}

/// The rules that the section makes.
///
/// # Errors
/// Names the key and what it may be.
pub(super) fn rules(otlp: &OtlpSettings) -> Result<OtlpRules, String> {
    few("otlp.operations", otlp.operations.len(), OTLP_OPERATIONS_MAX)?;
    few("otlp.span", otlp.span.len(), OTLP_SPAN_RULES_MAX)?;
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

fn few(key: &str, len: usize, max: usize) -> Result<(), String> {
    if len > max {
        return Err(format!("{key} must have at most {max} entries"));
    }
    Ok(())
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
    few(key, texts.len(), LABELS_MAX)?;
    let mut named = BTreeSet::new();
    let mut labels = Vec::new();
    for text in texts {
        let label = LabelOf::read(text).map_err(|error| format!("{key}: {error}"))?;
        if !named.insert(label.label.clone()) {
            return Err(format!("{key}: {text:?} makes a label that another makes; remove one"));
        }
        labels.push(label);
    }
    Ok(labels)
}

fn span(settings: &SpanSettings) -> Result<SpanRule, String> {
    let SpanSettings { name, attributes, operation, labels: texts } = settings;
    few("otlp.span.attributes", attributes.len(), OTLP_SPAN_ATTRIBUTES_MAX)?;
    let attribute = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("otlp.span.attributes: {text:?} must be attribute=value")),
    };
    if name.is_empty() {
        return Err("otlp.span.name must not be empty; \"*\" fits every span".to_owned());
    }
    Ok(SpanRule {
        name: Glob::new(name),
        attributes: attributes.iter().map(attribute).collect::<Result<_, _>>()?,
        operation: operation.clone(),
        labels: labels("otlp.span.labels", texts)?,
    })
}
