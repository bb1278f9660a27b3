//! What a rule, an alert or a window is about: the fleet or one node, and the key of one alert.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{NodeName, Operation, RuleName};

/// The fleet or one node: what an alert, a window or a quantile covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All nodes together.
    Fleet,
    /// One node.
    Node(NodeName),
}

impl Scope {
    /// `fleet` or `node`, the value of the label `scope`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Node(_) => "node",
        }
    }

    /// The node's name; empty for the fleet, as Prometheus treats an absent label.
    #[must_use]
    pub fn node(&self) -> &str {
        match self {
            Self::Fleet => "",
            Self::Node(node) => node.as_str(),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("fleet"),
            Self::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// The identity of one alert; each key has its own alert state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AlertKey {
    /// The rule.
    pub rule: RuleName,
    /// The fleet or the node that the rule evaluates.
    pub scope: Scope,
    /// The operation, or the metric's name where the rule is a threshold.
    pub operation: Operation,
}

impl fmt::Display for AlertKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.rule, self.scope, self.operation)
    }
}

/// The scopes that a rule evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes {
    /// All nodes together.
    pub fleet: bool,
    /// Each node.
    pub nodes: bool,
}

impl Scopes {
    /// The fleet and each node.
    pub const ALL: Self = Self { fleet: true, nodes: true };

    /// Whether a scope is evaluated.
    #[must_use]
    pub const fn holds(self, scope: &Scope) -> bool {
        match scope {
            Scope::Fleet => self.fleet,
            Scope::Node(_) => self.nodes,
        }
    }
}
