//! What the process at fault does more than that of a peer, from profiles of the same seconds.

use serde::{Deserialize, Serialize};

use crate::figure::span;
use crate::ids::{Labels, NodeName};

/// Two profiles, and by what they differ most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ProfileEvidence {
    /// The profile of the node at fault.
    pub id: String,
    /// The profile of its peer.
    pub peer_id: String,
    /// The peer.
    pub peer: NodeName,
    /// Labels by which its process is found, if a node has several that do the same work.
    #[serde(default)]
    pub peer_labels: Labels,
    /// The functions in which the node at fault is longer than its peer, the most first; at most
    /// five.
    pub functions: Vec<FunctionEvidence>,
    /// Link to the flame graph of the difference.
    #[serde(default)]
    pub link: Option<String>,
}

/// A function, and how long each side is in it: seconds in a second of either, all threads
/// together, without what it calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FunctionEvidence {
    /// `function (file:line)`
    pub function: String,
    /// Of the node at fault.
    pub culprit: f64,
    /// Of its peer.
    pub peer: f64,
}

impl ProfileEvidence {
    /// The function in which the node at fault is longest, beyond its peer.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.functions.first().map(|of| of.function.as_str())
    }

    /// `in gc (train.py:12) +400 ms/s against rank=1 on node n2`, the first of the functions.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let FunctionEvidence { function, culprit, peer } = self.functions.first()?;
        let labels = self.peer_labels.iter().map(|(key, value)| format!("{key}={value} on "));
        let (delta, labels) = (span(culprit - peer), labels.collect::<String>());
        Some(format!("in {function} +{delta}/s against {labels}node {}", self.peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_differs_most_is_named() {
        let function =
            |culprit, peer| FunctionEvidence { function: "gc (a.py:1)".into(), culprit, peer };
        let mut evidence = ProfileEvidence {
            id: "a".into(),
            peer_id: "b".into(),
            peer: NodeName::new("n2").unwrap(),
            peer_labels: Labels::default(),
            functions: vec![function(0.5, 0.1), function(9.0, 0.0)],
            link: None,
        };
        assert_eq!(evidence.in_words().unwrap(), "in gc (a.py:1) +400 ms/s against node n2");
        evidence.peer_labels = Labels::new([("rank", "1")]).unwrap();
        let words = "in gc (a.py:1) +400 ms/s against rank=1 on node n2";
        assert_eq!(evidence.in_words().unwrap(), words);
        evidence.functions.clear();
        assert_eq!(evidence.in_words(), None);
    }
}
