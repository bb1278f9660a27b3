//! One run: everything that exists in it, and the loop that lets one event happen after another.
//!
//! Each event changes the world, what it touched is checked at once, and the first broken
//! invariant ends the run. After the schedule everything is healed and must come to rest.

mod acts;
mod checks;
mod confirming;
mod ending;
mod event;
mod fold;
mod links;
mod nodes;
mod readers;
mod rollback;
mod spools;

use std::collections::VecDeque;

use plimsoll_schemas::ids::NodeName;

use super::act::{Act, Shown, Who};
use super::agenda::{Agenda, Time};
use super::book::{NodeBook, Sets};
use super::broker::Broker;
use super::clocks::Clocks;
use super::dice::Dice;
use super::link::Link;
use super::plan::{Knobs, Plan, Readers};
use super::reached::Reached;
use event::{Answer, Event, Place, Request, Undo};
use nodes::NodeProcess;
use readers::ReaderProcess;

/// Events in one run; more means that it goes in circles.
const EVENTS_MAX: u64 = 400_000;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
    /// When.
    pub at: Time,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What it has seen.
    pub reached: Reached,
    /// Events that happened.
    pub events: u64,
    /// Virtual time that passed.
    pub ended_at: Time,
    /// Samples of all nodes as sets.
    pub sets: Sets,
    /// What broke, if anything did.
    pub broken: Option<Broken>,
    /// What happened, in words, when that was asked for.
    pub tale: Vec<String>,
}

/// What a process of any kind has.
#[derive(Debug)]
struct Machine {
    clocks: Clocks,
    /// Counts the processes that ran on it.
    life: u64,
    born: Time,
    is_alive: bool,
    is_paused: bool,
    is_disk_full: bool,
    timer_at: Time,
    /// What a stopped process will find when it goes on.
    deferred: VecDeque<Event>,
}

/// Where a lane's reader is, at the broker.
#[derive(Clone, Copy, Debug)]
struct Consumer {
    generation: u64,
    next: u64,
}

/// Everything.
pub struct World {
    knobs: Knobs,
    schedule: Vec<(Time, Act)>,
    dice: Dice,
    agenda: Agenda<Event>,
    broker: Broker,
    /// Read by a stopped broker from connections that are gone.
    orphans: VecDeque<Request>,
    consumers: Vec<[Option<Consumer>; 2]>,
    machines: Vec<Machine>,
    links: Vec<Link<Request, Answer>>,
    nodes: Vec<NodeProcess>,
    readers: Vec<ReaderProcess>,
    books: Vec<NodeBook>,
    /// By how much confirmations are late, at most.
    lateness: Time,
    /// Confirmations passed on so far, and the newest that each node has heard.
    told: (u64, Vec<u64>),
    /// Whether streams have lost messages, and whether an aggregator began with an older store.
    lossy: (bool, bool),
    reached: Reached,
    broken: Option<Broken>,
    /// True once the schedule is over and everything was healed.
    is_healed: bool,
    /// True once nobody is to begin again.
    is_over: bool,
    sets: Sets,
    events: u64,
    tale: Option<Vec<String>>,
}

impl World {
    /// The world at the start of a plan; `tells` to keep what happens in words.
    #[must_use]
    pub fn new(plan: &Plan, tells: bool) -> Self {
        let mut dice = Dice::new(plan.seed, 2);
        let (knobs, count) = (plan.knobs.clone(), plan.knobs.nodes);
        let readers = knobs.readers.count();
        let machines = (0..count + readers).map(|_| Machine::new(&knobs, &mut dice)).collect();
        let name = |number| NodeName::new(format!("n{number}")).expect("a letter and a digit");
        let nodes = (0..count).map(|number| NodeProcess::new(name(number), &knobs)).collect();
        let mut world = Self {
            schedule: plan.schedule.iter().map(|step| (step.at, step.act)).collect(),
            broker: Broker::new(knobs.sync_every),
            dice,
            agenda: Agenda::default(),
            orphans: VecDeque::new(),
            consumers: vec![[None; 2]; readers],
            machines,
            links: (0..count + readers).map(|_| Link::default()).collect(),
            nodes,
            readers: (0..readers).map(|which| ReaderProcess::new(which, &knobs)).collect(),
            books: vec![NodeBook::default(); count],
            lateness: 0,
            told: (0, vec![0; count]),
            lossy: (false, false),
            reached: Reached::default(),
            broken: None,
            is_healed: false,
            is_over: false,
            sets: Sets::default(),
            events: 0,
            tale: tells.then(Vec::new),
            knobs,
        };
        match plan.knobs.readers {
            Readers::One => {}
            Readers::Two => world.reached.reach("two aggregators"),
            Readers::OneAndStateless => {
                world.reached.reach("a stateless aggregator beside one with a store");
            }
        }
        world.say(|| format!("{:?}", plan.knobs));
        for number in 0..count {
            world.begin_node(number);
        }
        (0..readers).for_each(|which| world.begin_reader(which));
        world
    }

    /// Runs to the end.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        for (number, (at, _)) in self.schedule.iter().enumerate() {
            self.agenda.plan(*at, Event::Step(number));
        }
        let over = self.schedule.last().map_or(0, |(at, _)| *at);
        self.run_until(over);
        self.end();
        self.count_doubled();
        Outcome {
            reached: self.reached,
            events: self.events,
            ended_at: self.agenda.now(),
            sets: self.sets,
            broken: self.broken,
            tale: self.tale.unwrap_or_default(),
        }
    }

    fn run_until(&mut self, until: Time) {
        while self.broken.is_none() && self.agenda.next_at().is_some_and(|at| at <= until) {
            let Some(event) = self.agenda.take() else { return };
            self.events += 1;
            if self.events > EVENTS_MAX {
                return self.break_with("a run comes to an end", || "it does not".to_owned());
            }
            self.on_event(event);
        }
        if self.broken.is_none() {
            self.agenda.pass(until);
        }
    }

    fn on_event(&mut self, event: Event) {
        let Some(event) = self.defer(event) else { return };
        match event {
            Event::Step(number) => self.on_step(number),
            Event::Undo(undo) => self.undo(undo),
            Event::Timer(who) => self.on_timer(who),
            Event::Request { who, generation, request } => {
                self.on_request(who, generation, request);
            }
            Event::Answer { who, generation, answer } => self.on_answer(who, generation, answer),
            Event::Hear { who, generation } => self.on_hear(who, generation),
            Event::Dial { who, life } => self.on_dial(who, life),
            Event::Established { who, generation } => self.on_established(who, generation),
            Event::Echo { who, generation } => self.on_echo(who, generation),
            Event::Silence { who, since } => self.on_silence(who, since),
            Event::GiveUp { who, since } => self.on_give_up(who, since),
            Event::Late { node, number, payload } => self.tell_late(node, number, payload),
            Event::Local { node, life, news } => {
                if self.machines[node].life == life {
                    self.on_news(Who::Node(node), news);
                }
            }
            Event::Spooled { node, life } => self.on_spooled(node, life),
            Event::Written { which, life } => self.on_written(which, life),
            Event::LookAgain { which, lane, generation } => {
                self.look_again(which, lane, generation);
            }
        }
    }

    /// What concerns a stopped process waits until it goes on.
    fn defer(&mut self, event: Event) -> Option<Event> {
        let who = match &event {
            Event::Timer(who)
            | Event::Answer { who, .. }
            | Event::Hear { who, .. }
            | Event::Dial { who, .. }
            | Event::Established { who, .. }
            | Event::Echo { who, .. }
            | Event::Silence { who, .. }
            | Event::GiveUp { who, .. } => *who,
            Event::Local { node, .. } | Event::Spooled { node, .. } => Who::Node(*node),
            Event::Written { which, .. } | Event::LookAgain { which, .. } => {
                Who::Aggregator(*which)
            }
            Event::Step(_) | Event::Undo(_) | Event::Late { .. } | Event::Request { .. } => {
                return Some(event);
            }
        };
        let machine = self.machine(who);
        if machine.is_paused {
            machine.deferred.push_back(event);
            return None;
        }
        Some(event)
    }

    fn index(&self, who: Who) -> usize {
        match who {
            Who::Node(number) => number,
            Who::Aggregator(which) => self.nodes.len() + which,
        }
    }

    fn machine(&mut self, who: Who) -> &mut Machine {
        let index = self.index(who);
        &mut self.machines[index]
    }

    fn link(&mut self, who: Who) -> &mut Link<Request, Answer> {
        let index = self.index(who);
        &mut self.links[index]
    }

    fn everybody(&self) -> Vec<Who> {
        let readers = (0..self.readers.len()).map(Who::Aggregator);
        (0..self.nodes.len()).map(Who::Node).chain(readers).collect()
    }

    fn now(&self) -> Time {
        self.agenda.now()
    }

    fn after(&mut self, span: Time, event: Event) {
        self.agenda.plan(self.agenda.now().saturating_add(span), event);
    }

    fn break_with(&mut self, invariant: &'static str, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            let (what, at) = (what(), self.now());
            self.say(|| format!("BROKEN: {invariant}: {what}"));
            self.broken = Some(Broken { invariant, what, at });
        }
    }

    fn say(&mut self, words: impl FnOnce() -> String) {
        let at = self.agenda.now();
        if let Some(tale) = &mut self.tale {
            tale.push(format!("{:>12}  {}", Shown(at).to_string(), words()));
        }
    }
}

impl Machine {
    fn new(knobs: &Knobs, dice: &mut Dice) -> Self {
        let signed = |n: u64| i64::try_from(n).unwrap_or(0);
        let drift = signed(dice.within(0..=2 * knobs.drift_ppm)) - signed(knobs.drift_ppm);
        let ahead = signed(dice.span(1, 30_000_000_000)) - signed(dice.span(1, 30_000_000_000));
        Self {
            clocks: Clocks::new(drift, ahead),
            life: 0,
            born: 0,
            is_alive: false,
            is_paused: false,
            is_disk_full: false,
            timer_at: Time::MAX,
            deferred: VecDeque::new(),
        }
    }

    fn begin(&mut self, now: Time) {
        (self.life, self.born, self.is_alive) = (self.life + 1, now, true);
        self.timer_at = Time::MAX;
    }

    fn end(&mut self) {
        (self.life, self.is_alive, self.is_paused) = (self.life + 1, false, false);
        self.deferred.clear();
    }
}
