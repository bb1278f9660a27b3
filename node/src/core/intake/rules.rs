//! What a configuration may say about how input is read.

use super::labels::LabelRules;
use super::otlp::rules::OtlpRules;
use super::promtext::Target;
use super::units::Units;

/// The rules of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which tags become labels.
    pub labels: LabelRules,
    /// In which unit values stand.
    pub units: Units,
    /// What becomes of OpenTelemetry.
    pub otlp: OtlpRules,
    /// Whose pages are read.
    pub targets: Vec<Target>,
}
