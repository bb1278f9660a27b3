//! What one batch says, as named MessagePack. A draft stands in it in the form of the wire, so
//! that what comes back passes the same checks as a message from the network.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use crate::limits::SPOOL_ENTRIES_MAX;
use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, LossReason, Seq};
use plimsoll_schemas::limits::wire::{COUNT_MAX, DEPTH_MAX, LOSS_REASONS_MAX};
use plimsoll_schemas::subject::{Kind, Lane, SnapshotSubject};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{self, Header, Snapshot, Totals};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{DraftId, RunAccount, Running, Sealed};
use crate::core::Identity;
use crate::core::draft::Draft;

/// Bytes of names and numbers around one snapshot, roughly.
pub(super) const ENTRY_BYTES: usize = 48;
/// Bytes of one account, roughly.
pub(super) const RUN_BYTES: usize = 96;
/// A draft is of no incarnation yet, but the wire wants one.
const NO_RUN: Incarnation = Incarnation(1);

#[derive(Serialize, Deserialize)]
pub(super) struct HeadRecord {
    pub(super) mesh: String,
    pub(super) node: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) boot: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BatchRecord<'a> {
    #[serde(borrow, deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(super) drafts: Vec<DraftRecord<'a>>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(super) drafts_gone: Vec<u64>,
    #[serde(borrow, deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(super) sealed: Vec<SealedRecord<'a>>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(super) sealed_gone: Vec<(u64, u64)>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(super) runs: Vec<RunRecord>,
    #[serde(deserialize_with = "bounded", skip_serializing_if = "Vec::is_empty")]
    pub(super) runs_gone: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) running: Option<RunningRecord>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DraftRecord<'a> {
    pub(super) id: u64,
    lane: Lane,
    kind: Kind,
    pub(super) samples: u64,
    #[serde(borrow)]
    snapshot: &'a serde_bytes::Bytes,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SealedRecord<'a> {
    pub(super) run: u64,
    pub(super) seq: u64,
    at: Wall,
    subject: &'a str,
    pub(super) samples: u64,
    #[serde(borrow)]
    payload: &'a serde_bytes::Bytes,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RunRecord {
    pub(super) run: u64,
    newest: u64,
    recorded: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lost: BTreeMap<LossReason, u64>,
    intervals: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    left: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct RunningRecord {
    pub(super) run: u64,
    pub(super) interval: u64,
    pub(super) samples: u64,
}

pub(super) fn head(identity: &Identity, boot: Option<&str>) -> HeadRecord {
    let (mesh, node) = (identity.mesh.to_string(), identity.node.to_string());
    HeadRecord { mesh, node, boot: boot.map(str::to_owned) }
}

/// A draft in the form of the wire.
pub(super) fn encode(identity: &Identity, id: DraftId, draft: &Draft) -> Vec<u8> {
    let header = Header {
        node: identity.node.clone(),
        incarnation: NO_RUN,
        seq: Seq(id.0),
        start: draft.start,
        length_ns: draft.length_ns,
        totals: Totals { recorded: draft.samples(), lost: BTreeMap::new() },
        last: draft.last,
        heir: None,
        labels: draft.labels.clone(),
    };
    wire::encode(&Snapshot { header, body: draft.body.clone() })
}

/// Reads one record; fields that it does not know are skipped.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(body);
    reader.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut reader).map_err(|error| error.to_string())
}

/// Reads a list that no node makes longer than this.
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
    pub(super) fn says_of_something_gone(&self) -> bool {
        !(self.drafts_gone.is_empty() && self.sealed_gone.is_empty() && self.runs_gone.is_empty())
    }
}

impl<'a> DraftRecord<'a> {
    pub(super) fn new((id, lane, draft, snapshot): &'a (DraftId, Lane, &Draft, Vec<u8>)) -> Self {
        Self {
            id: id.0,
            lane: *lane,
            kind: draft.body.kind(),
            samples: draft.samples(),
            snapshot: serde_bytes::Bytes::new(snapshot),
        }
    }

    /// The draft; an error says what is wrong with it.
    pub(super) fn read(&self, own: &Identity, now: Mono) -> Result<(Lane, Draft), String> {
        let (mesh, node) = (own.mesh.clone(), own.node.clone());
        let subject = SnapshotSubject { mesh, lane: self.lane, node, kind: self.kind };
        let Snapshot { header, body } =
            wire::decode(&subject, self.snapshot).map_err(|error| error.to_string())?;
        if header.seq.0 != self.id || self.samples != body.samples() {
            return Err("a draft's name or samples contradict it".to_owned());
        }
        let draft = Draft::new(body, header.start, header.length_ns, now).labelled(header.labels);
        Ok((self.lane, if header.last { draft.farewell() } else { draft }))
    }
}

impl<'a> SealedRecord<'a> {
    pub(super) fn new(sealed: &'a Sealed) -> Self {
        Self {
            run: sealed.incarnation.0,
            seq: sealed.seq.0,
            at: sealed.sealed_at,
            subject: &sealed.subject,
            samples: sealed.samples,
            payload: serde_bytes::Bytes::new(&sealed.payload),
        }
    }

    /// The message; an error says what is wrong with it.
    pub(super) fn read(&self, own: &Identity) -> Result<Sealed, String> {
        let subject: SnapshotSubject = self.subject.parse().map_err(|error| format!("{error}"))?;
        if subject.mesh != own.mesh || subject.node != own.node {
            return Err("a message stands under a foreign subject".to_owned());
        }
        let Snapshot { header, body } =
            wire::decode(&subject, self.payload).map_err(|error| error.to_string())?;
        let key = (header.incarnation.0, header.seq.0);
        if key != (self.run, self.seq) || body.samples() != self.samples {
            return Err("a message's number or samples contradict it".to_owned());
        }
        Ok(Sealed {
            incarnation: header.incarnation,
            seq: header.seq,
            lane: subject.lane,
            subject: self.subject.to_owned(),
            payload: Bytes::copy_from_slice(self.payload),
            samples: self.samples,
            last: header.last,
            sealed_at: self.at,
        })
    }
}

impl RunRecord {
    pub(super) fn new(run: &RunAccount) -> Self {
        Self {
            run: run.incarnation.0,
            newest: run.newest.0,
            recorded: run.totals.recorded,
            lost: run.totals.lost.clone(),
            intervals: run.intervals,
            left: run.left,
        }
    }

    /// The account, unless it contradicts itself.
    pub(super) fn read(self) -> Option<RunAccount> {
        let totals = Totals { recorded: self.recorded, lost: self.lost };
        let counts = [self.newest, self.recorded, self.intervals];
        let sound = self.run > 0
            && counts.iter().all(|count| *count <= COUNT_MAX)
            && totals.lost.len() <= LOSS_REASONS_MAX
            && totals.lost_sum() <= totals.recorded;
        sound.then_some(RunAccount {
            incarnation: Incarnation(self.run),
            newest: Seq(self.newest),
            totals,
            intervals: self.intervals,
            left: self.left,
        })
    }
}

impl From<Running> for RunningRecord {
    fn from(running: Running) -> Self {
        let Running { incarnation, interval, samples } = running;
        Self { run: incarnation.0, interval, samples }
    }
}
