//! Subjects of the mesh: built and parsed here, so that the two can never disagree.
//!
//! ```text
//! plimsoll.v1.<mesh>.<lane>.<node>.<kind>     snapshots: node -> aggregator
//! plimsoll.v1.<mesh>.part.<p>.<lane>.<node>.<kind>  the same, as the broker stores them
//! plimsoll.v1.<mesh>.alert.<rule>             notifications: aggregator -> anyone
//! plimsoll.v1.<mesh>.alert.latency_high       events beside them: aggregator -> anyone
//! plimsoll.v1.<mesh>.alert.undeliverable        notifications given up: aggregator -> anyone
//! plimsoll.v1.<mesh>.confirm.<node>           what is stored: aggregator -> node
//! plimsoll.v1.<mesh>.dead.<node>              what no broker takes: node -> anyone
//! plimsoll.v1.<mesh>.silences                 silences: aggregator -> other aggregators
//! plimsoll.v1.<mesh>.ask.<node>               requests of its history: aggregator -> node
//! plimsoll.v1.<mesh>.capture.<node>           orders of captures: aggregator -> node
//! plimsoll.v1.<mesh>.answer.<node>.<asker>    responses to both: node -> one aggregator
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{IdError, MeshName, NodeName, Partition, RuleName};

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
    /// What an aggregator has merged of its nodes.
    Shard,
}

impl SnapshotKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Latency, Self::Hardware, Self::Bus, Self::Event, Self::Interval, Self::Shard];

    /// The kind's token in a subject and its value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Hardware => "hardware",
            Self::Bus => "bus",
            Self::Event => "event",
            Self::Interval => "interval",
            Self::Shard => "shard",
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
    #[error("kind {0:?} is none of latency, hardware, bus, event, interval, shard")]
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
        let (mesh, mut lane) = (next()?, next()?);

        if lane == PART {
            // The broker's own mapping of the node; nothing else depends on it.
            let _checked: Partition = next()?.parse()?;
            lane = next()?;
        }

        let (node, kind) = (next()?, next()?);
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

/// The token before a partition's number.
const PART: &str = "part";

/// All snapshots of one lane, or of one partition's: the subject filter of that lane's stream.
#[must_use]
pub fn lane_filter(mesh: &MeshName, lane: Lane, partition: Option<Partition>) -> String {
    let lane = lane.as_str();
    match partition {
        Some(partition) => format!("{PREFIX}.{mesh}.{PART}.{partition}.{lane}.>"),
        None => format!("{PREFIX}.{mesh}.{lane}.>"),
    }
}

/// The same of every partition, for permissions.
#[must_use]
pub fn partitions_filter(mesh: &MeshName, lane: Lane) -> String {
    format!("{PREFIX}.{mesh}.{PART}.*.{}.>", lane.as_str())
}

/// The broker's subject mapping that divides a mesh into this many partitions by the names of its
/// nodes: what is published, and where it goes instead. DESIGN S80.
#[must_use]
pub fn partition_mapping(mesh: &MeshName, lane: Lane, partitions: u16) -> (String, String) {
    let lane = lane.as_str();
    let stored = format!(
        "{PREFIX}.{mesh}.{PART}.{{{{partition({partitions},1)}}}}.{lane}.{{{{wildcard(1)}}}}.\
         {{{{wildcard(2)}}}}"
    );
    (format!("{PREFIX}.{mesh}.{lane}.*.*"), stored)
}

/// The mesh that the reports of a mesh's shards are published in.
///
/// # Errors
/// When its name is too long.
pub fn above(mesh: &MeshName) -> Result<MeshName, IdError> {
    MeshName::new(format!("{mesh}-all"))
}

/// The name under which the aggregator of a partition publishes in the mesh above.
#[must_use]
pub fn shard_name(partition: Partition) -> NodeName {
    let name = NodeName::from_host(&format!("shard-{partition}"));
    // Cannot fail: it is letters, digits and a dash.
    name.expect("letters, digits and a dash")
}

/// The key-value store of a mesh's leases, one key for each partition.
#[must_use]
pub fn lease_bucket(mesh: &MeshName) -> String {
    format!("plimsoll_{mesh}_leases")
}

/// The stream that NATS stores a key-value store in.
#[must_use]
pub fn bucket_stream(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// Where NATS publishes a key of a key-value store, or all keys of one token (`*`).
#[must_use]
pub fn bucket_subject(bucket: &str, key: impl fmt::Display) -> String {
    format!("$KV.{bucket}.{key}")
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

/// Where aggregators order captures on a node and request their bytes; no stream stores it.
#[must_use]
pub fn capture_subject(mesh: &MeshName, node: &NodeName) -> String {
    format!("{PREFIX}.{mesh}.capture.{}", node.token())
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

/// The name of the stream of one lane, or of one partition's; stream names may hold no dots. No
/// mesh is named with the `=` of a partition.
#[must_use]
pub fn lane_stream(mesh: &MeshName, lane: Lane, partition: Option<Partition>) -> String {
    let lane = lane.as_str();
    match partition {
        Some(partition) => format!("PLIMSOLL_{mesh}_{PART}={partition}_{lane}"),
        None => format!("PLIMSOLL_{mesh}_{lane}"),
    }
}

/// The name of the mesh whose normal lane has a stream of this name. A partition's has none.
#[must_use]
pub fn mesh_of_lane(stream: &str) -> Option<&str> {
    let mesh = stream.strip_prefix("PLIMSOLL_")?.strip_suffix("_normal")?;
    MeshName::check(mesh).is_ok().then_some(mesh)
}

/// What the names of all streams of a mesh begin with.
#[must_use]
pub fn stream_prefix(mesh: &MeshName) -> String {
    format!("PLIMSOLL_{mesh}_")
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
    fn a_snapshot_of_a_partition_is_parsed_without_it() {
        let parse = |text: &str| text.parse::<SnapshotSubject>();
        let plain = parse("plimsoll.v1.m.normal.a=b.bus").unwrap();
        assert_eq!(parse("plimsoll.v1.m.part.63.normal.a=b.bus").as_ref(), Ok(&plain));
        for partition in ["64", "00", "x", "+1", "", "100000"] {
            let parsed = parse(&format!("plimsoll.v1.m.part.{partition}.normal.a.bus"));
            assert!(matches!(parsed, Err(SubjectError::Name(_))), "{partition} {parsed:?}");
        }
        assert_eq!(parse("plimsoll.v1.m.part.1.normal.a"), Err(SubjectError::Shape));
        let nested = parse("plimsoll.v1.m.part.1.part.1.normal.a.bus");
        assert_eq!(nested, Err(SubjectError::Shape));
    }

    #[test]
    fn streams_of_partitions_are_those_of_no_other_mesh() {
        let [mesh, other] = ["x", "x_part_0"].map(|name| MeshName::new(name).unwrap());
        let partition = Some(Partition(0));
        let stream = lane_stream(&mesh, Lane::Normal, partition);
        assert_eq!(stream, "PLIMSOLL_x_part=0_normal");
        assert_ne!(stream, lane_stream(&other, Lane::Normal, None));
        assert_eq!(mesh_of_lane(&stream), None);
        assert_eq!(mesh_of_lane(&lane_stream(&other, Lane::Normal, None)), Some("x_part_0"));
        assert_eq!(
            lane_filter(&mesh, Lane::Emergency, partition),
            "plimsoll.v1.x.part.0.emergency.>"
        );
    }

    #[test]
    fn the_mesh_above_and_its_publishers_have_names() {
        let mesh = MeshName::new("m").unwrap();
        assert_eq!(above(&mesh).unwrap().as_str(), "m-all");
        assert!(above(&MeshName::new("m".repeat(61)).unwrap()).is_err());
        assert_eq!(shard_name(Partition(63)).as_str(), "shard-63");
        let (published, stored) = partition_mapping(&mesh, Lane::Normal, 4);
        assert_eq!(published, "plimsoll.v1.m.normal.*.*");
        let expected =
            "plimsoll.v1.m.part.{{partition(4,1)}}.normal.{{wildcard(1)}}.{{wildcard(2)}}";
        assert_eq!(stored, expected);
    }

    #[test]
    fn a_node_named_as_its_cloud_host_has_one_token() {
        let node = NodeName::new("ip-10-0-0-1.ec2.internal").unwrap();
        let mesh = MeshName::new("m").unwrap();
        let answer = answer_subject(&mesh, &node, "a");
        assert_eq!(answer, "plimsoll.v1.m.answer.ip-10-0-0-1=ec2=internal.a");
        assert_eq!(answering_node(&answer), Some(node.clone()));
        let capture = capture_subject(&mesh, &node);
        assert_eq!(capture, "plimsoll.v1.m.capture.ip-10-0-0-1=ec2=internal");
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
