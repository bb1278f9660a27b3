//! What a rule states for people: severity, receivers, runbook, summary.

use serde::{Deserialize, Serialize};

/// Severity of a rule's alerts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    Info,
    /// Handle during working hours.
    #[default]
    Warning,
    /// Handle now, at any hour.
    Critical,
}

impl Severity {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// The severity as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The annotations of a rule, which every notification about its alerts carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleAnnotations {
    /// Severity.
    pub severity: Severity,
    /// Names of the receivers that are notified; empty means all.
    #[serde(default)]
    pub routes: Vec<String>,
    /// Link to the runbook section.
    #[serde(default)]
    pub runbook: Option<String>,
    /// Summary in one line.
    #[serde(default)]
    pub summary: Option<String>,
}
