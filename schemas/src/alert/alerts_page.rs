//! The alerts page of the API, `/api/v1/alerts`: alerts that are not inactive, and who has
//! acknowledged them.

use serde::{Deserialize, Serialize};

use super::context::AlertContext;
use super::evidence::Evidence;
use super::state::{AlertState, DataStatus};
use super::timestamp;
use crate::annotations::Severity;
use crate::scope::AlertKey;
use crate::time::Wall;

/// All alerts that are not inactive and that the request selects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AlertsPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// Firing first, then pending, then resolved; the worst severity first.
    pub alerts: Vec<AlertRow>,
}

/// One alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Alert"))]
pub struct AlertRow {
    /// Its key.
    #[serde(flatten)]
    pub key: AlertKey,
    /// Its state.
    pub state: AlertState,
    /// When it entered the state, in seconds since 1970.
    pub since_seconds: f64,
    /// When it last began to fire, in seconds since 1970.
    pub firing_since_seconds: Option<f64>,
    /// Severity.
    pub severity: Severity,
    /// Summary in one line.
    pub summary: String,
    /// Link to the runbook section.
    pub runbook: Option<String>,
    /// Whether there was enough data at the last evaluation.
    pub data: DataStatus,
    /// How often it has fired again soon after it resolved.
    pub flaps: u32,
    /// The acknowledgement, if an operator has acknowledged it.
    pub acknowledged: Option<Acknowledgement>,
    /// Numbers of the active silences that match it.
    pub silenced_by: Vec<u64>,
    /// The evidence of its last change of state.
    pub evidence: Option<Evidence>,
    /// Context at the time it fired; dropped some time after the alert has ended.
    pub context: Option<AlertContext>,
}

/// An operator has acknowledged an alert: until it expires, receivers are notified of the alert's
/// end only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Acknowledgement {
    /// The operator.
    pub by: String,
    /// The operator's comment.
    #[serde(default)]
    pub comment: String,
    /// When it expires.
    #[serde(rename = "until_seconds", with = "timestamp")]
    #[cfg_attr(feature = "openapi", schemars(with = "f64"))]
    pub until: Wall,
}
