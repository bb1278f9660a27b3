//! One simulated node: its identity, its schedule, and its ledger.
//!
//! DESIGN D9.

use anyhow::Result;
use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, Labels, LossReason, MeshName, NodeName, Seq};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{Body, Bus, Hardware, Header, Snapshot, Totals, encode};

use super::body::{NodeProfile, Palette};
use super::queue::{Message, Queue};
use crate::sim::rng::Rng;

/// The reason under which a node counts what found no room in its connection's queue.
pub const OUTBOX_FULL: &str = "outbox_full";
/// The reason under which it counts what the broker will never take.
pub const REFUSED: &str = "refused";
/// Nodes with the same label `rack`.
const NODES_IN_A_RACK: u64 = 40;

/// What all nodes of a fleet have in common.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What everything is drawn from.
    pub seed: u64,
    /// Samples of each operation in an interval.
    pub samples: u64,
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// Bus and hardware messages go out once in so many intervals.
    pub other_rounds: u64,
    /// Intervals until the final report.
    pub rounds: u64,
    /// Whether the final report is a final message.
    pub leave: bool,
}

impl Load {
    /// What the names of all its nodes begin with.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("fleet-{}", self.seed)
    }

    /// When the probe's sample of one round is due: once an interval, at a random time, so that it
    /// does not synchronise with any other schedule. The first is due before any other node
    /// publishes: a flood of names must not take its operation's slot.
    #[must_use]
    pub fn probe_ns(&self, round: u64) -> u64 {
        let within = Rng::new(self.seed ^ round, 0).below(self.interval_ns);
        if round == 0 { 0 } else { round * self.interval_ns + within }
    }
}

/// A node and its ledger.
pub struct FleetNode {
    name: NodeName,
    labels: Labels,
    subjects: [String; 3],
    incarnation: Incarnation,
    profile: NodeProfile,
    rng: Rng,
    /// When its intervals end, from the beginning of the fleet.
    offset_ns: u64,
    /// In which of several intervals it sends its other messages.
    other_place: u64,
    round: u64,
    seq: u64,
    totals: Totals,
    ledger: NodeLedger,
}

/// A node's counts of its own samples and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLedger {
    /// Samples of intervals that have ended.
    pub recorded: u64,
    /// Of those, samples lost.
    pub lost: u64,
    /// Messages made.
    pub messages: u64,
    /// Messages that the broker has acknowledged.
    pub acknowledged: u64,
    /// Samples in those.
    pub acknowledged_samples: u64,
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
        (offset_ns, started): (u64, Wall),
    ) -> Result<Self> {
        let mut rng = Rng::new(load.seed, number + 1);
        let name = NodeName::new(format!("{}-{number:05}", load.prefix()))?;
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
            subjects: [SnapshotKind::Latency, SnapshotKind::Hardware, SnapshotKind::Bus]
                .map(subject),
            profile: profile(&mut rng),
            other_place: rng.below(load.other_rounds),
            rng,
            labels,
            name,
            incarnation: Incarnation(started.0.saturating_add(offset_ns).max(1)),
            offset_ns,
            round: 0,
            seq: 0,
            totals: Totals::default(),
            ledger: NodeLedger::default(),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// Its ledger.
    #[must_use]
    pub fn ledger(&self) -> NodeLedger {
        self.ledger
    }

    /// Its totals, as its next message would report them.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The number of its newest message.
    #[must_use]
    pub fn newest_seq(&self) -> u64 {
        self.seq
    }

    /// When its next interval ends, from the beginning of the fleet; `None` after its final report.
    #[must_use]
    pub fn due_ns(&self, load: &Load) -> Option<u64> {
        (self.round <= load.rounds).then(|| self.end_ns(load))
    }

    fn end_ns(&self, load: &Load) -> u64 {
        match self.profile {
            NodeProfile::Probe => load.probe_ns(self.round),
            NodeProfile::Job(_) | NodeProfile::Flood | NodeProfile::Wide => {
                self.offset_ns + (self.round + 1) * load.interval_ns
            }
        }
    }

    /// Where it publishes.
    #[must_use]
    pub fn subject(&self, kind: SnapshotKind) -> &str {
        let place = match kind {
            SnapshotKind::Latency | SnapshotKind::Event => 0,
            SnapshotKind::Hardware => 1,
            SnapshotKind::Bus => 2,
        };
        &self.subjects[place]
    }

    /// The message id, by which the broker recognises a duplicate, as of a real node.
    #[must_use]
    pub fn message_id(&self, seq: u64) -> String {
        format!("{}-{}-{seq}", self.name, self.incarnation)
    }

    /// Ends an interval: its messages go into `queue`. If a message does not fit, its samples are
    /// recorded as lost at once and no sequence number is used. The final report always fits.
    pub fn seal(
        &mut self,
        (load, palette, started): (&Load, &Palette, Wall),
        place: usize,
        queue: &mut Queue,
    ) {
        let due_ns = self.end_ns(load);
        let start = Wall(started.0.saturating_add(due_ns).saturating_sub(load.interval_ns));
        let round = self.round;
        self.round += 1;
        let is_last = round == load.rounds;
        if !is_last {
            if queue.has_room() {
                let (profile, rng) = (&self.profile, &mut self.rng);
                let latency = palette.latency(profile, rng, load.samples, round);
                queue.push(self.message(load, (start, due_ns), Body::Latency(latency), place));
            } else {
                let samples = self.profile.samples(load.samples);
                self.record(samples);
                self.lose(OUTBOX_FULL, samples);
            }
        }
        let is_turn = (round + self.other_place).is_multiple_of(load.other_rounds);
        if is_last || (is_turn && queue.has_room()) {
            let readings = palette.sensors(&mut self.rng);
            let hardware = Body::Hardware(Hardware { readings });
            queue.push(self.message(load, (start, due_ns), hardware, place));
            let bus = Body::Bus(self.bus());
            queue.push(self.message(load, (start, due_ns), bus, place));
        }
    }

    fn bus(&self) -> Bus {
        let NodeLedger { messages, acknowledged, .. } = self.ledger;
        let waiting = messages.saturating_sub(acknowledged);
        Bus {
            attempted: messages,
            published: acknowledged,
            outbox_depth: waiting,
            outbox_depth_max: waiting,
            ..Bus::default()
        }
    }

    /// The next message, numbered and accounted for.
    fn message(
        &mut self,
        load: &Load,
        (start, due_ns): (Wall, u64),
        body: Body,
        place: usize,
    ) -> Message {
        let (kind, samples) = (body.kind(), body.samples());
        self.seq += 1;
        self.ledger.messages += 1;
        self.record(samples);
        let header = Header {
            node: self.name.clone(),
            incarnation: self.incarnation,
            seq: Seq(self.seq),
            start,
            length_ns: load.interval_ns,
            totals: self.totals.clone(),
            last: load.leave && self.round > load.rounds && kind == SnapshotKind::Bus,
            successor: None,
            // As a real node does it: labels identify the source of the samples.
            labels: if samples > 0 { self.labels.clone() } else { Labels::default() },
        };
        let payload = Bytes::from(encode(&Snapshot { header, body }));
        Message { node: place, kind, seq: self.seq, samples, due_ns, payload }
    }

    fn record(&mut self, samples: u64) {
        self.totals.recorded += samples;
        self.ledger.recorded += samples;
    }

    /// Counts samples as lost for `reason`.
    pub fn lose(&mut self, reason: &'static str, samples: u64) {
        if samples > 0 {
            let reason = LossReason::new(reason).expect("a constant of letters and underscores");
            *self.totals.lost.entry(reason).or_default() += samples;
            self.ledger.lost += samples;
        }
    }

    /// The broker has acknowledged a message with this number of samples.
    pub fn on_acknowledged(&mut self, samples: u64) {
        self.ledger.acknowledged += 1;
        self.ledger.acknowledged_samples += samples;
    }
}

#[cfg(test)]
mod tests {
    use crate::fleet::limits::QUEUE_MESSAGES_MAX;
    use plimsoll_schemas::wire::decode;

    use super::*;

    const REGIME: Load = Load {
        seed: 3,
        samples: 20,
        interval_ns: 1_000_000_000,
        other_rounds: 4,
        rounds: 8,
        leave: true,
    };
    const STARTED: Wall = Wall(1_700_000_000_000_000_000);

    fn node(palette: &Palette) -> FleetNode {
        let mesh = MeshName::new("m").unwrap();
        let profile = |rng: &mut Rng| NodeProfile::job(rng, palette.tables());
        FleetNode::new(&mesh, &REGIME, 7, profile, (250_000_000, STARTED)).unwrap()
    }

    fn read(node: &FleetNode, message: &Message) -> Snapshot {
        let subject = node.subject(message.kind).parse().unwrap();
        decode(&subject, &message.payload).unwrap()
    }

    #[test]
    fn every_message_is_one_that_an_aggregator_reads_and_the_totals_add_up() {
        let palette = Palette::new().unwrap();
        let (mut node, mut queue) = (node(&palette), Queue::default());
        while node.due_ns(&REGIME).is_some() {
            node.seal((&REGIME, &palette, STARTED), 5, &mut queue);
        }
        let (mut recorded, mut kinds, mut seqs) = (0, [0; 3], Vec::new());
        let mut last = false;
        while let Some(message) = queue.pop() {
            let Snapshot { header, body } = read(&node, &message);
            recorded += body.samples();
            assert_eq!((header.totals.recorded, message.samples), (recorded, body.samples()));
            assert_eq!(header.start.0 + header.length_ns, STARTED.0 + message.due_ns);
            let rack = (message.kind == SnapshotKind::Latency).then_some("r000");
            assert_eq!(header.labels.get("rack"), rack);
            seqs.push(header.seq.0);
            kinds[SnapshotKind::ALL.iter().position(|kind| *kind == message.kind).unwrap()] += 1;
            last = header.last;
        }
        assert_eq!(seqs, (1..=node.newest_seq()).collect::<Vec<_>>());
        assert_eq!((recorded, kinds, last), (8 * 60, [8, 3, 3], true));
        assert_eq!(node.ledger().recorded, recorded);
    }

    #[test]
    fn intervals_end_at_the_nodes_own_phase_whenever_it_is_served() {
        let palette = Palette::new().unwrap();
        let (mut node, mut queue) = (node(&palette), Queue::default());
        for round in 1..=8 {
            assert_eq!(node.due_ns(&REGIME), Some(round * 1_000_000_000 + 250_000_000));
            node.seal((&REGIME, &palette, STARTED), 0, &mut queue);
        }
        node.seal((&REGIME, &palette, STARTED), 0, &mut queue);
        assert_eq!(node.due_ns(&REGIME), None);
    }

    #[test]
    fn what_finds_no_room_is_recorded_and_lost_and_uses_up_no_number() {
        let palette = Palette::new().unwrap();
        let (mut node, mut queue) = (node(&palette), Queue::default());
        node.seal((&REGIME, &palette, STARTED), 0, &mut queue);
        let first = queue.pop().unwrap();
        (0..QUEUE_MESSAGES_MAX).for_each(|_| queue.push(first.clone()));
        let numbers = node.newest_seq();
        node.seal((&REGIME, &palette, STARTED), 0, &mut queue);
        let NodeLedger { recorded, lost, .. } = node.ledger();
        assert_eq!((recorded, lost, node.newest_seq()), (120, 60, numbers));
        while queue.pop().is_some() {}
        node.seal((&REGIME, &palette, STARTED), 0, &mut queue);
        let totals = read(&node, &queue.pop().unwrap()).header.totals;
        assert_eq!((totals.recorded, totals.lost_sum()), (180, 60));
    }

    #[test]
    fn a_probe_sends_once_an_interval_at_no_fixed_phase() {
        let at: Vec<u64> = (0..50).map(|round| REGIME.probe_ns(round)).collect();
        assert!(at.is_sorted());
        let phases: Vec<u64> = at.iter().map(|ns| ns % REGIME.interval_ns).collect();
        let early = phases.iter().filter(|phase| **phase < REGIME.interval_ns / 2).count();
        assert!((10..40).contains(&early), "{phases:?}");
    }
}
