//! The part of the configuration that decides how input is read. Only the intake's root sees it as
//! a whole; each reader gets its own part.

use super::lines::Units;
use super::otlp::OtlpRules;
use super::promtext::Target;
use super::series::LabelRules;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which tags become labels.
    pub labels: LabelRules,
    pub units: Units,
    pub otlp: OtlpRules,
    /// Which pages are scraped.
    pub targets: Vec<Target>,
}
