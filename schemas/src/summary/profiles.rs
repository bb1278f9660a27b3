//! The answers of `/api/v1/profiles`: captures that were ordered, and what became of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{Labels, NodeName, Operation, ProfileName, RuleName};
use crate::labelled;
use crate::wire::capture::{CaptureFacts, CaptureId, CaptureKind};

/// A capture to order: of the process with this number, or of the one that sends this operation
/// with these labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// What is measured, by default stacks.
    #[serde(default)]
    pub kind: CaptureKind,
    /// Whether stacks have native frames too.
    #[serde(default)]
    pub native: bool,
    /// The node.
    #[serde(default)]
    pub node: Option<NodeName>,
    /// Of the past: several nodes, whose sum is one profile. Without any, all that are up.
    #[serde(default)]
    pub nodes: Vec<NodeName>,
    /// The number of the process.
    pub pid: Option<u32>,
    /// What it sends.
    pub operation: Option<Operation>,
    /// Labels that its samples have.
    #[serde(default)]
    pub labels: Labels,
    /// Its length, by default 10, and 3600 of kind continuous.
    pub seconds: Option<u32>,
    /// Samples a second, by default 100, and 19 of kind continuous.
    pub hz: Option<u32>,
    /// Of kind continuous: from the start of one profile of 10 s to the next, by default 10.
    #[serde(default)]
    pub interval_seconds: Option<u32>,
    /// Of the past: its first second since 1970,
    #[serde(default)]
    pub from: Option<u64>,
    /// and its end.
    #[serde(default)]
    pub to: Option<u64>,
}

/// Captures, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ProfilesPage {
    /// The mesh.
    pub mesh: String,
    /// Captures.
    pub profiles: Vec<ProfileRow>,
}

/// One capture. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Profile"))]
pub struct ProfileRow {
    /// Its name: 32 hexadecimal digits, the same on each aggregator that ordered it.
    #[cfg_attr(feature = "openapi", schemars(with = "String"))]
    pub id: CaptureId,
    /// What is measured.
    #[serde(default)]
    pub kind: CaptureKind,
    /// Whether its stacks have native frames too.
    #[serde(default)]
    pub native: bool,
    /// The node; of a sum the first one.
    pub node: NodeName,
    /// Of a sum: how many nodes it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesSummed>,
    /// The process was selected as the one that sends this operation;
    pub operation: Option<Operation>,
    /// and these labels.
    #[serde(default)]
    pub labels: Labels,
    /// Its ordered length.
    pub seconds: u32,
    /// Samples a second: ordered, or of the past recorded; 0 where it is unknown or differs.
    pub hz: u32,
    /// When it was ordered for; by it the oldest make room. 0 in files of an earlier version, where
    /// it is `start_seconds`.
    #[serde(default)]
    pub ordered_seconds: f64,
    /// When it starts, by the node's clock; of the past the start of that.
    pub start_seconds: f64,
    /// The rule whose alert caused it; `None` when an operator did.
    pub rule: Option<RuleName>,
    /// The capture of a peer at the same time, which this one is compared with.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub peer: Option<CaptureId>,
    /// What became of it.
    pub state: ProfileState,
    /// Why there is no profile.
    pub reason: Option<String>,
    /// How it went.
    #[serde(default)]
    pub facts: CaptureFacts,
    /// Bytes of the profile.
    pub bytes: u64,
    /// The name under which it is kept for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_as: Option<ProfileName>,
}

/// The nodes whose past was added up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodesSummed {
    /// Nodes that were asked, at most 64.
    pub asked: usize,
    /// Nodes whose past is in it.
    pub answered: usize,
    /// Nodes beyond those.
    pub left_out: usize,
    /// Those without a profile, and why.
    pub missing: BTreeMap<NodeName, String>,
}

impl ProfileRow {
    /// The node, or how many of the nodes of a sum.
    #[must_use]
    pub fn subject(&self) -> String {
        match &self.nodes {
            Some(of) => format!("{} of {} nodes", of.answered, of.asked),
            None => self.node.to_string(),
        }
    }

    /// By what the oldest is found, in seconds since 1970.
    #[must_use]
    pub fn made_at(&self) -> f64 {
        if self.ordered_seconds > 0.0 { self.ordered_seconds } else { self.start_seconds }
    }
}

labelled! {
    /// What became of a capture.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum ProfileState {
        /// It was ordered and has not ended.
        Running = "running",
        /// The profile is kept, whole.
        Kept = "kept",
        /// A profile is kept of a part of the time.
        Torn = "torn",
        /// There is no profile, although the node permitted it.
        Failed = "failed",
        /// The node did not permit it, or found no process.
        Refused = "refused",
        /// The node received it too late.
        Expired = "expired",
    }
}

impl ProfileState {
    /// Whether a profile of it is kept.
    #[must_use]
    pub fn has_profile(self) -> bool {
        matches!(self, Self::Kept | Self::Torn)
    }
}
