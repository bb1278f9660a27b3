//! The outbox over links of any delay and rate, with breaks: what waits is sent in about the time
//! that its bytes need.

use std::collections::{BTreeSet, VecDeque};

use super::*;

/// A node records for so long before the link breaks, and the break lasts so long.
const BEFORE_S: u64 = 60;
const BREAK_S: u64 = 300;
/// Time between two probes of the link, as the connection has it.
const PROBE_EVERY: Duration = Duration::from_secs(1);
const PROBE_BYTES: usize = 100;
/// What TCP has on its way in its first round trip.
const TCP_FIRST_BYTES: f64 = 14_600.0;

/// A link to a broker that answers at once: a queue of one rate, and a delay.
struct LossyLink {
    bytes_per_second: u64,
    round_trip: Duration,
    free_at: Mono,
    on_the_way: VecDeque<(Mono, Packet)>,
}

enum Packet {
    Message(Ticket),
    Probe(Mono),
}

impl LossyLink {
    fn new(kilobytes_per_second: u64, round_trip_ms: u64) -> Self {
        Self {
            bytes_per_second: kilobytes_per_second * 1_000,
            round_trip: Duration::from_millis(round_trip_ms),
            free_at: Mono(0),
            on_the_way: VecDeque::new(),
        }
    }

    fn takes(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64)
    }

    fn carry(&mut self, now: Mono, bytes: usize, packet: Packet) {
        self.free_at = self.free_at.max(now).plus(self.takes(bytes));
        self.on_the_way.push_back((self.free_at.plus(self.round_trip), packet));
    }

    fn answered(&mut self, now: Mono) -> Option<Packet> {
        let (at, _) = self.on_the_way.front()?;
        (*at <= now).then(|| self.on_the_way.pop_front()).flatten().map(|(_, packet)| packet)
    }

    fn cut(&mut self, now: Mono) {
        self.on_the_way.clear();
        self.free_at = now;
    }
}

/// A node that records eight series each second, and an aggregator that confirms every five.
struct World {
    now: Mono,
    outbox: Outbox,
    link: LossyLink,
    /// The newest acknowledged number, and the bytes of all.
    acknowledged: BTreeSet<Ticket>,
    newest: u64,
    bytes: usize,
    /// The first message of the emergency lane, and when it was acknowledged.
    urgent: Option<Ticket>,
    urgent_at: Option<Mono>,
}

impl World {
    fn new(link: LossyLink) -> Self {
        let mut outbox = Outbox::new(Incarnation(1), OutboxBounds::default());
        outbox.on_connected();
        let acknowledged = BTreeSet::new();
        let (urgent, urgent_at) = (None, None);
        Self { now: Mono(0), outbox, link, acknowledged, newest: 0, bytes: 0, urgent, urgent_at }
    }

    fn records(&mut self, priority: Priority) {
        let series = |n: u64| Series::plain(Operation::new(format!("operation-{n}")).unwrap());
        let histogram = |n: u64| {
            let mut histogram = Histogram::default();
            (0..20).for_each(|k| histogram.record_n(1_000_000 + n * 70_000 + k * 9_000, 1));
            histogram
        };
        let histograms = (0..8).map(|n| (series(n), histogram(n))).collect();
        let body = Body::Latency(Latency { histograms, ..Latency::default() });
        let draft = Draft::new(&body, Wall(self.now.0), 1, self.now).prioritized(priority);
        self.outbox.try_push(self.now, draft).unwrap();
    }

    /// Advances time until `is_done`, at most to `until`.
    fn lives(&mut self, until: Mono, is_done: impl Fn(&Self) -> bool) {
        while self.now < until && !is_done(self) {
            self.now = self.next_event().min(until);
            if self.is_at(SECOND) {
                self.records(Priority::Normal);
            }
            if self.outbox.is_connected() && self.is_at(PROBE_EVERY) {
                self.link.carry(self.now, PROBE_BYTES, Packet::Probe(self.now));
            }
            if self.is_at(5 * SECOND) && self.newest > 0 {
                self.outbox.on_confirmation(self.now, &confirm(1, self.newest)).unwrap();
            }
            self.outbox.on_deadline(self.now);
            while let Some(packet) = self.link.answered(self.now) {
                match packet {
                    Packet::Message(ticket) => self.acknowledge(ticket),
                    Packet::Probe(sent) => {
                        self.outbox.on_round_trip(self.now, self.now.since(sent));
                    }
                }
            }
            self.sends();
        }
    }

    fn is_at(&self, every: Duration) -> bool {
        self.now.0.is_multiple_of(nanos(every))
    }

    /// The next whole second, arrival or deadline.
    fn next_event(&self) -> Mono {
        let second = Mono((self.now.0 / 1_000_000_000 + 1) * 1_000_000_000);
        let arrival = self.link.on_the_way.front().map(|(at, _)| *at);
        let deadline = self.outbox.next_deadline();
        let next = arrival.into_iter().chain(deadline).fold(second, Mono::min);
        next.max(Mono(self.now.0 + 1))
    }

    fn acknowledge(&mut self, ticket: Ticket) {
        let bytes = self.outbox.in_flight.bytes_of(ticket);
        if self.outbox.on_acknowledged(self.now, ticket).is_some() {
            self.acknowledged.insert(ticket);
            self.bytes += bytes;
        }
        if self.urgent == Some(ticket) {
            self.urgent_at.get_or_insert(self.now);
        }
        while self.acknowledged.remove(&Ticket(self.newest + 1)) {
            self.newest += 1;
        }
    }

    fn sends(&mut self) {
        let seal = |seq: Seq, lane: Lane, draft: Draft| {
            let payload = Bytes::from(vec![0; draft.bytes()]);
            SealedMessage { payload, ..seal(seq, lane, draft) }
        };
        while let Some(publish) = self.outbox.next_publish(self.now, seal) {
            if publish.subject.starts_with("emergency") {
                self.urgent.get_or_insert(publish.ticket);
            }
            self.link.carry(self.now, publish.payload.len(), Packet::Message(publish.ticket));
        }
    }

    /// No more waits than what is on its way.
    fn is_drained(&self) -> bool {
        let on_the_way = self.link.round_trip.as_secs() + 2;
        self.outbox.depth() <= on_the_way
    }

    fn breaks_for(&mut self, seconds: u64) {
        self.outbox.on_disconnected();
        self.link.cut(self.now);
        let until = self.now.plus(Duration::from_secs(seconds));
        self.lives(until, |_| false);
        self.outbox.on_connected();
        self.sends();
    }

    /// The time that bytes need through the link: at its rate, and in the round trips in which TCP
    /// opens its own window.
    fn needs(&self, bytes: usize) -> Duration {
        let held = self.link.bytes_per_second as f64 * self.link.round_trip.as_secs_f64();
        let opened = held.min(bytes as f64) / TCP_FIRST_BYTES;
        let round_trips = 1.0 + opened.max(1.0).log2();
        self.link.takes(bytes) + self.link.round_trip.mul_f64(round_trips)
    }
}

/// What came of one link.
struct Drained {
    bytes: usize,
    took: Duration,
    needed: Duration,
    /// How long the breach took to be acknowledged.
    urgent: Option<Duration>,
}

fn drains(link: LossyLink) -> Drained {
    let mut world = World::new(link);
    world.lives(at(BEFORE_S), |_| false);
    assert!(world.is_drained(), "{} wait before the link broke", world.outbox.depth());

    world.breaks_for(BREAK_S);
    let (began, before) = (world.now, world.bytes);
    world.lives(began.plus(Duration::from_secs(20)), World::is_drained);

    // Something urgent happens while the backlog is under way.
    let pushed = world.now;
    if !world.is_drained() {
        world.records(Priority::Critical);
    }
    world.lives(began.plus(Duration::from_secs(4_000)), World::is_drained);
    assert!(world.is_drained(), "{} wait for ever", world.outbox.depth());

    let bytes = world.bytes - before;
    let needed = world.needs(bytes);
    let urgent = world.urgent_at.map(|at| at.since(pushed));
    Drained { bytes, took: world.now.since(began), needed, urgent }
}

/// The table of `node/bench/RESULTS.md` has a row for each, so that it is what was measured.
#[test]
fn a_backlog_is_sent_within_twice_the_time_that_its_bytes_need() {
    let results = include_str!("../../../../bench/RESULTS.md");
    let seconds = |span: Duration| format!("{:.1} s", span.as_secs_f64());
    let mut missing = String::new();
    for (round_trip, round_trip_ms) in
        [("20 ms", 20), ("300 ms", 300), ("1.2 s", 1_200), ("3 s", 3_000)]
    {
        for (rate, kilobytes) in [("8 kB/s", 8), ("64 kB/s", 64), ("ample", 100_000)] {
            let drained = drains(LossyLink::new(kilobytes, round_trip_ms));
            let ratio = drained.took.as_secs_f64() / drained.needed.as_secs_f64();
            assert!(ratio <= 2.0, "{ratio:.2} over {round_trip} and {rate}");

            let row = format!(
                "| {round_trip} | {rate} | {} kB | {} | {} | {ratio:.2} | {} |\n",
                drained.bytes / 1_000,
                seconds(drained.took),
                seconds(drained.needed),
                drained.urgent.map(seconds).unwrap_or_default(),
            );
            if !results.contains(&row.replace("|  |", "| |")) {
                missing.push_str(&row);
            }
        }
    }
    assert_eq!(missing, "", "rows that node/bench/RESULTS.md must have");
}

/// A path changes below an open connection: the round trip grows from 20 ms, or the rate falls.
#[test]
fn a_link_that_grows_longer_or_slower_is_measured_anew() {
    for (kilobytes, round_trip_ms) in [(100_000, 1_500), (100_000, 3_000), (16, 20), (16, 1_000)] {
        let mut world = World::new(LossyLink::new(100_000, 20));
        world.lives(at(BEFORE_S), |_| false);
        assert!(world.outbox.window.bytes() > 1_000);

        let changed = LossyLink::new(kilobytes, round_trip_ms);
        world.link.bytes_per_second = changed.bytes_per_second;
        world.link.round_trip = changed.round_trip;
        world.lives(at(BEFORE_S + 120), |_| false);
        let waits = world.outbox.depth();
        assert!(world.is_drained(), "{waits} wait at {kilobytes} kB/s and {round_trip_ms} ms");

        world.breaks_for(BREAK_S);
        let until = world.now.plus(Duration::from_secs(200));
        world.lives(until, World::is_drained);
        assert!(world.is_drained(), "{kilobytes} kB/s and {round_trip_ms} ms after a break");
    }
}
