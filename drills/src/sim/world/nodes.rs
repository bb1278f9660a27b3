//! What a node's driver does between its core and the world, and what it is watched for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use bytes::Bytes;
use plimsoll_node::core::departure::{Departure, SocketPoll, Step};
use plimsoll_node::core::spool::Batch;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;

use super::{Event, Knobs, Request, Time, Undo, Who, World};
use crate::sim::act::End;
use crate::sim::agenda::{MICROSECOND, MILLISECOND};
use crate::sim::book::Name;
use crate::sim::broker::Message;
use crate::sim::disk::Disk;
use crate::sim::meter::Meter;
use crate::sim::node::{Figures, News, NodeCore, Sending};

/// With one of so many samples a job reports an event.
const SAMPLES_AN_EVENT: usize = 5;

/// A node and what the model knows of its present incarnation.
pub(super) struct NodeProcess {
    pub(super) name: NodeName,
    pub(super) core: Option<NodeCore>,
    pub(super) departure: Departure,
    /// How long it stays away once it has ended.
    down: Option<Time>,
    pub(super) is_jammed: bool,
    /// What it handed over, by its own name for it.
    pub(super) handed_over: BTreeMap<u64, Name>,
    /// Samples of jobs in the open interval.
    pub(super) running: Vec<usize>,
    /// Messages made when the last interval was closed, and samples taken until then.
    pub(super) closed: (u64, u64),
    /// Samples of jobs in closed intervals that are in no spool yet.
    pub(super) unwritten: Vec<usize>,
    /// How many of those are in the batch under way, and samples taken until it was made.
    pub(super) in_batch: (usize, u64),
    /// Samples taken until the last batch was made that is in the spool.
    pub(super) kept: u64,
    /// Messages taken over from former lives.
    pub(super) adopted: u64,
    pub(super) disk: Disk,
    pub(super) spooling: Option<Batch>,
    /// Whether its last life ended with something in its spool.
    pub(super) left_holding: bool,
    pub(super) meter: Meter,
    pub(super) figures: Option<Figures>,
}

impl NodeProcess {
    pub(super) fn new(name: NodeName, knobs: &Knobs) -> Self {
        Self {
            name,
            core: None,
            departure: Departure::default(),
            down: None,
            is_jammed: false,
            handed_over: BTreeMap::new(),
            running: Vec::new(),
            closed: (0, 0),
            unwritten: Vec::new(),
            in_batch: (0, 0),
            kept: 0,
            adopted: 0,
            disk: Disk::default(),
            spooling: None,
            left_holding: false,
            meter: Meter::new(knobs.depths),
            figures: None,
        }
    }
}

impl World {
    pub(super) fn clock(&self, who: Who) -> Now {
        let machine = &self.machines[self.index(who)];
        machine.clocks.now(machine.born, self.agenda.now())
    }

    pub(super) fn begin_node(&mut self, number: usize) {
        let who = Who::Node(number);
        let at = self.now();
        self.machine(who).begin(at);
        let now = self.clock(who);
        let bounds = self.knobs.depths.bounds(self.knobs.interval);
        let meter = Meter::new(self.knobs.depths);
        let node = &mut self.nodes[number];
        let core = NodeCore::begin(&node.name, bounds, now);
        (node.departure, node.down, node.meter) = (Departure::default(), None, meter);
        (node.core, node.figures, node.spooling) = (Some(core), None, None);
        node.left_holding = false;
        node.handed_over.clear();
        (node.in_batch, node.kept) = ((0, 0), 0);
        node.unwritten.clear();
        node.running.clear();
        self.say(|| format!("{who}: begins as {}", now.wall.0));
        self.open_spool(number, now);
        if let Some(core) = &self.nodes[number].core {
            let adopted = core.figures().status.bus.attempted;
            let node = &mut self.nodes[number];
            (node.closed, node.adopted) = ((adopted, 0), adopted);
        }
        self.link(who).forget();
        self.dial_soon(who);
        self.settle_node(number);
    }

    /// Jobs report samples, each of which there is once, and an event with some.
    pub(super) fn load(&mut self, number: usize, samples: u64, packed: u64) {
        let who = Who::Node(number);
        let is_taken = {
            let machine = self.machine(who);
            machine.is_alive && !machine.is_paused
        };
        let now = self.clock(who);
        let node = &mut self.nodes[number];
        let Some(core) = node.core.as_mut().filter(|core| is_taken && !core.is_leaving()) else {
            return;
        };
        let (mut datagram, mut lines) = (String::new(), 0);
        for left in (0..samples).rev() {
            let Some((sample, line)) = self.books[number].next_line() else { return };
            node.running.push(sample);
            // A line may carry several values; both forms are used.
            let separator = if lines == 0 { "" } else { "\n" };
            write!(datagram, "{separator}{line}").expect("a string takes what is written to it");
            if sample % SAMPLES_AN_EVENT == 0 {
                datagram.push_str("\n_e{5,4}:shard|done");
            }
            lines += 1;
            if lines == packed || left == 0 {
                core.on_datagram(now, datagram.as_bytes());
                datagram.clear();
                lines = 0;
            }
        }
        self.settle_node(number);
    }

    pub(super) fn on_timer(&mut self, who: Who) {
        let at = self.now();
        let machine = self.machine(who);
        if machine.timer_at > at || !machine.is_alive {
            return;
        }
        machine.timer_at = Time::MAX;
        match who {
            Who::Node(number) => self.settle_node(number),
            Who::Aggregator(which) => {
                self.settle_reader(which);
                self.watch_gaps(which);
            }
        }
    }

    pub(super) fn on_news(&mut self, who: Who, news: News) {
        let number = match who {
            Who::Node(number) => number,
            Who::Aggregator(which) => return self.on_reader_news(which, news),
        };
        let now = self.clock(who);
        let Some(core) = &mut self.nodes[number].core else { return };
        core.on_news(now, news);
        self.settle_node(number);
    }

    pub(super) fn on_told(&mut self, number: usize, payload: &Bytes) {
        let now = self.clock(Who::Node(number));
        let Some(core) = &mut self.nodes[number].core else { return };
        let heard = core.on_confirmation(now, payload);
        if let Err(reason) = heard {
            self.break_with("an honest confirmation is believed", || reason.to_owned());
        }
        self.settle_node(number);
    }

    /// SIGTERM: the sockets are read empty and closed, the last interval is sealed.
    pub(super) fn ask_node(&mut self, number: usize, down: Time) {
        let who = Who::Node(number);
        if self.machine(who).is_paused {
            // It hears of it when it goes on.
            return;
        }
        let now = self.clock(who);
        let node = &mut self.nodes[number];
        if node.departure.step() == Step::Running {
            node.down = Some(down);
            node.departure.on_shutdown_requested(now.mono);
            node.departure.on_polled(now.mono, SocketPoll::default(), false);
        }
        self.settle_node(number);
    }

    /// One turn of the driver after whatever has just happened.
    pub(super) fn settle_node(&mut self, number: usize) {
        let who = Who::Node(number);
        let now = self.clock(who);
        let node = &mut self.nodes[number];
        let Some(core) = &mut node.core else { return };
        if node.departure.step() == Step::Draining && !core.is_leaving() {
            core.on_leave(now);
        }
        node.departure.on_deadline(now.mono, core.is_drained(now));
        if node.departure.step() >= Step::Closing {
            let is_drained = core.is_drained(now);
            self.say(|| format!("{who}: ends, {}", if is_drained { "drained" } else { "holding" }));
            return self.leave(number);
        }
        core.on_deadline(now);
        self.look_at(number);
        self.keep_spool(number, now);
        self.publish(number, now);
        self.look_at(number);
        self.plan_node(number);
    }

    fn plan_node(&mut self, number: usize) {
        let who = Who::Node(number);
        let node = &self.nodes[number];
        let Some(core) = &node.core else { return };
        let deadline = core.next_deadline().min(node.departure.next_deadline());
        let machine = self.machine(who);
        let at = machine.clocks.when(machine.born, deadline);
        if at < machine.timer_at {
            machine.timer_at = at;
            self.agenda.plan(at, Event::Timer(who));
        }
    }

    fn leave(&mut self, number: usize) {
        let down = self.nodes[number].down.take().unwrap_or(MILLISECOND);
        self.finish_spool(number);
        self.end_node(number, End::Asked);
        self.after(down, Event::Undo(Undo::Reboot(Who::Node(number))));
    }

    fn publish(&mut self, number: usize, now: Now) {
        while self.nodes[number].core.as_mut().is_some_and(|_| self.broken.is_none()) {
            let was_open = self.nodes[number].figures.as_ref().is_some_and(NodeCore::is_open);
            let Some(core) = &mut self.nodes[number].core else { return };
            let Some(sending) = core.next_sending(now) else { return };
            if was_open {
                self.break_with("an open breaker lets nothing pass", || sending.id.clone());
            }
            if !self.hand_over(number, now, sending) {
                return;
            }
        }
    }

    /// Gives one message to the node's own client; false when that takes no more.
    fn hand_over(&mut self, number: usize, now: Now, sending: Sending) -> bool {
        let who = Who::Node(number);
        let Sending { token, subject, id, payload } = sending;
        let lane = lane_of(&subject);
        let at = self.now();
        let noted = self.books[number].note(at, &subject, &payload);
        let name = match noted {
            Ok((name, is_new)) => {
                let is_testament = self.books[number].messages[&name].is_testament;
                let branch = if is_testament { "testament" } else { "sent again" };
                self.reached.reach_n(branch, u64::from(is_testament || !is_new));
                if lane == Lane::Emergency && (is_testament || !is_new) {
                    self.meter(number, now, false);
                }
                name
            }
            Err(what) => {
                self.break_with("what was sent never changes", || what);
                return false;
            }
        };
        self.say(|| format!("{who}: sends {id} ({} bytes)", payload.len()));
        self.nodes[number].handed_over.insert(token, name);
        if self.nodes[number].is_jammed && self.dice.chance(700) {
            if self.dice.chance(500) {
                let Some(core) = &mut self.nodes[number].core else { return false };
                core.on_handover_failed(now, token);
                return false;
            }
            self.answer_locally(number, News::Deferred(token));
            return true;
        }
        // No broker is set so low that a node's word about itself does not pass.
        if payload.len() > self.knobs.payload_max && subject.ends_with(".latency") {
            self.reached.reach("message refused");
            self.answer_locally(number, News::Refused(token));
            return true;
        }
        let message = Message { from: number, lane, name, subject, id, payload };
        self.request(who, Request::Publish { token, message: Rc::new(message) });
        true
    }

    fn answer_locally(&mut self, node: usize, news: News) {
        let life = self.machines[node].life;
        let span = self.dice.span(10 * MICROSECOND, 1_000 * MILLISECOND);
        self.after(span, Event::Local { node, life, news });
    }

    /// A message takes a token: when it is sealed, which may be before it is sent, and each
    /// time it is sent again.
    pub(super) fn meter(&mut self, number: usize, now: Now, is_critical: bool) {
        self.reached.reach("sent by the emergency lane");
        let node = &mut self.nodes[number];
        if let Err(what) = node.meter.on_sent(now.mono.0, is_critical) {
            let name = node.name.clone();
            self.break_with("the emergency lane keeps to its rate", || format!("{name}: {what}"));
        }
    }
}

fn lane_of(subject: &str) -> Lane {
    let is_emergency = subject.split('.').nth(3) == Some(Lane::Emergency.as_str());
    if is_emergency { Lane::Emergency } else { Lane::Normal }
}
