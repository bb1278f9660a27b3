//! A naive node: it holds things, and remembers what it held after each batch.

use bytes::Bytes;
use plimsoll_schemas::hardware::{LOAD1, Reading};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, LossReason, MeshName, NodeName, Operation, Series};
use plimsoll_schemas::subject::SnapshotSubject;
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{self, Body, Bus, Hardware, Header, Latency};
use proptest::prelude::*;

use super::*;
use crate::core::outbox::MessageNonce;
use crate::core::outbox::event_drafts;
use crate::core::spool::recovery::{RecoveredMessages, recover};

pub(crate) const NOW: Mono = Mono(77);
const INCARNATION: Incarnation = Incarnation(9);

/// Something that changes what is held. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Draft(u8, Vec<u64>),
    Hardware,
    Bus,
    Events(u64),
    FinalMessage,
    Merge(usize),
    Seal(usize),
    Release(usize),
    Interval,
    Fail,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_u8, prop::collection::vec(0..5_000_000_000_u64, 0..4))
            .prop_map(|(name, values)| Op::Draft(name, values)),
        1 => Just(Op::Hardware),
        1 => Just(Op::Bus),
        1 => (0..4_u64).prop_map(Op::Events),
        1 => Just(Op::FinalMessage),
        2 => (0..9_usize).prop_map(Op::Merge),
        4 => (0..9_usize).prop_map(Op::Seal),
        3 => (0..9_usize).prop_map(Op::Release),
        2 => Just(Op::Interval),
        1 => Just(Op::Fail),
    ]
}

pub(crate) fn identity() -> Identity {
    let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n").unwrap());
    Identity { mesh, node, labels: Labels::default() }
}

/// What matters of a draft.
type Essence = (Lane, Body, Wall, u64, bool, Labels);

/// What is held, in an order of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) drafts: Vec<Essence>,
    pub(crate) sealed: Vec<SealedMessage>,
    pub(crate) incarnations: Vec<IncarnationState>,
}

impl From<&RecoveredMessages> for Found {
    fn from(recovered: &RecoveredMessages) -> Self {
        Self {
            drafts: recovered.drafts.iter().map(essence).collect(),
            sealed: recovered.sealed.clone(),
            incarnations: recovered.incarnations.clone(),
        }
    }
}

impl Found {
    /// What a whole file holds.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let read = recover(bytes, &identity(), None, NOW).unwrap();
        assert_eq!((read.torn_bytes, read.uncertain_samples, &read.damaged), (0, 0, &None));
        Self::from(&read)
    }
}

fn essence((lane, draft): &(Lane, Draft)) -> Essence {
    (*lane, draft.decode().unwrap(), draft.start, draft.length_ns, draft.last, draft.labels.clone())
}

pub(crate) struct World {
    pub(crate) wal: Wal,
    pub(crate) drafts: BTreeMap<DraftId, (Lane, Draft)>,
    pub(crate) sealed: Vec<SealedMessage>,
    pub(crate) incarnations: Vec<IncarnationState>,
    pub(crate) file: Vec<u8>,
    /// Lengths of the present file at which it was whole, and what was held then.
    pub(crate) points: Vec<(usize, Found)>,
    /// Everything that was ever held.
    pub(crate) ever: Found,
    next_id: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let totals = Totals {
            recorded: 10,
            lost: BTreeMap::from([(LossReason::new("outbox_full").unwrap(), 3)]),
        };
        let own =
            IncarnationState { incarnation: INCARNATION, newest: Seq(0), totals, left: false };
        Self {
            wal: Wal::new(identity(), None),
            drafts: BTreeMap::new(),
            sealed: Vec::new(),
            incarnations: vec![own],
            file: Vec::new(),
            points: Vec::new(),
            ever: Found::default(),
            next_id: 1,
        }
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        self.wal.head.clone()
    }

    pub(crate) fn place(&self, share: f64) -> usize {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small length"
        )]
        let place = (self.file.len() as f64 * share) as usize;
        place
    }

    pub(crate) fn recover(&self) -> RecoveredMessages {
        recover(&self.file, &identity(), None, NOW).unwrap()
    }

    /// What a reader should find.
    pub(crate) fn held(&self) -> Found {
        let mut sealed = self.sealed.clone();
        sealed.sort_by_key(SealedMessage::key);
        let incarnations = self.incarnations.clone();
        Found { drafts: self.drafts.values().map(essence).collect(), sealed, incarnations }
    }

    pub(crate) fn batch(&mut self) -> Option<Batch> {
        let drafts = self.drafts.iter();
        let held = HeldMessages {
            drafts: drafts
                .map(|(id, (lane, draft))| HeldDraft { id: *id, lane: *lane, draft })
                .collect(),
            sealed: self.sealed.iter().collect(),
            incarnations: self.incarnations.clone(),
        };
        self.wal.next_batch(&held)
    }

    /// Changes something and writes what there is to write.
    pub(crate) fn step(&mut self, op: &Op) {
        self.change(op);
        self.write();
    }

    /// Writes what there is to write; true when the file was begun anew.
    pub(crate) fn write(&mut self) -> bool {
        let batch = self.batch();
        batch.is_some_and(|batch| self.put(&batch))
    }

    fn put(&mut self, batch: &Batch) -> bool {
        if batch.replaces {
            self.file.clear();
            self.points.clear();
        }
        self.file.extend(&batch.bytes);
        let held = self.held();
        self.ever.drafts.extend(held.drafts.iter().cloned());
        self.ever.sealed.extend(held.sealed.iter().cloned());
        self.points.push((self.file.len(), held));
        batch.replaces
    }

    pub(crate) fn change(&mut self, op: &Op) {
        match op {
            Op::Draft(name, values) => self.add(&latency(*name, values), false),
            Op::Hardware => {
                let labels = Labels::new([("core", "1")]).unwrap();
                let readings = vec![Reading::ok(&LOAD1, labels, 0.5)];
                self.add(&Body::Hardware(Hardware::all(readings)), false);
            }
            Op::Bus => self.add(&Body::Bus(bus()), false),
            Op::Events(n) => self.add(&event_drafts::draft(0..*n).decode().unwrap(), false),
            Op::FinalMessage => self.add(&Body::Bus(bus()), true),
            Op::Merge(n) => self.merge(*n),
            Op::Seal(n) => self.seal(*n),
            Op::Release(n) if self.sealed.is_empty() => assert!(*n < 9),
            Op::Release(n) => drop(self.sealed.remove(n % self.sealed.len())),
            Op::Interval => self.incarnations[0].totals.recorded += 1,
            Op::Fail => self.wal.on_failed(),
        }
    }

    fn add(&mut self, body: &Body, last: bool) {
        let id = DraftId(self.next_id);
        self.next_id += 1;
        let labels = labels(body);
        let draft = Draft::new(body, Wall(id.0 * 1_000), 500, NOW).labelled(labels);
        let draft = if last { draft.into_final() } else { draft };
        let lane = if id.0.is_multiple_of(3) { Lane::Emergency } else { Lane::Normal };
        self.drafts.insert(id, (lane, draft));
    }

    /// The chosen draft takes in the next one, and gets a new name.
    fn merge(&mut self, n: usize) {
        let ids: Vec<DraftId> = self.drafts.keys().copied().collect();
        let Some(pair) = ids.get(n..n + 2) else { return };
        let joined = Draft::join(&[&self.drafts[&pair[0]].1, &self.drafts[&pair[1]].1]);
        let Some(joined) = joined.and_then(|mut joined| joined.pop()) else { return };
        let (lane, mut draft) = (self.drafts.remove(&pair[0]).unwrap().0, joined);
        self.drafts.remove(&pair[1]);
        // The model's order is that of names, a reader's that of time.
        draft.start = Wall(self.next_id * 1_000);
        self.drafts.insert(DraftId(self.next_id), (lane, draft));
        self.next_id += 1;
    }

    fn seal(&mut self, n: usize) {
        let ids: Vec<DraftId> = self.drafts.keys().copied().collect();
        let Some(id) = ids.get(n) else { return };
        let (lane, draft) = self.drafts.remove(id).unwrap();
        let state = &mut self.incarnations[0];
        state.newest = Seq(state.newest.0 + 1);
        state.totals.recorded += draft.samples();
        self.sealed.push(sealed(lane, &draft, state));
    }
}

fn latency(name: u8, values: &[u64]) -> Body {
    let series = |name: String| Series::plain(Operation::new(name).unwrap());
    let mut histogram = Histogram::default();
    // Some come from a node that received limits, some from one that received none.
    histogram.watch(if name == 2 { &[18_000_000, 2_000_000_000] } else { &[] });
    values.iter().for_each(|value| histogram.record(*value));
    Body::Latency(Latency {
        histograms: vec![(series(format!("h{name}")), histogram)],
        counters: vec![(series("c".to_owned()), 0.1)],
        gauges: vec![(series("g".to_owned()), -3.5)],
    })
}

/// Some of a node that had labels, some of one before it had any.
fn labels(body: &Body) -> Labels {
    let Body::Latency(latency) = body else { return Labels::default() };
    match latency.histograms[0].0.operation.as_str() {
        "h1" => Labels::new([("rack", "r7"), ("role", "trainer")]).unwrap(),
        _ => Labels::default(),
    }
}

fn bus() -> Bus {
    let rejected = BTreeMap::from([(LossReason::new("syntax").unwrap(), 2)]);
    Bus { attempted: 5, breaker_state: Some(1), round_trip_ns: Some(9), rejected, ..Bus::default() }
}

/// A draft as the next message of an incarnation.
pub(crate) fn sealed(lane: Lane, draft: &Draft, state: &IncarnationState) -> SealedMessage {
    let Identity { mesh, node, .. } = identity();
    let header = Header {
        node: node.clone(),
        incarnation: state.incarnation,
        seq: state.newest,
        start: draft.start,
        length_ns: draft.length_ns,
        totals: state.totals.clone(),
        last: draft.last,
        successor: None,
        labels: draft.labels.clone(),
    };
    let subject = SnapshotSubject { mesh, lane, node, kind: draft.kind };
    let (samples, sealed_at) = (draft.samples(), draft.start);
    SealedMessage {
        incarnation: state.incarnation,
        seq: state.newest,
        lane,
        subject: subject.to_string(),
        payload: Bytes::from(wire::encode_around(&header, draft.kind, &draft.body)),
        samples,
        own_samples: draft.own_samples(),
        produced: draft.produced,
        last: draft.last,
        sealed_at,
        nonce: MessageNonce::default(),
    }
}
