//! Up to when figures are known, and whether they are still current.
//!
//! DESIGN A178.

use serde::{Deserialize, Serialize};

/// Up to when figures are known. Everything that a person reads shows stale figures as stale, with
/// this time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Freshness {
    /// When the newest sample was taken or, of the whole mesh, when a node was last seen; seconds
    /// since 1970. `None` before there was any.
    pub as_of_seconds: Option<f64>,
    /// True while none of the nodes that the figures are of sends messages: they are those of that
    /// time. The whole mesh is stale too while the broker does not answer.
    pub stale: bool,
}

impl Freshness {
    /// How old the newest data is at a time; `None` before there was any.
    #[must_use]
    pub fn age_seconds(&self, at_seconds: f64) -> Option<f64> {
        self.as_of_seconds.map(|as_of| (at_seconds - as_of).max(0.0))
    }
}
