//! A confirmation from an aggregator to a node: which of its messages are stored, and over which
//! limits the node must count samples.
//!
//! One MessagePack map with named fields, like a snapshot, on the node's own subject. It is sent
//! again with every checkpoint, so any one may be lost; it never confirms more than what is stored.
//!
//! DESIGN S12.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use serde_bytes::ByteArray;

use super::error::{SCHEMA, WireError};
use super::messagepack;
use super::signature::{ConfirmKey, Purpose};
use crate::histogram::layout::MAX_NS;
use crate::ids::MeshName;
use crate::ids::{AggregatorName, Incarnation, NodeName, Operation, Seq};
use crate::limits::wire::{
    CONFIRMATION_BYTES_MAX, CONFIRMED_INCARNATIONS_MAX, CONFIRMED_LIMITS_MAX, CONFIRMED_SPANS_MAX,
    CONFIRMED_URGENT_MAX, COUNT_MAX, LIMITS_MAX, MESH_NODES_MAX, SIGNATURE_BYTES,
};
use crate::time::Wall;
use crate::urgency::DeclaredUrgency;

/// What is stored of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The node; equal to the one in the subject.
    pub node: NodeName,
    /// True while the aggregator is far behind the end of the streams: a message that is missing
    /// here may still be waiting there.
    pub behind: bool,
    /// How far behind the end of the streams the aggregator was when the state was stored that this
    /// confirms: by so much the normal lane is delayed.
    pub backlog: Duration,
    /// How long before the confirmation was sent the aggregator had read everything in the streams.
    /// Example: with an age of 3 s, a message that the broker acknowledged 1 s ago may be missing
    /// here although nothing is lost.
    pub age: Duration,
    /// Its latest incarnations, each once.
    pub incarnations: Vec<ConfirmedIncarnation>,
    /// The limits of the operations that the aggregator judges, each once; at most
    /// `limits::wire::LIMITS_MAX` of one operation.
    pub limits: Vec<LatencyLimit>,
    /// What the rules declare urgent; at most `limits::wire::CONFIRMED_URGENT_MAX`.
    pub urgent: Vec<DeclaredUrgency>,
    /// How many nodes the aggregator knows, over which a node spreads its reconnects; at most
    /// `limits::wire::MESH_NODES_MAX`, 0 when it is not stated.
    pub mesh_nodes: u32,
    /// True while the aggregator lacks the set of readings to which the node's changes refer: the
    /// node sends all of them.
    pub readings_missing: bool,
    /// True from an aggregator that keeps no state and therefore confirms nothing: the rest holds.
    pub withheld: bool,
    /// Who issued it and when; `None` from versions before.
    pub issue: Option<Issue>,
}

impl Confirmation {
    /// That nothing of a node is stored, from an aggregator that is up to date and has no rules.
    #[must_use]
    pub fn of(node: NodeName) -> Self {
        Self {
            node,
            behind: false,
            backlog: Duration::ZERO,
            age: Duration::ZERO,
            incarnations: Vec::new(),
            limits: Vec::new(),
            urgent: Vec::new(),
            mesh_nodes: 0,
            readings_missing: false,
            withheld: false,
            issue: None,
        }
    }
}

/// Who issued a confirmation and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The aggregator: the same after a restart, another one than the other one's of a pair.
    pub aggregator: AggregatorName,
    /// By its clock, and later than all that it issued before.
    pub at: Wall,
}

/// A limit that a budget sets: this many samples of an operation may exceed it, and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyLimit {
    /// The operation.
    pub operation: Operation,
    /// The limit in nanoseconds.
    pub limit_ns: u64,
    /// The share of samples that may exceed it, in millionths: 10 000 for a p99.
    pub allowed_ppm: u32,
}

/// What is stored of one incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmedIncarnation {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// First and last seq of each unbroken span of stored messages, ascending and apart. When
    /// there are more than `limits::wire::CONFIRMED_SPANS_MAX`, the latest.
    pub spans: Vec<(Seq, Seq)>,
}

impl ConfirmedIncarnation {
    /// Whether the message with this number is stored.
    #[must_use]
    pub fn covers(&self, seq: Seq) -> bool {
        let after = self.spans.partition_point(|(first, _)| *first <= seq);
        after > 0 && self.spans[after - 1].1 >= seq
    }

    /// The greatest number stored.
    #[must_use]
    pub fn newest(&self) -> Option<Seq> {
        self.spans.last().map(|(_, last)| *last)
    }

    /// Whether it is unknown if the message with this seq is stored: the seq lies before a list
    /// that may have been truncated.
    #[must_use]
    pub fn is_unknown(&self, seq: Seq) -> bool {
        let cut = self.spans.len() >= CONFIRMED_SPANS_MAX;
        cut && self.spans.first().is_some_and(|(first, _)| seq < *first)
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    schema: u16,
    node: String,
    #[serde(default)]
    behind: bool,
    #[serde(default)]
    backlog_ms: u64,
    #[serde(default)]
    age_ms: u64,
    runs: Vec<IncarnationSpans>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    limits: Vec<(String, u64, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "known")]
    urgent: Vec<DeclaredUrgency>,
    #[serde(default, skip_serializing_if = "is_zero")]
    mesh_nodes: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    readings_missing: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    withheld: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issue: Option<(AggregatorName, Wall)>,
    /// The last field, see [`super::signature`]; the bytes that stand here are put in afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    signature: Option<ByteArray<SIGNATURE_BYTES>>,
}

/// The entries that this version knows: a level or a subject of a later one costs nothing else.
fn known<'de, D: Deserializer<'de>>(entries: D) -> Result<Vec<DeclaredUrgency>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Known(DeclaredUrgency),
        Unknown(IgnoredAny),
    }

    let entries = Vec::<Entry>::deserialize(entries)?.into_iter();
    let known = entries.filter_map(|entry| match entry {
        Entry::Known(declared) => Some(declared),
        Entry::Unknown(IgnoredAny) => None,
    });
    Ok(known.collect())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
struct IncarnationSpans {
    incarnation: u64,
    spans: Vec<(u64, u64)>,
}

/// The bytes of a confirmation.
#[must_use]
pub fn encode(confirmation: &Confirmation) -> Vec<u8> {
    encode_with(confirmation, None)
}

/// The bytes of a confirmation with its signature.
#[must_use]
pub fn encode_signed(confirmation: &Confirmation, mesh: &MeshName, key: &ConfirmKey) -> Vec<u8> {
    let mut bytes = encode_with(confirmation, Some(ByteArray::new([0; SIGNATURE_BYTES])));
    key.sign(Purpose::Confirmation, mesh, &mut bytes);
    bytes
}

fn encode_with(
    confirmation: &Confirmation,
    signature: Option<ByteArray<SIGNATURE_BYTES>>,
) -> Vec<u8> {
    let spans = |confirmed: &ConfirmedIncarnation| IncarnationSpans {
        incarnation: confirmed.incarnation.0,
        spans: confirmed.spans.iter().map(|(first, last)| (first.0, last.0)).collect(),
    };

    let limit = |of: &LatencyLimit| (of.operation.to_string(), of.limit_ns, of.allowed_ppm);
    rmp_serde::to_vec_named(&Envelope {
        schema: SCHEMA,
        node: confirmation.node.to_string(),
        behind: confirmation.behind,
        backlog_ms: milliseconds(confirmation.backlog),
        // Rounded up: an age too large delays a resend, one too small causes a needless one.
        age_ms: milliseconds(confirmation.age),
        runs: confirmation.incarnations.iter().map(spans).collect(),
        limits: confirmation.limits.iter().map(limit).collect(),
        urgent: confirmation.urgent.clone(),
        mesh_nodes: confirmation.mesh_nodes,
        readings_missing: confirmation.readings_missing,
        withheld: confirmation.withheld,
        issue: confirmation.issue.clone().map(|issue| (issue.aggregator, issue.at)),
        signature,
    })
    // Cannot fail: MessagePack expresses numbers and text.
    .expect("a confirmation holds only numbers and text, which MessagePack can express")
}

/// Whole milliseconds, rounded up.
fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Reads a confirmation that arrived under the subject of `node`.
///
/// # Errors
/// On anything that is not exactly one well-formed confirmation of this node.
pub fn decode(node: &NodeName, bytes: &[u8]) -> Result<Confirmation, WireError> {
    if bytes.len() > CONFIRMATION_BYTES_MAX {
        return Err(WireError::TooLarge { bytes: bytes.len(), max: CONFIRMATION_BYTES_MAX });
    }
    let mut rest = bytes;
    let envelope: Envelope =
        messagepack::read(&mut rest).map_err(|error| WireError::Shape(error.to_string()))?;
    if envelope.schema != SCHEMA {
        return Err(WireError::Schema(envelope.schema));
    }
    if !rest.is_empty() {
        return Err(WireError::Trailing(rest.len()));
    }

    if envelope.node != node.as_str() {
        let subject = node.to_string();
        return Err(WireError::Node { payload: envelope.node, subject });
    }

    let incarnations = envelope.runs.into_iter().map(check).collect::<Option<Vec<_>>>();
    let incarnations = incarnations.filter(|incarnations| {
        incarnations.len() <= CONFIRMED_INCARNATIONS_MAX && are_distinct(incarnations)
    });
    let incarnations = incarnations.ok_or(WireError::Bounds { field: "runs" })?;
    let backlog = Duration::from_millis(envelope.backlog_ms);
    let age = Duration::from_millis(envelope.age_ms);
    let limits = check_limits(envelope.limits)?;
    let Envelope { behind, urgent, mesh_nodes, readings_missing, withheld, issue, .. } = envelope;
    if urgent.len() > CONFIRMED_URGENT_MAX {
        return Err(WireError::Bounds { field: "urgent" });
    }
    if mesh_nodes > MESH_NODES_MAX {
        return Err(WireError::Bounds { field: "mesh_nodes" });
    }
    let node = node.clone();

    Ok(Confirmation {
        node,
        behind,
        backlog,
        age,
        incarnations,
        limits,
        urgent,
        mesh_nodes,
        readings_missing,
        withheld,
        issue: issue.map(|(aggregator, at)| Issue { aggregator, at }),
    })
}

fn check_limits(limits: Vec<(String, u64, u32)>) -> Result<Vec<LatencyLimit>, WireError> {
    let refused = WireError::Bounds { field: "limits" };
    if limits.len() > CONFIRMED_LIMITS_MAX {
        return Err(refused);
    }
    let mut by_operation: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();

    // Checked as text: an operation's name is parsed only once the whole list is accepted.
    for (operation, limit_ns, allowed_ppm) in &limits {
        let known = by_operation.entry(operation).or_default();
        let is_new = (1..=MAX_NS).contains(limit_ns) && known.insert(*limit_ns);
        if !is_new || known.len() > LIMITS_MAX || *allowed_ppm > 1_000_000 {
            return Err(refused);
        }
    }

    let checked = |(operation, limit_ns, allowed_ppm)| {
        Ok(LatencyLimit { operation: Operation::new(operation)?, limit_ns, allowed_ppm })
    };
    limits.into_iter().map(checked).collect()
}

fn are_distinct(incarnations: &[ConfirmedIncarnation]) -> bool {
    let names: BTreeSet<Incarnation> =
        incarnations.iter().map(|confirmed| confirmed.incarnation).collect();
    names.len() == incarnations.len()
}

fn check(
    IncarnationSpans { incarnation, spans }: IncarnationSpans,
) -> Option<ConfirmedIncarnation> {
    let forward = spans.iter().all(|(first, last)| (1..=*last).contains(first));
    // Two that touch are one: so each set of numbers has one form, and takes the fewest of the
    // bounded spans.
    let apart = spans.windows(2).all(|pair| pair[0].1 < pair[1].0.saturating_sub(1));
    let bounded = spans.len() <= CONFIRMED_SPANS_MAX
        && spans.last().is_none_or(|(_, last)| *last <= COUNT_MAX);
    if incarnation == 0 || !(forward && apart && bounded) {
        return None;
    }
    let spans = spans.into_iter().map(|(first, last)| (Seq(first), Seq(last))).collect();
    Some(ConfirmedIncarnation { incarnation: Incarnation(incarnation), spans })
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::super::signature::SignatureError;
    use super::*;
    use crate::alert::NamePattern;
    use crate::urgency::{DeclaredSubject, Urgency};

    fn node() -> NodeName {
        NodeName::new("n1").unwrap()
    }

    fn confirmation(spans: Vec<(u64, u64)>) -> Confirmation {
        let spans = spans.into_iter().map(|(first, last)| (Seq(first), Seq(last))).collect();
        let incarnations = vec![ConfirmedIncarnation { incarnation: Incarnation(7), spans }];
        let limits = limits(&[("epoch_hook", 18_000_000), ("epoch_hook", 1)]);
        let (backlog, age) = (Duration::from_secs(31), Duration::from_millis(4_321));
        Confirmation {
            node: node(),
            behind: true,
            backlog,
            age,
            incarnations,
            limits,
            urgent: urgent(3),
            mesh_nodes: 9,
            readings_missing: true,
            withheld: false,
            issue: None,
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_the_field_at_fault() {
        let forged = [
            vec![(2, 1)],
            vec![(0, 1)],
            vec![(1, 2), (3, 4)],
            vec![(5, 6), (1, 2)],
            vec![(1, COUNT_MAX + 1)],
            (0..=CONFIRMED_SPANS_MAX as u64).map(|n| (3 * n + 1, 3 * n + 1)).collect(),
        ];
        for spans in forged {
            let bytes = encode(&confirmation(spans.clone()));
            let refused = Err(WireError::Bounds { field: "runs" });
            assert_eq!(decode(&node(), &bytes), refused, "{spans:?}");
        }
        let mut many = confirmation(vec![(1, 2)]);
        many.incarnations = vec![many.incarnations[0].clone(); CONFIRMED_INCARNATIONS_MAX + 1];
        let refused = Err(WireError::Bounds { field: "runs" });
        assert_eq!(decode(&node(), &encode(&many)), refused);
    }

    fn urgent(count: usize) -> Vec<DeclaredUrgency> {
        let pattern = |n: usize| NamePattern::new(format!("{n:0>127}*")).unwrap();
        let subjects = (0..count).map(|n| match n % 3 {
            0 => DeclaredSubject::ServiceCheck(pattern(n)),
            1 => DeclaredSubject::Operation(pattern(n)),
            _ => DeclaredSubject::Event(pattern(n)),
        });
        let declared = |subject| DeclaredUrgency { subject, urgency: Urgency::Critical };
        subjects.map(declared).collect()
    }

    fn limits(limits: &[(&str, u64)]) -> Vec<LatencyLimit> {
        let limit = |(name, limit_ns): &(&str, u64)| LatencyLimit {
            operation: Operation::new(*name).unwrap(),
            limit_ns: *limit_ns,
            allowed_ppm: 10_000,
        };
        limits.iter().map(limit).collect()
    }

    #[test]
    fn limits_that_there_cannot_be_are_refused_and_the_most_there_can_be_fit() {
        let mut got = confirmation(vec![(1, 2)]);
        let names: Vec<String> = (0..=CONFIRMED_LIMITS_MAX).map(|n| format!("{n:0>128}")).collect();
        let mut many = names.iter().map(|name| (name.as_str(), MAX_NS)).collect::<Vec<_>>();
        let forged = [
            limits(&[("a", 0)]),
            limits(&[("a", MAX_NS + 1)]),
            limits(&[("a", 1), ("b", 1), ("a", 1)]),
            limits(&[1, 2, 3, 4, 5].map(|ns| ("a", ns))),
            limits(&many),
        ];
        for forged in forged {
            got.limits = forged;
            let refused = Err(WireError::Bounds { field: "limits" });
            assert_eq!(decode(&node(), &encode(&got)), refused);
        }
        got.limits =
            vec![LatencyLimit { allowed_ppm: 1_000_001, ..limits(&[("a", 1)])[0].clone() }];
        assert!(decode(&node(), &encode(&got)).is_err(), "more than all samples");
        many.pop();
        got.limits = limits(&many);
        let spans: Vec<_> =
            (1..=CONFIRMED_SPANS_MAX as u64).map(|n| COUNT_MAX - 2 * n).map(Seq).collect();
        let spans: Vec<_> = spans.into_iter().rev().map(|seq| (seq, seq)).collect();
        let confirmed = |n| ConfirmedIncarnation {
            incarnation: Incarnation(u64::MAX - n),
            spans: spans.clone(),
        };
        got.incarnations = (0..CONFIRMED_INCARNATIONS_MAX as u64).map(confirmed).collect();
        got.urgent = urgent(CONFIRMED_URGENT_MAX + 1);
        let refused = Err(WireError::Bounds { field: "urgent" });
        assert_eq!(decode(&node(), &encode(&got)), refused);
        got.urgent.pop();
        assert_eq!(decode(&node(), &encode(&got)), Ok(got));
    }

    #[test]
    fn what_a_later_version_declares_costs_nothing_else() {
        let got = Confirmation { urgent: urgent(3), ..confirmation(vec![(1, 2)]) };
        let mut bytes = encode(&got);
        // Of the first its level, of the second the kind of its subject.
        let mut replace = |from: &[u8], to: &[u8]| {
            let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
            bytes[at..at + from.len()].copy_from_slice(to);
        };
        replace(b"critical", b"somewhen");
        replace(b"operation\xd9", b"processor\xd9");
        let read = decode(&node(), &bytes).unwrap();
        assert_eq!(read, Confirmation { urgent: urgent(3)[2..].to_vec(), ..got });
    }

    #[test]
    fn more_nodes_than_a_mesh_can_have_are_refused_and_no_number_takes_no_bytes() {
        let with = |mesh_nodes| Confirmation { mesh_nodes, ..confirmation(vec![(1, 2)]) };
        for nodes in [0, 1, MESH_NODES_MAX] {
            assert_eq!(decode(&node(), &encode(&with(nodes))), Ok(with(nodes)));
        }
        let refused = Err(WireError::Bounds { field: "mesh_nodes" });
        assert_eq!(decode(&node(), &encode(&with(MESH_NODES_MAX + 1))), refused);
        let key = b"mesh_nodes";
        let has_key = |bytes: &[u8]| bytes.windows(key.len()).any(|part| part == key);
        assert_eq!([0, 1].map(|nodes| has_key(&encode(&with(nodes)))), [false, true]);
    }

    #[test]
    fn a_confirmation_of_another_node_or_version_or_with_more_behind_it_is_refused() {
        let bytes = encode(&confirmation(vec![(1, 2)]));
        let other = NodeName::new("n2").unwrap();
        assert_eq!(decode(&other, &bytes).unwrap_err().reason(), "node");
        assert_eq!(decode(&node(), &[&bytes[..], &[0]].concat()), Err(WireError::Trailing(1)));
        let huge = vec![0; CONFIRMATION_BYTES_MAX + 1];
        assert_eq!(decode(&node(), &huge).unwrap_err().reason(), "too_large");
    }

    #[test]
    fn a_signed_confirmation_is_read_as_an_unsigned_one_and_no_part_of_it_can_change() {
        let key = ConfirmKey::from_hex(&"5a".repeat(32)).unwrap();
        let mesh = MeshName::new("m").unwrap();
        let aggregator = AggregatorName::new("a1").unwrap();
        let issue = Some(Issue { aggregator, at: Wall(1_700_000_000_000_000_000) });
        let got = Confirmation { issue, ..confirmation(vec![(1, 2)]) };
        let bytes = encode_signed(&got, &mesh, &key);
        assert_eq!(decode(&node(), &bytes), Ok(got.clone()));
        assert_eq!(key.verify(Purpose::Confirmation, &mesh, &bytes), Ok(()));
        assert_eq!(
            key.verify(Purpose::Confirmation, &mesh, &encode(&got)),
            Err(SignatureError::Unsigned)
        );
        let more = Confirmation { incarnations: confirmation(vec![(1, 3)]).incarnations, ..got };
        let signature = &bytes[bytes.len() - SIGNATURE_BYTES..];
        let mut forged = encode_signed(&more, &mesh, &key);
        let place = forged.len() - SIGNATURE_BYTES;
        forged[place..].copy_from_slice(signature);
        assert_eq!(key.verify(Purpose::Confirmation, &mesh, &forged), Err(SignatureError::Wrong));
    }

    proptest! {
        #[test]
        fn reading_undoes_writing_and_spans_mean_their_numbers(
            numbers in prop::collection::btree_set(1..90_u64, 0..50),
        ) {
            let mut spans: Vec<(u64, u64)> = Vec::new();
            for n in &numbers {
                match spans.last_mut() {
                    Some((_, last)) if *last + 1 == *n => *last = *n,
                    _ => spans.push((*n, *n)),
                }
            }
            let got = confirmation(spans);
            let read = decode(&node(), &encode(&got)).unwrap();
            prop_assert_eq!(&read, &got);
            let covered: BTreeSet<u64> =
                (1..100).filter(|n| read.incarnations[0].covers(Seq(*n))).collect();
            prop_assert_eq!(covered, numbers);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&node(), &bytes).is_err());
        }
    }
}
