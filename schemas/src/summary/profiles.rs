//! The answers of `/api/v1/profiles`: captures that were ordered, and what became of them.

use serde::{Deserialize, Serialize};

use crate::ids::{Labels, NodeName, Operation, RuleName};

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
    pub id: String,
    /// The node.
    pub node: NodeName,
    /// The process was selected as the one that sends this operation;
    pub operation: Option<Operation>,
    /// and these labels.
    #[serde(default)]
    pub labels: Labels,
    /// Its ordered length.
    pub seconds: u32,
    /// Ordered samples a second.
    pub hz: u32,
    /// When it starts, by the node's clock.
    pub start_seconds: f64,
    /// The rule whose alert caused it; `None` when an operator did.
    pub rule: Option<RuleName>,
    /// The capture of a peer at the same time, which this one is compared with.
    pub peer: Option<String>,
    /// What became of it.
    pub state: ProfileState,
    /// Why there is no profile.
    pub reason: Option<String>,
    /// How it went.
    #[serde(default)]
    pub facts: ProfileFacts,
    /// Bytes of the profile.
    pub bytes: u64,
    /// Whether the profile can be read.
    pub has_profile: bool,
}

/// What became of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProfileState {
    /// It was ordered and has not ended.
    Running,
    /// The profile is kept, whole.
    Kept,
    /// A profile is kept of a part of the time.
    Torn,
    /// There is no profile, although the node permitted it.
    Failed,
    /// The node did not permit it, or found no process.
    Refused,
    /// The node received it too late.
    Expired,
}

/// How a capture went, as the node reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProfileFacts {
    /// How stacks were read: `profiler` from outside, `client` by the client inside.
    pub rung: String,
    /// The process; before it is found the one that was ordered, or 0.
    pub pid: u32,
    /// The name of its program.
    pub command: String,
    /// The version of Python.
    pub python: String,
    /// Stacks in the profile.
    pub samples: u64,
    /// Stacks that changed while they were read.
    pub torn: u64,
    /// Samples that were not taken in time, or had no room.
    pub lost: u64,
    /// What to change for a profile, or for a better one.
    pub advice: String,
}

impl ProfileState {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Kept, Self::Torn, Self::Failed, Self::Refused, Self::Expired];

    /// As in the page.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Kept => "kept",
            Self::Torn => "torn",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}
