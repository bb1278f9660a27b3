//! Subjects of the mesh: built and parsed here, so that the two can never disagree.
//!
//! ```text
//! plimsoll.v1.<mesh>.<lane>.<node>.<kind>     snapshots: node -> aggregator
//! plimsoll.v1.<mesh>.alert.<rule>             notifications: aggregator -> anyone
//! plimsoll.v1.<mesh>.alert.latency_high       events beside them: aggregator -> anyone
//! plimsoll.v1.<mesh>.alert.undeliverable        notifications given up: aggregator -> anyone
//! plimsoll.v1.<mesh>.confirm.<node>           what is stored: aggregator -> node
//! plimsoll.v1.<mesh>.dead.<node>              what no broker takes: node -> anyone
//! plimsoll.v1.<mesh>.silences                 silences: aggregator -> other aggregators
//! plimsoll.v1.<mesh>.ask.<node>               requests of its history: aggregator -> node
//! plimsoll.v1.<mesh>.answer.<node>.<asker>    responses to them: node -> one aggregator
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{IdError, MeshName, NodeName, RuleName};

/// First two tokens of every subject of this wire version.
pub const PREFIX: &str = "plimsoll.v1";

/// Which stream a snapshot travels in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Everyday traffic.
    Normal,
    /// What was rerouted because the normal lane backs up; read first.
    Emergency,
}

impl Lane {
    /// Both lanes, in the order in which they are read.
    pub const ALL: [Self; 2] = [Self::Emergency, Self::Normal];

    /// The lane's token in a subject and its value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Emergency => "emergency",
        }
    }
}

/// What a message's body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotKind {
    /// Histograms, counters and gauges of one interval.
    Latency,
    /// Sensor readings.
    Hardware,
    /// The node's own account of its way to the broker.
    Bus,
    /// Events and service checks of the jobs.
    Event,
    /// Several of these, of one interval.
    Interval,
}

impl SnapshotKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Latency, Self::Hardware, Self::Bus, Self::Event, Self::Interval];

    /// The kind's token in a subject and its value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Hardware => "hardware",
            Self::Bus => "bus",
            Self::Event => "event",
            Self::Interval => "interval",
        }
    }
}

/// Where one snapshot is published.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotSubject {
    /// The mesh.
    pub mesh: MeshName,
    /// The lane, and with it the stream.
    pub lane: Lane,
    /// The publishing node; its broker credentials allow no other name here.
    pub node: NodeName,
    /// What the payload holds.
    pub kind: SnapshotKind,
}

/// Why a subject was not one of ours.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SubjectError {
    /// Not `plimsoll.v1` with the right number of tokens.
    #[error("subject is not {PREFIX}.<mesh>.<lane>.<node>.<kind>")]
    Shape,
    /// A lane that this version does not support.
    #[error("lane {0:?} is neither normal nor emergency")]
    Lane(String),
    /// A kind that this version does not support.
    #[error("kind {0:?} is none of latency, hardware, bus, event, interval")]
    Kind(String),
    /// A token that is not a valid name.
    #[error("subject: {0}")]
    Name(#[from] IdError),
}

impl fmt::Display for SnapshotSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mesh, lane, node, kind } = self;
        write!(f, "{PREFIX}.{mesh}.{}.{}.{}", lane.as_str(), node.token(), kind.as_str())
    }
}

impl std::str::FromStr for SnapshotSubject {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let rest = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.'));
        let mut tokens = rest.ok_or(SubjectError::Shape)?.split('.');
        let mut next = || tokens.next().ok_or(SubjectError::Shape);
        let (mesh, lane, node, kind) = (next()?, next()?, next()?, next()?);
        if tokens.next().is_some() {
            return Err(SubjectError::Shape);
        }
        Ok(Self {
            mesh: MeshName::new(mesh)?,
            lane: Lane::ALL
                .into_iter()
                .find(|known| known.as_str() == lane)
                .ok_or_else(|| SubjectError::Lane(lane.to_owned()))?,
            node: NodeName::from_token(node)?,
            kind: SnapshotKind::ALL
                .into_iter()
                .find(|known| known.as_str() == kind)
                .ok_or_else(|| SubjectError::Kind(kind.to_owned()))?,
        })
    }
}

/// All snapshots of one lane: the subject filter of that lane's stream.
#[must_use]
pub fn lane_filter(mesh: &MeshName, lane: Lane) -> String {
    format!("{PREFIX}.{mesh}.{}.>", lane.as_str())
}

/// All notifications of one mesh.
#[must_use]
pub fn alert_filter(mesh: &MeshName) -> String {
    format!("{PREFIX}.{mesh}.alert.*")
}

/// Where notifications about one rule are published.
#[must_use]
pub fn alert_subject(mesh: &MeshName, rule: &RuleName) -> String {
    format!("{PREFIX}.{mesh}.alert.{rule}")
}

/// Names that take a rule's place in a notification's subject; no rule may have one of them.
pub const RESERVED_RULE_NAMES: [&str; 2] = [UNDELIVERED, LATENCY_HIGH];

/// The event that a budget is exceeded, whatever the state of its alert.
pub const LATENCY_HIGH: &str = "latency_high";

const UNDELIVERED: &str = "undeliverable";

/// Where an event beside the notifications is published, in the same stream.
#[must_use]
pub fn event_subject(mesh: &MeshName, event: &str) -> String {
    format!("{PREFIX}.{mesh}.alert.{event}")
}

/// Where undeliverable notifications are published, beside the notifications.
#[must_use]
pub fn undeliverable_subject(mesh: &MeshName) -> String {
    event_subject(mesh, UNDELIVERED)
}

/// Where confirmations to a node are published; no stream stores them.
#[must_use]
pub fn confirm_subject(mesh: &MeshName, node: &NodeName) -> String {
    format!("{PREFIX}.{mesh}.confirm.{}", node.token())
}

/// Where aggregators report their silences to each other; no stream stores them.
#[must_use]
pub fn silences_subject(mesh: &MeshName) -> String {
    format!("{PREFIX}.{mesh}.silences")
}

/// Where aggregators request a node's own history; no stream stores it.
#[must_use]
pub fn ask_subject(mesh: &MeshName, node: &NodeName) -> String {
    format!("{PREFIX}.{mesh}.ask.{}", node.token())
}

/// Where a node responds to one aggregator. The node's credentials allow no other node here.
#[must_use]
pub fn answer_subject(mesh: &MeshName, node: &NodeName, asker: &str) -> String {
    format!("{PREFIX}.{mesh}.answer.{}.{asker}", node.token())
}

/// All responses to one aggregator.
#[must_use]
pub fn answer_filter(mesh: &MeshName, asker: &str) -> String {
    format!("{PREFIX}.{mesh}.answer.*.{asker}")
}

/// The node that responds on a subject.
#[must_use]
pub fn answering_node(subject: &str) -> Option<NodeName> {
    let mut tokens = subject.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.').skip(1);
    let (kind, node) = (tokens.next()?, tokens.next()?);
    NodeName::from_token(node).ok().filter(|_| kind == "answer")
}

/// Where a node publishes messages that no broker accepts.
#[must_use]
pub fn dead_subject(mesh: &MeshName, node: &NodeName) -> String {
    format!("{PREFIX}.{mesh}.dead.{}", node.token())
}

/// All dead letters of one mesh.
#[must_use]
pub fn dead_filter(mesh: &MeshName) -> String {
    format!("{PREFIX}.{mesh}.dead.*")
}

/// The name of the stream that keeps dead letters.
#[must_use]
pub fn dead_stream(mesh: &MeshName) -> String {
    format!("PLIMSOLL_{mesh}_dead")
}

/// The name of one lane's stream; stream names may hold no dots.
#[must_use]
pub fn lane_stream(mesh: &MeshName, lane: Lane) -> String {
    format!("PLIMSOLL_{mesh}_{}", lane.as_str())
}

/// The name of the mesh whose normal lane has a stream of this name.
#[must_use]
pub fn mesh_of_lane(stream: &str) -> Option<&str> {
    stream.strip_prefix("PLIMSOLL_")?.strip_suffix("_normal")
}

/// The name of the stream that keeps notifications.
#[must_use]
pub fn alert_stream(mesh: &MeshName) -> String {
    format!("PLIMSOLL_{mesh}_alert")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parsing_undoes_building(
            mesh in "[A-Za-z0-9_-]{1,64}",
            node in "[A-Za-z0-9_.-]{1,64}",
            lane in prop::sample::select(&Lane::ALL[..]),
            kind in prop::sample::select(&SnapshotKind::ALL[..]),
        ) {
            let subject = SnapshotSubject {
                mesh: MeshName::new(mesh).unwrap(),
                lane,
                node: NodeName::new(node).unwrap(),
                kind,
            };
            prop_assert_eq!(subject.to_string().parse(), Ok(subject));
        }

        #[test]
        fn building_undoes_parsing(text in "(plimsoll\\.v1\\.)?[a-z*>.= ]{0,40}") {
            if let Ok(subject) = text.parse::<SnapshotSubject>() {
                prop_assert_eq!(subject.to_string(), text);
            }
        }
    }

    #[test]
    fn a_node_named_as_its_cloud_host_has_one_token() {
        let node = NodeName::new("ip-10-0-0-1.ec2.internal").unwrap();
        let mesh = MeshName::new("m").unwrap();
        let answer = answer_subject(&mesh, &node, "a");
        assert_eq!(answer, "plimsoll.v1.m.answer.ip-10-0-0-1=ec2=internal.a");
        assert_eq!(answering_node(&answer), Some(node));
    }

    #[test]
    fn foreign_subjects_are_refused_with_the_part_at_fault() {
        let parse = |text: &str| text.parse::<SnapshotSubject>();
        assert_eq!(parse("plimsoll.v2.m.normal.n.bus"), Err(SubjectError::Shape));
        assert_eq!(parse("plimsoll.v1.m.normal.n"), Err(SubjectError::Shape));
        assert_eq!(parse("plimsoll.v1.m.normal.n.bus.x"), Err(SubjectError::Shape));
        assert_eq!(parse("plimsoll.v1.m.fast.n.bus"), Err(SubjectError::Lane("fast".into())));
        assert_eq!(parse("plimsoll.v1.m.normal.n.cpu"), Err(SubjectError::Kind("cpu".into())));
    }
}
