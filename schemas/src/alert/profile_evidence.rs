//! What the process at fault does more than that of a peer, from profiles of the same seconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::StragglerEvidence;
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
    /// Labels of the process at fault, if its node has several.
    #[serde(default)]
    pub labels: Labels,
    /// The peer.
    pub peer: NodeName,
    /// Labels by which its process is found, if a node has several that do the same work.
    #[serde(default)]
    pub peer_labels: Labels,
    /// The functions in which the node at fault is longer than its peer, the most first; at most
    /// five, and none whose difference may be noise.
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
    /// The function in which a straggler is longest, beyond its peer; `None` if another rank was
    /// profiled.
    #[must_use]
    pub fn function_of(&self, straggler: &StragglerEvidence) -> Option<&str> {
        let by = straggler.by.as_str();
        let shared = straggler.cohort.iter().filter(|(key, _)| *key != by);
        let own = [(by, straggler.peer.as_str())];
        let is_same = shared.chain(own).collect::<BTreeMap<_, _>>() == self.labels.iter().collect();
        self.functions.first().filter(|_| is_same).map(|of| of.function.as_str())
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
    use crate::ids::Operation;
    use crate::straggler::StragglerMethod;

    #[test]
    fn the_function_that_differs_most_is_named() {
        let function =
            |culprit, peer| FunctionEvidence { function: "gc (a.py:1)".into(), culprit, peer };
        let mut evidence = ProfileEvidence {
            id: "a".into(),
            peer_id: "b".into(),
            labels: Labels::default(),
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

    #[test]
    fn a_function_is_that_of_the_straggler_that_was_profiled() {
        let labels = |of: &[(&str, &str)]| Labels::new(of.iter().copied()).unwrap();
        let function = FunctionEvidence { function: "gc (a.py:1)".into(), culprit: 0.5, peer: 0.1 };
        let evidence = ProfileEvidence {
            id: "a".into(),
            peer_id: "b".into(),
            labels: labels(&[("rank", "2"), ("run", "v1")]),
            peer: NodeName::new("n2").unwrap(),
            peer_labels: Labels::default(),
            functions: vec![function],
            link: None,
        };
        let straggler = StragglerEvidence {
            method: StragglerMethod::WaitsLeast,
            operation: Operation::new("train_step").unwrap(),
            cohort: labels(&[("run", "v1")]),
            by: "rank".to_owned(),
            peer: "2".to_owned(),
            peers: 4,
            others_of_node: 0,
            excess_seconds: 0.02,
            lower_seconds: 0.02,
            upper_seconds: 0.02,
            excess_ratio: 0.2,
            lower_ratio: 0.2,
            upper_ratio: 0.2,
            allowed_ratio: 0.03,
            class: None,
            unmeasured: Vec::new(),
            slow_since_seconds: 0.0,
            peer_hours_per_hour: 0.5,
            chance_of_error: 1e-4,
        };
        assert_eq!(evidence.function_of(&straggler), Some("gc (a.py:1)"));
        let of_peer = StragglerEvidence { peer: "3".to_owned(), ..straggler.clone() };
        let cohort = labels(&[("run", "v2")]);
        let of_cohort = StragglerEvidence { cohort, ..straggler };
        assert_eq!([&of_peer, &of_cohort].map(|of| evidence.function_of(of)), [None, None]);
    }
}
