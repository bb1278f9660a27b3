//! The records of a batch, as named MessagePack. A draft is stored in the wire format, so that a
//! recovered draft passes the same checks as a message from the network.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use crate::limits::SPOOL_ENTRIES_MAX;
use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, LossReason, Seq};
use plimsoll_schemas::limits::wire::{COUNT_MAX, DEPTH_MAX, LOSS_REASONS_MAX};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{self, Header, Snapshot, Totals};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::incarnation::IncarnationState;
use crate::core::identity::Identity;
use crate::core::outbox::{Draft, DraftId, HeldDraft, MessageNonce, SealedMessage};

/// Approximate bytes of names and numbers around one snapshot.
pub(crate) const ENTRY_BYTES: usize = 48;
/// Approximate bytes of the state of one incarnation.
pub(crate) const INCARNATION_BYTES: usize = 96;
/// A draft has no incarnation yet, but the wire format requires one.
const NO_INCARNATION: Incarnation = Incarnation(1);

#[derive(Serialize, Deserialize)]
pub(crate) struct HeadRecord {
    pub(crate) mesh: String,
    pub(crate) node: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BatchRecord<'a> {
    #[serde(borrow, deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(crate) drafts: Vec<DraftRecord<'a>>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(crate) drafts_gone: Vec<u64>,
    #[serde(borrow, deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(crate) sealed: Vec<SealedRecord<'a>>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(crate) sealed_gone: Vec<(u64, u64)>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<IncarnationRecord>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs_gone: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DraftRecord<'a> {
    pub(crate) id: u64,
    lane: Lane,
    kind: SnapshotKind,
    pub(crate) samples: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    produced: u64,
    #[serde(borrow)]
    snapshot: &'a serde_bytes::Bytes,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SealedRecord<'a> {
    pub(crate) run: u64,
    pub(crate) seq: u64,
    at: Wall,
    subject: &'a str,
    pub(crate) samples: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    produced: u64,
    #[serde(borrow)]
    payload: &'a serde_bytes::Bytes,
    /// Absent before messages had one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "serde_bytes")]
    nonce: Option<[u8; 16]>,
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde needs")]
fn is_one(n: &u64) -> bool {
    *n == 1
}

#[derive(Serialize, Deserialize)]
pub(crate) struct IncarnationRecord {
    pub(crate) run: u64,
    newest: u64,
    recorded: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lost: BTreeMap<LossReason, u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    left: bool,
}

pub(crate) fn head(identity: &Identity, boot: Option<&str>) -> HeadRecord {
    let (mesh, node) = (identity.mesh.to_string(), identity.node.to_string());
    HeadRecord { mesh, node, boot: boot.map(str::to_owned) }
}

/// A draft in the wire format.
pub(crate) fn encode(identity: &Identity, id: DraftId, draft: &Draft) -> Vec<u8> {
    let header = Header {
        node: identity.node.clone(),
        incarnation: NO_INCARNATION,
        seq: Seq(id.0),
        start: draft.start,
        length_ns: draft.length_ns,
        totals: Totals { recorded: draft.samples(), lost: BTreeMap::new() },
        last: draft.last,
        successor: None,
        labels: draft.labels.clone(),
    };
    wire::encode_around(&header, draft.kind, &draft.body)
}

/// Parses one record; unknown fields are skipped.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(body);
    // Hostile bytes may nest lists without end, each level of which is one of the stack.
    reader.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut reader).map_err(|error| error.to_string())
}

/// Reads a list of at most as many entries as a node writes.
fn bounded<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {SPOOL_ENTRIES_MAX}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut read = Vec::new();
            while let Some(entry) = list.next_element()? {
                if read.len() == SPOOL_ENTRIES_MAX {
                    return Err(A::Error::custom(format_args!("more than {SPOOL_ENTRIES_MAX}")));
                }
                read.push(entry);
            }

            Ok(read)
        }
    }

    deserializer.deserialize_seq(Bounded(PhantomData))
}

impl BatchRecord<'_> {
    pub(crate) fn has_removals(&self) -> bool {
        !(self.drafts_gone.is_empty() && self.sealed_gone.is_empty() && self.runs_gone.is_empty())
    }
}

impl<'a> DraftRecord<'a> {
    /// The record of a draft, which is encoded in `snapshot`.
    pub(crate) fn new(held: &HeldDraft<'_>, snapshot: &'a [u8]) -> Self {
        let HeldDraft { id, lane, draft } = *held;
        Self {
            id: id.0,
            lane,
            kind: draft.kind,
            samples: draft.samples(),
            produced: draft.produced,
            snapshot: serde_bytes::Bytes::new(snapshot),
        }
    }

    /// The draft, or a description of what is wrong with it.
    pub(crate) fn read(&self, own: &Identity, now: Mono) -> Result<(Lane, Draft), String> {
        let (mesh, node) = (own.mesh.clone(), own.node.clone());
        let subject = SnapshotSubject { mesh, lane: self.lane, node, kind: self.kind };
        let Snapshot { header, body } =
            wire::decode(&subject, self.snapshot).map_err(|error| error.to_string())?;
        // Either may be damaged by itself, and a wrong count would unbalance the ledger for ever.
        if header.seq.0 != self.id || self.samples != body.samples() {
            return Err("the id or the samples of a draft differ from its snapshot".to_owned());
        }
        let draft = Draft::new(&body, header.start, header.length_ns, now).labelled(header.labels);
        let draft = draft.standing_for(self.produced.min(COUNT_MAX));
        Ok((self.lane, if header.last { draft.into_final() } else { draft }))
    }
}

impl<'a> SealedRecord<'a> {
    pub(crate) fn new(sealed: &'a SealedMessage) -> Self {
        Self {
            run: sealed.incarnation.0,
            seq: sealed.seq.0,
            at: sealed.sealed_at,
            subject: &sealed.subject,
            samples: sealed.samples,
            produced: sealed.produced,
            payload: serde_bytes::Bytes::new(&sealed.payload),
            nonce: (!sealed.nonce.is_none()).then_some(sealed.nonce.0),
        }
    }

    /// The message, or a description of what is wrong with it.
    pub(crate) fn read(&self, own: &Identity) -> Result<SealedMessage, String> {
        let subject: SnapshotSubject = self.subject.parse().map_err(|error| format!("{error}"))?;
        // The subject is used for sending as it is: a file from elsewhere must not speak for
        // another node.
        if subject.mesh != own.mesh || subject.node != own.node {
            return Err("the subject of a message belongs to another node".to_owned());
        }
        let Snapshot { header, body } =
            wire::decode(&subject, self.payload).map_err(|error| error.to_string())?;
        let key = (header.incarnation.0, header.seq.0);

        if key != (self.run, self.seq) || body.samples() != self.samples {
            return Err(
                "the number or the samples of a message differ from its snapshot".to_owned()
            );
        }

        Ok(SealedMessage {
            incarnation: header.incarnation,
            seq: header.seq,
            lane: subject.lane,
            subject: self.subject.to_owned(),
            payload: Bytes::copy_from_slice(self.payload),
            samples: self.samples,
            own_samples: body.own_samples(),
            produced: self.produced.min(COUNT_MAX),
            last: header.last,
            sealed_at: self.at,
            nonce: self.nonce.map(MessageNonce).unwrap_or_default(),
        })
    }
}

impl IncarnationRecord {
    pub(crate) fn new(state: &IncarnationState) -> Self {
        Self {
            run: state.incarnation.0,
            newest: state.newest.0,
            recorded: state.totals.recorded,
            lost: state.totals.lost.clone(),
            left: state.left,
        }
    }

    /// The state, unless it is inconsistent.
    pub(crate) fn read(self) -> Option<IncarnationState> {
        let totals = Totals { recorded: self.recorded, lost: self.lost };
        let counts = [self.newest, self.recorded];
        let sound = self.run > 0
            && counts.iter().all(|count| *count <= COUNT_MAX)
            && totals.lost.len() <= LOSS_REASONS_MAX
            && totals.lost_sum() <= totals.recorded;
        sound.then_some(IncarnationState {
            incarnation: Incarnation(self.run),
            newest: Seq(self.newest),
            totals,
            left: self.left,
        })
    }
}
