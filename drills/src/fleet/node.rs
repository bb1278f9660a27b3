//! One simulated node: its identity, its schedule, and its ledger.
//!
//! DESIGN D9.

use anyhow::Result;
use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{
    Body, BreakerState, Bus, Header, Interval, Latency, Snapshot, encode,
};

use super::body::{NodeProfile, Palette};
use super::incarnation::NodeIncarnation;
use super::load::Load;
use super::queue::{Message, Queue};
use crate::sim::rng::Rng;

/// The reason under which a node counts what found no room in its connection's queue.
pub const OUTBOX_FULL: &str = "outbox_full";
/// The reason under which it counts what the broker will never take.
pub const REFUSED: &str = "refused";
/// Nodes with the same label `rack`.
const NODES_IN_A_RACK: u64 = 40;
/// Parts of an interval's message: latencies, readings, and the report of the bus.
const PARTS: u64 = 3;
/// A usual round trip within a data centre.
const ROUND_TRIP_NS: u64 = 300_000;

/// A node and its ledger.
pub struct FleetNode {
    name: NodeName,
    labels: Labels,
    /// Of the messages of intervals, and of the final report.
    subjects: [String; 2],
    load: Load,
    profile: NodeProfile,
    rng: Rng,
    /// When its intervals end, from the beginning of the fleet.
    offset_ns: u64,
    round: u64,
    ledger: NodeLedger,
    incarnation: NodeIncarnation,
    /// The incarnation before a restart.
    former: Option<Box<NodeIncarnation>>,
}

/// A node's counts of its own samples, in all its incarnations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLedger {
    /// Samples of intervals that have ended.
    pub recorded: u64,
    /// Of those, samples lost.
    pub lost: u64,
}

impl FleetNode {
    /// Node number `number` of the fleet with this seed; its first interval begins `offset_ns`
    /// after the fleet, which begins at `started` on the node's clock.
    ///
    /// # Errors
    /// When the seed makes no name.
    pub fn new(
        mesh: &MeshName,
        load: &Load,
        number: u64,
        profile: impl FnOnce(&mut Rng) -> NodeProfile,
        offset_ns: u64,
        started: Wall,
    ) -> Result<Self> {
        let mut rng = Rng::new(load.seed, number + 1);
        let name = load.node_name(number)?;

        let labels = Labels::new([
            ("rack", format!("r{:03}", number / NODES_IN_A_RACK)),
            ("role", if number.is_multiple_of(4) { "serve" } else { "train" }.to_owned()),
            ("version", if rng.chance(50) { "1.1.0" } else { "1.0.0" }.to_owned()),
        ])?;

        let subject = |kind| {
            let (mesh, node) = (mesh.clone(), name.clone());
            SnapshotSubject { mesh, lane: Lane::Normal, node, kind }.to_string()
        };

        Ok(Self {
            subjects: [SnapshotKind::Interval, SnapshotKind::Bus].map(subject),
            profile: profile(&mut rng),
            rng,
            labels,
            name,
            load: *load,
            offset_ns,
            round: 0,
            ledger: NodeLedger::default(),
            incarnation: NodeIncarnation::begin(Wall(started.0.saturating_add(offset_ns))),
            former: None,
        })
    }

    pub fn name(&self) -> &NodeName {
        &self.name
    }

    pub fn ledger(&self) -> NodeLedger {
        self.ledger
    }

    /// Its incarnations that have made a message.
    pub fn incarnations(&self) -> impl Iterator<Item = &NodeIncarnation> {
        self.former
            .as_deref()
            .into_iter()
            .chain([&self.incarnation])
            .filter(|incarnation| incarnation.seq > 0)
    }

    /// When its next interval ends, from the beginning of the fleet; `None` after its final report.
    pub fn due_ns(&self) -> Option<u64> {
        (self.round <= self.load.rounds).then(|| self.end_ns())
    }

    fn end_ns(&self) -> u64 {
        match self.profile {
            NodeProfile::Probe => self.load.probe_ns(self.round),
            NodeProfile::Job(_) | NodeProfile::Flood | NodeProfile::Wide => {
                self.offset_ns + (self.round + 1) * self.load.interval_ns
            }
        }
    }

    pub fn subject(&self, kind: SnapshotKind) -> &str {
        let place = usize::from(kind == SnapshotKind::Bus);
        &self.subjects[place]
    }

    /// The message id, by which the broker recognises a duplicate, as of a real node.
    pub fn message_id(&self, message: &Message) -> String {
        format!("{}-{}-{}", self.name, message.incarnation, message.seq)
    }

    /// Ends an interval: its message goes into `queue`. If it does not fit, its samples are
    /// recorded as lost at once and no sequence number is used. The final report always fits.
    pub fn seal(&mut self, palette: &Palette, started: Wall, place: usize, queue: &mut Queue) {
        let due_ns = self.end_ns();
        let start = Wall(started.0.saturating_add(due_ns).saturating_sub(self.load.interval_ns));
        self.restart_if_due(start, due_ns);
        let round = self.round;
        self.round += 1;

        if round == self.load.rounds {
            let bus = Body::Bus(self.bus());
            queue.push(self.message(start, due_ns, bus, place));
        } else if queue.has_room() {
            let latency = self.latency(palette, due_ns, round);
            let readings = palette.sensors(&mut self.rng);

            let body = Body::Interval(Interval {
                latency: Some(latency),
                hardware: Some(self.incarnation.sent_readings.next(Mono(due_ns), readings)),
                bus: Some(self.bus()),
                event: None,
            });

            queue.push(self.message(start, due_ns, body, place));
        } else {
            let samples = match self.is_largest(due_ns) {
                true => palette.largest().samples(),
                false => self.profile.samples(self.load.samples_in(round)),
            };
            self.record(samples);
            self.lose(OUTBOX_FULL, samples);
        }
    }

    /// Begins a new incarnation with the interval that begins at `start`. Messages of the former
    /// one that wait are still sent, as out of a spool.
    fn restart_if_due(&mut self, start: Wall, due_ns: u64) {
        let has_begun = self.round > 0;
        if self.load.restart_at_ns.take_if(|at| has_begun && *at < due_ns).is_some() {
            let former = std::mem::replace(&mut self.incarnation, NodeIncarnation::begin(start));
            self.former = Some(Box::new(former));
        }
    }

    fn is_largest(&self, due_ns: u64) -> bool {
        let interval = due_ns.saturating_sub(self.load.interval_ns)..due_ns;
        self.load.largest_at_ns.is_some_and(|at| interval.contains(&at))
    }

    fn latency(&mut self, palette: &Palette, due_ns: u64, round: u64) -> Latency {
        if self.is_largest(due_ns) {
            return palette.largest().clone();
        }
        let samples = self.load.samples_in(round);
        palette.latency(&self.profile, &mut self.rng, samples, round)
    }

    /// As a real node reports it, whose numbers are all there after a while.
    fn bus(&self) -> Bus {
        let (messages, acknowledged) = (self.incarnation.seq, self.incarnation.acknowledged);
        let waiting = messages.saturating_sub(acknowledged);

        Bus {
            attempted: PARTS * messages,
            published: acknowledged,
            combined: (PARTS - 1) * messages,
            outbox_messages: waiting,
            outbox_depth: waiting,
            outbox_depth_max: waiting,
            round_trip_ns: Some(ROUND_TRIP_NS),
            breaker_state: Some(BreakerState::Closed.as_number()),
            recorded: self.incarnation.totals.recorded,
            spooled: Some(true),
            spool_durable: Some(true),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Bus::default()
        }
    }

    /// The next message, numbered and accounted for.
    fn message(&mut self, start: Wall, due_ns: u64, body: Body, place: usize) -> Message {
        let (kind, samples) = (body.kind(), body.samples());
        self.incarnation.seq += 1;
        self.record(samples);

        let header = Header {
            node: self.name.clone(),
            incarnation: self.incarnation.name,
            seq: Seq(self.incarnation.seq),
            start,
            length_ns: self.load.interval_ns,
            totals: self.incarnation.totals.clone(),
            last: self.load.leave && self.round > self.load.rounds,
            successor: None,
            // As a real node does it: labels identify the source of the samples.
            labels: if samples > 0 { self.labels.clone() } else { Labels::default() },
        };

        let payload = Bytes::from(encode(&Snapshot { header, body }));
        let NodeIncarnation { name: incarnation, seq, .. } = self.incarnation;
        Message { node: place, kind, incarnation, seq, samples, due_ns, payload }
    }

    fn record(&mut self, samples: u64) {
        self.incarnation.totals.recorded += samples;
        self.ledger.recorded += samples;
    }

    /// Counts samples as lost for `reason`.
    pub fn lose(&mut self, reason: &'static str, samples: u64) {
        if samples > 0 {
            self.incarnation.lose(reason, samples);
            self.ledger.lost += samples;
        }
    }

    /// The broker has acknowledged a message of this incarnation.
    pub fn on_acknowledged(&mut self, incarnation: Incarnation) {
        self.incarnation.acknowledged += u64::from(incarnation == self.incarnation.name);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::fleet::limits::QUEUE_MESSAGES_MAX;
    use crate::fleet::load::tests::LOAD;
    use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
    use plimsoll_schemas::wire::decode;

    use super::*;

    const STARTED: Wall = Wall(1_700_000_000_000_000_000);

    fn node(palette: &Palette) -> FleetNode {
        node_with(&LOAD, palette)
    }

    fn node_with(load: &Load, palette: &Palette) -> FleetNode {
        let mesh = MeshName::new("m").unwrap();
        let profile = |rng: &mut Rng| NodeProfile::job(rng, palette.tables());
        FleetNode::new(&mesh, load, 7, profile, 250_000_000, STARTED).unwrap()
    }

    /// Node 7 with this load after its final report, and what it has sent.
    fn sent(load: &Load, palette: &Palette) -> (FleetNode, Vec<Message>) {
        let (mut node, mut queue) = (node_with(load, palette), Queue::default());
        while node.due_ns().is_some() {
            node.seal(palette, STARTED, 5, &mut queue);
        }
        (node, std::iter::from_fn(|| queue.pop()).collect())
    }

    fn read(node: &FleetNode, message: &Message) -> Snapshot {
        let subject = node.subject(message.kind).parse().unwrap();
        decode(&subject, &message.payload).unwrap()
    }

    #[test]
    fn every_message_is_one_that_an_aggregator_reads_and_the_totals_add_up() {
        let (node, sent) = sent(&LOAD, &Palette::new().unwrap());
        let (mut recorded, mut kinds, mut seqs) = (0, BTreeMap::new(), Vec::new());
        let mut last = false;
        for message in &sent {
            let Snapshot { header, body } = read(&node, message);
            recorded += body.samples();
            assert_eq!((header.totals.recorded, message.samples), (recorded, body.samples()));
            assert_eq!(header.start.0 + header.length_ns, STARTED.0 + message.due_ns);
            let rack = (message.kind == SnapshotKind::Interval).then_some("r000");
            assert_eq!(header.labels.get("rack"), rack);
            seqs.push(header.seq.0);
            *kinds.entry(message.kind.as_str()).or_default() += 1;
            last = header.last;
        }
        assert_eq!(seqs, (1..=node.incarnation.seq).collect::<Vec<_>>());
        let expected = BTreeMap::from([("interval", 8), ("bus", 1)]);
        assert_eq!((recorded, kinds, last), (8 * 60, expected, true));
        assert_eq!(node.ledger().recorded, recorded);
    }

    #[test]
    fn intervals_end_at_the_nodes_own_phase_whenever_it_is_served() {
        let palette = Palette::new().unwrap();
        let (mut node, mut queue) = (node(&palette), Queue::default());
        for round in 1..=8 {
            assert_eq!(node.due_ns(), Some(round * 1_000_000_000 + 250_000_000));
            node.seal(&palette, STARTED, 0, &mut queue);
        }
        node.seal(&palette, STARTED, 0, &mut queue);
        assert_eq!(node.due_ns(), None);
    }

    #[test]
    fn what_finds_no_room_is_recorded_and_lost_and_uses_up_no_number() {
        let palette = Palette::new().unwrap();
        let (mut node, mut queue) = (node(&palette), Queue::default());
        node.seal(&palette, STARTED, 0, &mut queue);
        let first = queue.pop().unwrap();
        (0..QUEUE_MESSAGES_MAX).for_each(|_| queue.push(first.clone()));
        let numbers = node.incarnation.seq;
        node.seal(&palette, STARTED, 0, &mut queue);
        let NodeLedger { recorded, lost } = node.ledger();
        assert_eq!((recorded, lost, node.incarnation.seq), (120, 60, numbers));
        while queue.pop().is_some() {}
        node.seal(&palette, STARTED, 0, &mut queue);
        let totals = read(&node, &queue.pop().unwrap()).header.totals;
        assert_eq!((totals.recorded, totals.lost_sum()), (180, 60));
    }

    #[test]
    fn a_restarted_node_numbers_and_counts_anew_and_its_ledger_has_both_incarnations() {
        let load = Load { restart_at_ns: Some(3_000_000_000), ..LOAD };
        let (node, sent) = sent(&load, &Palette::new().unwrap());
        let headers: Vec<Header> = sent.iter().map(|one| read(&node, one).header).collect();
        let seqs: Vec<u64> = headers.iter().map(|header| header.seq.0).collect();
        assert_eq!(seqs, [1, 2, 1, 2, 3, 4, 5, 6, 7], "the third interval has 3 s in it");
        let recorded: Vec<u64> = headers.iter().map(|header| header.totals.recorded).collect();
        assert_eq!(recorded, [60, 120, 60, 120, 180, 240, 300, 360, 360]);
        assert!(headers.iter().all(|header| header.successor.is_none()));
        assert_eq!(headers[2].incarnation.0, headers[2].start.0, "it begins with the interval");
        let finals: Vec<bool> = headers.iter().map(|header| header.last).collect();
        assert_eq!(finals.iter().position(|last| *last), Some(8));
        let ids: std::collections::BTreeSet<String> =
            sent.iter().map(|one| node.message_id(one)).collect();
        assert_eq!(ids.len(), 9, "each message has an id of its own");
        for first in [0, 2] {
            let Body::Interval(Interval { hardware: Some(sensors), .. }) =
                read(&node, &sent[first]).body
            else {
                panic!("an interval has readings");
            };
            assert_eq!((sensors.set, sensors.readings.is_empty()), (1, false), "a full set");
        }
        assert_eq!(
            node.incarnations().map(|incarnation| incarnation.seq).collect::<Vec<_>>(),
            [2, 7]
        );
        assert_eq!(node.ledger(), NodeLedger { recorded: 480, lost: 0 });
    }

    #[test]
    fn the_first_interval_may_hold_the_samples_of_hours() {
        let load = Load { first_samples: 5_000, ..LOAD };
        let (node, sent) = sent(&load, &Palette::new().unwrap());
        let samples: Vec<u64> = sent.iter().map(|one| one.samples).collect();
        assert_eq!(samples[..3], [15_000, 60, 60]);
        assert_eq!(node.ledger().recorded, samples.iter().sum::<u64>());
    }

    #[test]
    fn one_interval_is_a_message_of_the_largest_size() {
        let palette = Palette::new().unwrap();
        let load = Load { largest_at_ns: Some(3_000_000_000), ..LOAD };
        let (node, sent) = sent(&load, &palette);
        let large = |one: &&Message| one.payload.len() > MESSAGE_BYTES_MAX * 9 / 10;
        assert_eq!(sent.iter().filter(large).map(|one| one.seq).collect::<Vec<_>>(), [3]);
        assert!(sent[2].payload.len() <= MESSAGE_BYTES_MAX, "{}", sent[2].payload.len());
        assert_eq!(node.ledger().recorded, 7 * 60 + palette.largest().samples());
        assert_eq!(read(&node, &sent[2]).body.samples(), palette.largest().samples());
    }
}
