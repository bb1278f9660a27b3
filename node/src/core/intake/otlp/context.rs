//! What the readers of metrics and traces have in common: the rules, and the hash by which streams
//! and spans are identified.

use foldhash::fast::FixedState;

use super::rules::OtlpRules;
use crate::core::intake::lines::Units;
use crate::core::intake::series::LabelRules;

/// The context of a reader.
pub(super) struct Context {
    pub(super) labels: LabelRules,
    pub(super) units: Units,
    pub(super) otlp: OtlpRules,
    pub(super) state: FixedState,
}
