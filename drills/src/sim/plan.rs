//! One run's plan, drawn from its seed before the run: the mesh, its bounds, and a list of steps
//! that can be shortened. Each seed enables some kinds of faults and leaves out the rest, because a
//! run with all of them at once reaches no deep state of any.

use std::time::Duration;

use super::act::{Act, Crash, End, Lie, Who};
use super::rng::Rng;
use super::schedule::{MILLISECOND, SECOND, Time};
use plimsoll_node::limits::{
    COALESCE_MESSAGES, EMERGENCY_BURST, EMERGENCY_PER_MINUTE, EMERGENCY_RESERVED, OUTBOX_BYTES_MAX,
    OUTBOX_MESSAGES_MAX, RECOVER_MESSAGES, UNCONFIRMED_MESSAGES_MAX,
};
use plimsoll_schemas::limits::delivery::REROUTE_MESSAGES;
use plimsoll_schemas::subject::Lane;

/// One step and when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub at: Time,
    pub act: Act,
}

/// What stays the same during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub nodes: usize,
    pub readers: Readers,
    /// Length of a node's interval.
    pub interval: Duration,
    /// The bounds of the nodes' outboxes.
    pub depths: Depths,
    /// Shortest and longest way of a packet.
    pub delay: (Time, Time),
    /// Shortest time between two messages that the aggregator reads.
    pub reading: Time,
    /// Time between two syncs of the broker.
    pub sync_every: Time,
    /// Time between two checkpoints, and for writing one at most.
    pub checkpoint: (Time, Time),
    /// Whether nodes have a spool, and whether it is synced.
    pub spool: Spooling,
    /// Longest time for writing into a spool.
    pub spool_write: Time,
    /// Bytes of a message that the broker takes at most.
    pub payload_max: usize,
    /// How far clocks drift, at most, in millionths.
    pub drift_ppm: u64,
    /// Whether the run begins with an outage that lasts until outboxes reach the depths that a node
    /// has by default.
    pub has_outage: bool,
    /// Whether the rules declare all operations critical.
    pub declares: bool,
}

/// Depths of an outbox: those of a node by default, or small enough for a short run to reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depths {
    /// From this depth on readings are dropped.
    pub drop: u64,
    /// From this depth on the newest messages are sent on the emergency lane.
    pub reroute: u64,
    /// At this depth both end.
    pub leave: u64,
    /// Bytes that there is room for.
    pub bytes: usize,
    /// Above this many messages drafts are merged.
    pub coalesce: usize,
    /// Tokens a minute, tokens at once, and tokens reserved for critical messages.
    pub tokens: (u32, u32, u32),
    /// Copies stored until an aggregator confirms them.
    pub unconfirmed: usize,
}

impl Depths {
    /// Bounds that bring one part of the outbox or another within reach.
    pub fn draw(rng: &mut Rng) -> Self {
        let (drop, reroute, leave) = rng.one_of([(24, 10, 4), (48, 24, 8), (16, 12, 6)]);
        let coalesce = rng.one_of([3, 5, 1_000]);
        let tokens = rng.one_of([(120, 20, 5), (60, 4, 2), (20, 3, 1)]);
        let unconfirmed = rng.one_of([12, 40, 1_024]);
        let bytes = rng.one_of([3 << 10, 16 << 10, OUTBOX_BYTES_MAX, OUTBOX_BYTES_MAX]);
        match rng.within(0..=2) {
            0 => Self::by_default(),
            _ => Self { drop, reroute, leave, bytes, coalesce, tokens, unconfirmed },
        }
    }

    /// Those of a node.
    pub fn by_default() -> Self {
        Self {
            drop: OUTBOX_MESSAGES_MAX as u64,
            reroute: REROUTE_MESSAGES as u64,
            leave: RECOVER_MESSAGES as u64,
            bytes: OUTBOX_BYTES_MAX,
            coalesce: COALESCE_MESSAGES,
            tokens: (EMERGENCY_PER_MINUTE, EMERGENCY_BURST, EMERGENCY_RESERVED),
            unconfirmed: UNCONFIRMED_MESSAGES_MAX,
        }
    }
}

/// Which aggregators there are. Each reads all streams, and nodes accept the confirmations of any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// One, with a store.
    One,
    /// Two, each with a store of its own.
    Two,
    /// One with a store, and one that holds everything in memory.
    OneAndStateless,
}

impl Readers {
    pub fn count(self) -> usize {
        if self == Self::One { 1 } else { 2 }
    }
}

/// How nodes store the messages that they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spooling {
    Off,
    /// On the disk, synced.
    Synced,
    /// On the disk, written back when the kernel chooses.
    Unsynced,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The source of all random draws.
    pub seed: u64,
    pub knobs: Knobs,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Times that one node ends. An aggregator remembers a node's latest incarnations only, and
/// what comes of one before them is by design merged no more.
const LIVES_MAX: usize = 8;

/// Of a thousand seeds, those with a long outage.
const OUTAGES_PERMILLE: u64 = 5;
/// A node holds three messages of each second: it reroutes after 22 minutes and drops after 44.
const OUTAGE_MIN: Time = 20 * 60 * SECOND;
const OUTAGE_MAX: Time = 55 * 60 * SECOND;
/// Mean time between two steps, of which two hundred then outlast every outage.
const OUTAGE_GAP: Time = 18 * SECOND;

/// Kinds of faults; a swarm turns each on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Break,
    Partition,
    Slow,
    Stall,
    Restart(Crash),
    Full,
    LoseAcks,
    Remake,
    EndNode(End),
    EndAggregator(End),
    Jump,
    DiskFull,
    Jam,
    Forge,
    Delay,
    RollBack,
    Away,
    Pause,
}

const FAULTS: [Fault; 24] = [
    Fault::Break,
    Fault::Partition,
    Fault::Slow,
    Fault::Stall,
    Fault::Restart(Crash::Kill),
    Fault::Restart(Crash::PowerCut),
    Fault::Restart(Crash::Holes),
    Fault::Restart(Crash::Wiped),
    Fault::Full,
    Fault::LoseAcks,
    Fault::Remake,
    Fault::EndNode(End::Terminated),
    Fault::EndNode(End::Killed),
    Fault::EndNode(End::PowerCut),
    Fault::EndAggregator(End::Terminated),
    Fault::EndAggregator(End::Killed),
    Fault::EndAggregator(End::PowerCut),
    Fault::Jump,
    Fault::DiskFull,
    Fault::Jam,
    Fault::Forge,
    Fault::Delay,
    Fault::RollBack,
    Fault::Away,
];

impl Plan {
    /// The plan of a seed with this many steps.
    pub fn draw(seed: u64, steps: usize) -> Self {
        let mut rng = Rng::new(seed, 1);
        // Not drawn, so that every other draw of a seed stays what it was.
        let knobs = Knobs { declares: seed.is_multiple_of(3), ..Knobs::draw(&mut rng) };
        let mut swarm: Vec<Fault> =
            FAULTS.into_iter().chain([Fault::Pause]).filter(|_| rng.chance(300)).collect();
        if swarm.is_empty() {
            swarm.push(Fault::Break);
        }
        let faults_permille = rng.one_of([30, 100, 250]);
        let gap = rng.one_of([100, 200, 400]) * MILLISECOND;
        let reach = rng.one_of([5, 20, 90]) * SECOND;
        let mut lives = vec![LIVES_MAX; knobs.nodes];
        let mut at = 0;
        let mut schedule = Vec::with_capacity(steps + 1);
        let gap = if knobs.has_outage { OUTAGE_GAP } else { gap };
        if knobs.has_outage {
            schedule.push(Step { at, act: draw_outage(&mut rng, &knobs) });
        }

        for _ in 0..steps {
            at += rng.within(0..=2 * gap);

            let act = if rng.chance(faults_permille) {
                let fault = swarm[rng.index(swarm.len())];
                let act = draw(fault, &mut rng, &knobs, reach);
                if spend_life(&mut lives, act) { act } else { load(&mut rng, knobs.nodes) }
            } else {
                load(&mut rng, knobs.nodes)
            };

            schedule.push(Step { at, act });
        }

        Self { seed, knobs, steps: schedule }
    }
}

/// A fault that keeps nodes from publishing for a long time.
fn draw_outage(rng: &mut Rng, knobs: &Knobs) -> Act {
    let span = rng.span(OUTAGE_MIN, OUTAGE_MAX);
    let who = Who::Node(rng.index(knobs.nodes));
    rng.one_of([
        Act::Stall { span },
        Act::Full { span },
        Act::Restart { how: Crash::Kill, down: span },
        Act::Partition { who, requests: true, answers: true, span },
    ])
}

/// Whether a step may happen: a node ends only so often.
fn spend_life(lives: &mut [usize], act: Act) -> bool {
    let Act::EndProcess { who: Who::Node(number), .. } = act else { return true };
    let is_left = lives[number] > 0;
    lives[number] = lives[number].saturating_sub(1);
    is_left
}

impl Knobs {
    fn draw(rng: &mut Rng) -> Self {
        let quick = rng.within(1..=20) * MILLISECOND;
        let interval = Duration::from_millis(rng.one_of([1_000, 2_000, 2_000, 5_000]));
        let reading = rng.one_of([0, 0, 0, 100, 400]) * MILLISECOND;
        // Rarely, because such a run takes as long as fifty others.
        let has_outage = rng.chance(OUTAGES_PERMILLE);

        let (interval, depths, reading) = match has_outage {
            true => (Duration::from_secs(1), Depths::by_default(), 0),
            false => (interval, Depths::draw(rng), reading),
        };

        Self {
            nodes: rng.one_of([2, 2, 3]),
            readers: rng.one_of([
                Readers::One,
                Readers::One,
                Readers::One,
                Readers::Two,
                Readers::OneAndStateless,
            ]),
            interval,
            depths,
            delay: (MILLISECOND / 2, quick.max(rng.span(MILLISECOND, 2 * SECOND))),
            reading,
            sync_every: rng.one_of([1, 10, 120]) * SECOND,
            checkpoint: (rng.one_of([1, 2, 10]) * SECOND, rng.span(MILLISECOND, 2 * SECOND)),
            spool: rng.one_of([
                Spooling::Off,
                Spooling::Synced,
                Spooling::Synced,
                Spooling::Synced,
                Spooling::Unsynced,
            ]),
            spool_write: rng.span(MILLISECOND, SECOND),
            payload_max: rng.one_of([400, usize::MAX, usize::MAX, usize::MAX]),
            drift_ppm: rng.one_of([0, 50, 2_000]),
            has_outage,
            declares: false,
        }
    }
}

fn load(rng: &mut Rng, nodes: usize) -> Act {
    let samples = rng.span(1, 16);
    Act::Load { node: rng.index(nodes), samples, packed: rng.within(1..=samples) }
}

fn anyone(rng: &mut Rng, Knobs { nodes, readers, .. }: &Knobs) -> Who {
    let number = rng.index(nodes + readers.count());
    if number < *nodes { Who::Node(number) } else { Who::Aggregator(number - nodes) }
}

fn draw(fault: Fault, rng: &mut Rng, knobs: &Knobs, reach: Time) -> Act {
    let span = rng.span(50 * MILLISECOND, reach);
    let who = anyone(rng, knobs);
    let (nodes, which) = (knobs.nodes, rng.index(knobs.readers.count()));

    match fault {
        Fault::Break => Act::Break { who, noticed_after: rng.span(MILLISECOND, 10 * SECOND) },
        Fault::Partition => {
            let (requests, answers) = rng.one_of([(true, true), (false, true), (true, false)]);
            Act::Partition { who, requests, answers, span }
        }
        Fault::Slow => Act::Slow { who, delay: rng.span(20 * MILLISECOND, 8 * SECOND), span },
        Fault::Stall => Act::Stall { span },
        Fault::Restart(how) => Act::Restart { how, down: span },
        Fault::Full => Act::Full { span },
        Fault::LoseAcks => Act::LoseAcks { permille: rng.one_of([100, 500, 1_000]), span },
        Fault::Remake => Act::Remake { lane: rng.one_of(Lane::ALL) },
        Fault::EndNode(end) => {
            Act::EndProcess { who: Who::Node(rng.index(nodes)), end, down: span }
        }
        Fault::EndAggregator(end) => {
            Act::EndProcess { who: Who::Aggregator(which), end, down: span }
        }
        Fault::Jump => {
            let by = i64::try_from(rng.span(1, 600_000)).unwrap_or(0);
            Act::Jump { who, by_ms: if rng.chance(500) { by } else { -by } }
        }
        Fault::DiskFull => Act::DiskFull { who, span },
        Fault::Jam => Act::Jam { node: rng.index(nodes), span },
        Fault::Forge => {
            let lie = rng.one_of([Lie::Unsent, Lie::Unsent, Lie::Stranger, Lie::Garbage]);
            Act::Forge { node: rng.index(nodes), lie }
        }
        Fault::Delay => Act::Delay { by: rng.span(SECOND, 60 * SECOND), span },
        Fault::RollBack => rng.one_of([Act::BackUp { which }, Act::RollBack { which, down: span }]),
        Fault::Away => Act::Away { which, down: span },
        Fault::Pause => Act::Pause { who, span: span.min(30 * SECOND) },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_has_one_plan_and_seeds_differ() {
        assert_eq!(Plan::draw(3, 200), Plan::draw(3, 200));
        assert_ne!(Plan::draw(3, 200), Plan::draw(4, 200));
    }

    #[test]
    fn each_seed_leaves_some_faults_out_and_together_they_have_all() {
        let names = |seed: u64| -> BTreeSet<&str> {
            Plan::draw(seed, 200).steps.iter().map(|step| step.act.name()).collect()
        };
        let per_seed: Vec<BTreeSet<&str>> = (0..300).map(names).collect();
        let all: BTreeSet<&str> = per_seed.iter().flatten().copied().collect();
        assert_eq!(all.len(), FAULTS.len() + 2 + 2 + 2 + 1, "{all:?}");
        assert!(per_seed.iter().all(|names| names.len() < all.len()));
    }
}
