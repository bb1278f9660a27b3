//! Shards beside one aggregator that reads everything: whatever dies, is taken over or comes again,
//! the aggregator above answers as that one does.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{Freshness, RollupRow};
use plimsoll_schemas::wire::confirmation::{Confirmation, ConfirmedIncarnation};
use proptest::sample::Index;

use super::*;
use crate::core::durable::shard::{
    KeptLabels, NewestReport, Shard, ShardIdentity, StoredShard, UnsentReport,
};
use crate::core::history::{BatchId, HistoryKey, StoredHistory};

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
const PARTITIONS: usize = 2;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A node sends this many samples of a latency, taken this many nanoseconds ago, and loses
    /// some.
    Send { node: usize, age: u64, value: u64, n: u64, lost: u64 },
    /// An earlier message is in its stream once more.
    Again(Index),
    /// This many nanoseconds pass.
    Pass(u64),
    /// A shard reads what its stream has, as far as this.
    Read(usize, Index),
    /// A shard reports once a second.
    Seal(usize),
    /// The broker takes a report of a shard; the shard learns of it or not.
    Take(usize, bool),
    /// The aggregator above confirms what the broker has of a shard.
    Confirm(usize),
    /// A shard writes a checkpoint.
    Store(usize),
    /// A shard dies and starts again from its latest checkpoint.
    Restart(usize),
    /// A shard dies and another process has its partition, with nothing but its streams.
    TakeOver(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let part = 0..PARTITIONS;
    let age = prop_oneof![3 => 0..900_000_000_u64, 1 => 0..100_000_000_000_u64];
    let send = (0..NODES.len(), age, 1..40_000_000_u64, 1..9_u64, 0..3_u64);
    let send =
        send.prop_map(|(node, age, value, n, lost)| Step::Send { node, age, value, n, lost });
    let step = prop_oneof![
        12 => send,
        2 => any::<Index>().prop_map(Step::Again),
        4 => (0..3_000_000_000_u64).prop_map(Step::Pass),
        8 => (part.clone(), any::<Index>()).prop_map(|(of, to)| Step::Read(of, to)),
        6 => part.clone().prop_map(Step::Seal),
        6 => (part.clone(), any::<bool>()).prop_map(|(of, learns)| Step::Take(of, learns)),
        3 => part.clone().prop_map(Step::Confirm),
        3 => part.clone().prop_map(Step::Store),
        2 => part.clone().prop_map(Step::Restart),
        2 => part.prop_map(Step::TakeOver),
    ];
    prop::collection::vec(step, 1..80)
}

fn rollups() -> [Definition; 2] {
    let by = |label: &str| vec![label.to_owned()];
    let racks =
        Definition { name: "racks".to_owned(), nodes_by: by("rack"), ..Definition::default() };
    [racks, Definition::of_label("role")]
}

fn fresh() -> Core {
    core().measuring(Window::OneHour, &rollups()).with_history(StoredHistory::default())
}

fn identity(partition: usize) -> ShardIdentity {
    let kept = KeptLabels::of(core().rules(), &rollups());
    let name = NodeName::new(format!("shard-{partition}")).unwrap();
    ShardIdentity { above: MeshName::new("m").unwrap(), name, kept }
}

/// A partition: its stream, the process that has it, and what the broker has of its reports.
struct Part {
    stream: Vec<(Wall, (String, Vec<u8>))>,
    core: Core,
    chain: Vec<Bytes>,
    /// What the latest checkpoint holds: records, how far was read.
    stored: Option<StoredRecords>,
    read: usize,
}

struct World {
    now: Now,
    speakers: Vec<Speaker>,
    all: Vec<(usize, (String, Vec<u8>))>,
    single: Core,
    parts: Vec<Part>,
}

impl Part {
    fn new(partition: usize, now: Now) -> Self {
        let core = fresh().reporting(Shard::resume(identity(partition), now.wall, None, None));
        Self { stream: Vec::new(), core: begun(core), chain: Vec::new(), stored: None, read: 0 }
    }

    fn newest(&self, partition: usize) -> Option<NewestReport> {
        let newest = self.chain.last()?;
        Some(NewestReport::read(&identity(partition), newest).unwrap())
    }

    fn read(&mut self, now: Now, upto: usize) {
        for place in self.read..upto.max(self.read) {
            let (at, (subject, payload)) = &self.stream[place];
            let message = Delivered {
                lane: Lane::Normal,
                stream_seq: place as u64 + 1,
                pending: 0,
                at: None,
                sent: None,
                subject: subject.clone(),
                payload: Bytes::copy_from_slice(payload),
            };
            let _merged = self.core.on_message(Now { wall: now.wall.max(*at), ..now }, &message);
            self.read = place + 1;
        }
    }

    fn take(&mut self, learns: bool) {
        let shard = self.core.shard_mut().unwrap();
        let Some(UnsentReport { seq, payload }) = shard.next_to_send() else { return };
        // The broker answers a message that it has already as one that it has.
        if self.chain.last() != Some(&payload) {
            self.chain.push(payload);
        }
        if learns {
            shard.on_sent(seq);
        }
    }

    fn start(&mut self, partition: usize, now: Now, checkpoint: Option<StoredRecords>) {
        let newest = self.newest(partition);
        let checkpoint = checkpoint.map(|records| records.read().unwrap());
        let stored: Option<StoredShard> = checkpoint.as_ref().and_then(|of| of.shard().cloned());
        let is_latest = stored.as_ref().is_some_and(|stored| stored.is_latest(newest.as_ref()));
        let core = match checkpoint.filter(|_| is_latest) {
            Some(checkpoint) => {
                let mesh = MeshName::new("m").unwrap();
                let rules = Rules::clone(core().rules());
                Core::restore(mesh, rules, now, checkpoint).measuring(Window::OneHour, &rollups())
            }
            None => fresh(),
        };
        let shard = Shard::resume(identity(partition), now.wall, newest, stored);
        self.core = begun(core.reporting(shard));
        self.read = usize::try_from(self.core.position(Lane::Normal).read).unwrap();
    }
}

fn begun(mut core: Core) -> Core {
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

impl World {
    fn new() -> Self {
        let labels = |n: usize| {
            let (rack, role) = (["r1", "r2"][n % 2], ["train", "serve", "idle"][n % 3]);
            Labels::new([("rack", rack), ("role", role), ("host", NODES[n])]).unwrap()
        };
        let speaker = |n: usize| Speaker::new(NODES[n]).called(labels(n));
        Self {
            now: start(),
            speakers: (0..NODES.len()).map(speaker).collect(),
            all: Vec::new(),
            single: fresh(),
            parts: (0..PARTITIONS).map(|n| Part::new(n, start())).collect(),
        }
    }

    fn store(&mut self, partition: usize, message: (String, Vec<u8>)) {
        deliver(&mut self.single, self.now, &message);
        self.parts[partition].stream.push((self.now.wall, message));
    }

    fn pass(&mut self, span: u64) {
        let span = Duration::from_nanos(span);
        self.now = Now { mono: self.now.mono.plus(span), wall: self.now.wall.plus(span) };
    }

    fn step(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Send { node, age, value, n, lost } => {
                let speaker = &mut self.speakers[*node];
                speaker.record(*lost);
                speaker.lose(*lost);
                let taken = now.wall.minus(Duration::from_nanos(*age)).minus(SECOND);
                let message = speaker.send_counted(Now { wall: taken, ..now }, *value, *n);
                self.all.push((*node % PARTITIONS, message.clone()));
                self.store(*node % PARTITIONS, message);
            }
            Step::Again(which) if !self.all.is_empty() => {
                let (partition, message) = which.get(&self.all).clone();
                self.store(partition, message);
            }
            Step::Again(_) => {}
            Step::Pass(span) => self.pass(*span),
            Step::Read(of, to) => {
                let part = &mut self.parts[*of];
                let upto = to.index(part.stream.len() + 1);
                part.read(now, upto);
            }
            Step::Seal(of) => self.parts[*of].core.shard_mut().unwrap().seal(now.wall),
            Step::Take(of, learns) => self.parts[*of].take(*learns),
            Step::Confirm(of) => self.confirm(*of),
            Step::Store(of) => {
                let part = &mut self.parts[*of];
                part.core.on_changes_lost();
                let mut stored = StoredRecords::default();
                stored.write(part.core.take_changes(now.wall).unwrap());
                part.stored = Some(stored);
            }
            Step::Restart(of) => {
                let stored = self.parts[*of].stored.clone();
                self.parts[*of].start(*of, now, stored);
            }
            Step::TakeOver(of) => {
                // No two begin at the same time.
                self.pass(1);
                self.parts[*of].start(*of, self.now, None);
            }
        }
    }

    fn confirm(&mut self, of: usize) {
        let part = &mut self.parts[of];
        let Some(newest) = part.newest(of) else { return };
        let shard = part.core.shard_mut().unwrap();
        if newest.incarnation == shard.incarnation {
            let confirmation = confirmation(shard, newest.seq);
            shard.on_confirmation(&confirmation);
        }
    }

    /// Everything is read, reported and merged above.
    fn settle(&mut self) -> Core {
        let mut above = fresh();
        for part in &mut self.parts {
            part.read(self.now, part.stream.len());
            part.core.shard_mut().unwrap().seal(self.now.wall);
            while part.core.shard_mut().unwrap().next_to_send().is_some() {
                part.take(true);
            }
        }
        // In any order, and some twice.
        let chains = self.parts.iter().enumerate().rev();
        let reports = chains.flat_map(|(of, part)| part.chain.iter().map(move |one| (of, one)));
        for (of, payload) in reports.clone().chain(reports.step_by(3)) {
            let subject = identity(of).subject().to_string();
            deliver(&mut above, self.now, &(subject, payload.to_vec()));
        }
        above
    }
}

/// What both must answer alike: every figure of the fleet and of groups, but for numbers of nodes.
fn answers(core: &Core, now: Now) -> (Vec<String>, Vec<String>) {
    let summary = core.view(now.wall, "test").summary;
    let of_fleet = summary.operations.iter().filter(|row| row.scope == Scope::Fleet);
    let figures = of_fleet.map(|row| {
        let windows: Vec<_> = row.windows.iter().map(|(of, row)| (of, &row.quantiles)).collect();
        format!("{} {:?} {windows:?}", row.operation, row.total)
    });
    // Above, samples are of the slots of reports: their times are known less finely.
    let timeless = |row| RollupRow { freshness: Freshness::default(), ..RollupRow::clone(row) };
    let groups = summary.rollups.iter().map(|row| format!("{:?}", timeless(row)));
    (figures.collect(), groups.collect())
}

/// By how much the counter grew in each slot, in the fleet and in each group of roll-ups.
fn grown(core: &Core) -> Vec<(String, Vec<(u64, f64)>)> {
    let keys = core.history.keys().into_iter();
    let keys: Vec<_> = keys.filter(|key| matches!(key, HistoryKey::Metric(_))).collect();
    let unstored = core.history.unstored(&keys, BatchId::default()).unwrap();
    let metrics = unstored.samples.metrics.iter();
    let sums = metrics.map(|(key, slots)| {
        let slots = slots.iter().map(|(slot, totals)| (*slot, totals.sum.value()));
        (key.pool.to_string(), slots.collect())
    });
    sums.collect()
}

fn sums(core: &Core) -> [u64; 4] {
    let rows = core.fleet.nodes().values().map(|node| node.account.ledger());
    rows.fold([0; 4], |[recorded, merged, lost, rest], ledger| {
        let gone: u64 = ledger.lost.values().sum();
        let left = ledger.held + ledger.unread + ledger.unaccounted;
        [recorded + ledger.recorded, merged + ledger.merged, lost + gone, rest + left]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn shards_with_one_above_answer_as_one_that_reads_everything(steps in steps()) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        let above = world.settle();
        prop_assert_eq!(answers(&above, world.now), answers(&world.single, world.now));
        prop_assert_eq!(grown(&above), grown(&world.single));
        let [recorded, merged, _, rest] = sums(&above);
        prop_assert_eq!(merged, sums(&world.single)[1]);
        prop_assert_eq!((recorded - sums(&above)[2], rest), (merged, 0));
    }
}

/// A confirmation of reports 1 to `newest` of a shard's incarnation.
fn confirmation(shard: &Shard, newest: u64) -> Confirmation {
    let spans = vec![(Seq(1), Seq(newest))];
    Confirmation {
        incarnations: vec![ConfirmedIncarnation { incarnation: shard.incarnation, spans }],
        ..Confirmation::of(shard.identity.name.clone())
    }
}

#[test]
fn a_shard_that_is_full_is_emptied_by_confirmations_of_what_was_sent_alone() {
    let mut shard = Shard::resume(identity(0), start().wall, None, None);
    while !shard.is_full() {
        shard.seal(start().wall);
    }
    let newest = shard.seq;
    let all = confirmation(&shard, newest);
    shard.on_confirmation(&all);
    assert!(shard.is_full(), "the broker has none of them");
    shard.on_sent(newest);
    assert!(shard.is_full() && !shard.has_confirmed(1), "none is stored above");
    let half = confirmation(&shard, newest / 2);
    shard.on_confirmation(&half);
    assert!(!shard.is_full() && shard.has_confirmed(newest / 2) && !shard.has_confirmed(newest));
    shard.on_lost(newest - 1);
    assert_eq!(shard.next_to_send().map(|report| report.seq), Some(newest));
    shard.on_sent(newest);
    shard.on_confirmation(&all);
    assert_eq!(shard.counts().unconfirmed, 0);
}

#[test]
fn a_report_is_closed_before_it_is_larger_than_a_message_may_be() {
    let mut core = fresh().reporting(Shard::resume(identity(0), start().wall, None, None));
    core = begun(core);
    // Wide histograms of many series, each with another role of its node.
    for n in 0..200_u64 {
        let role = format!("role-{n}");
        let mut speaker =
            Speaker::new("a").of(n + 1).called(Labels::new([("role", role)]).unwrap());
        let values = (0..1_500_u64).map(|at| 1_000 + at * at * 40);
        deliver(&mut core, start(), &speaker.send_all(start(), values));
    }
    let shard = core.shard_mut().unwrap();
    shard.seal(start().wall);
    let (mut reports, mut samples) = (0, 0);
    while let Some(UnsentReport { seq, payload }) = shard.next_to_send() {
        let report = wire::decode(&identity(0).subject(), &payload).unwrap();
        (reports, samples) = (reports + 1, samples + report.body.samples());
        shard.on_sent(seq);
    }
    assert!(reports > 1, "{reports}");
    assert_eq!(samples, 200 * 3 * 1_500);
}
