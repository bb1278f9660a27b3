//! An aggregator's real core in simulated time: a stream that keeps all messages, a store, people.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_aggregator::core::Core;
use plimsoll_aggregator::core::alerting::{AlertCommand, AlertsQuery};
use plimsoll_aggregator::core::durable::StoredRecords;
use plimsoll_schemas::alert::{
    Acknowledgement, AlertKey, AlertState, NamePattern, Notification, Scope, Silence, SilenceMatch,
};
use plimsoll_schemas::ids::{MeshName, NodeName, RuleName};
use plimsoll_schemas::rule::{Rule, Rules};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::Delivered;

use crate::case::{Act, Case, Report};
use crate::rules::parse;
use crate::speaker::{Message, Speaker};

/// Somewhen in 2023: the begin of a slot of every window.
const BEGIN_SECONDS: u64 = 1_699_920_000;

/// One message as the stream holds it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) at: Wall,
    pub(crate) sent: Wall,
    pub(crate) message: Message,
}

/// The whole state at one point in time.
pub(crate) struct World {
    /// None while the aggregator is away.
    core: Option<Core>,
    rules: Rules,
    stored: StoredRecords,
    back_at: u64,
    stream: Vec<Stored>,
    step: u64,
    span: Duration,
    leapt: Duration,
    /// Commands of people that were refused.
    pub(crate) refused: u64,
    pub(crate) notifications: Vec<Notification>,
}

impl World {
    pub(crate) fn new(rules: Rules, span: Duration) -> Self {
        let mut world = Self {
            core: None,
            rules,
            stored: StoredRecords::default(),
            back_at: 0,
            stream: Vec::new(),
            step: 0,
            span,
            leapt: Duration::ZERO,
            refused: 0,
            notifications: Vec::new(),
        };
        let mut core = Core::new(mesh(), world.rules.clone(), world.now());
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        world.core = Some(core);
        world
    }

    /// The present; both clocks, the wall as people have set it.
    pub(crate) fn now(&self) -> Now {
        let mono = Mono::default().plus(self.passed(self.step));
        Now { mono, wall: self.at(self.step) }
    }

    fn at(&self, step: u64) -> Wall {
        let begin = Duration::from_secs(BEGIN_SECONDS);
        Wall(0).plus(begin + self.passed(step) + self.leapt)
    }

    fn passed(&self, step: u64) -> Duration {
        self.span * u32::try_from(step).unwrap()
    }

    /// The step of a notification's event time.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds >= 0")]
    pub(crate) fn step_of(&self, notification: &Notification) -> u64 {
        let begin = Duration::from_secs(BEGIN_SECONDS).as_secs_f64();
        ((notification.at_seconds - begin) / self.span.as_secs_f64()).round() as u64
    }

    /// Time passes, up to just before an evaluation.
    pub(crate) fn pass(&mut self) {
        self.step += 1;
        if self.core.is_none() && self.step >= self.back_at {
            self.come_back();
        }
    }

    /// The stream takes a message, and the aggregator reads it if it is there.
    pub(crate) fn deliver(&mut self, sent: Wall, message: Message) {
        self.stream.push(Stored { at: self.now().wall, sent, message });
        self.read_on();
    }

    fn read_on(&mut self) {
        let now = self.now();
        let Some(core) = &mut self.core else { return };
        let read = usize::try_from(core.position(Lane::Normal).read).unwrap();
        for (number, stored) in self.stream.iter().enumerate().skip(read) {
            let (subject, payload) = &stored.message;
            let message = Delivered {
                lane: Lane::Normal,
                stream_seq: number as u64 + 1,
                pending: (self.stream.len() - number - 1) as u64,
                at: Some(stored.at),
                sent: Some(stored.sent),
                subject: subject.to_owned(),
                payload: Bytes::copy_from_slice(payload),
            };
            core.on_message(now, &message).expect("speakers send valid messages");
        }
    }

    pub(crate) fn evaluate(&mut self) {
        let now = self.now();
        let Some(core) = &mut self.core else { return };
        core.on_deadline(now);
        while let Some(due) = core.notifications().next_due(now.mono) {
            self.notifications.push(due.notification);
            core.notifications().on_delivered(due.token);
        }
    }

    /// What people do before an evaluation.
    pub(crate) fn act(&mut self, act: &Act) {
        let until = self.at(act.until);
        let by = "ann".to_owned();
        if let Some(words) = &act.silence {
            let (rule, node) = words.split_once(' ').unwrap_or_else(|| panic!("{words:?}"));
            let pattern = |text: &str| (text != "*").then(|| NamePattern::new(text).unwrap());
            let (rule, node) = (pattern(rule), pattern(node));
            let matches = SilenceMatch { rule, node, ..SilenceMatch::default() };
            let (comment, from) = (String::new(), self.now().wall);
            self.order(AlertCommand::Silence(Silence {
                matches,
                by: by.clone(),
                comment,
                from,
                until,
            }));
        }
        if let Some(words) = &act.acknowledge {
            let (rule, who) = words.split_once(' ').unwrap_or_else(|| panic!("{words:?}"));
            let comment = String::new();
            match self.key(rule, who) {
                Some(key) => {
                    self.order(AlertCommand::Acknowledge(
                        key,
                        Acknowledgement { by, comment, until },
                    ));
                }
                None => self.refused += 1,
            }
        }
        if let Some(rules) = &act.rules {
            self.reload(parse(rules, self.rules.time_scale));
        }
        self.leapt += Duration::from_secs(act.clock_leaps);
        if let Some(back_at) = act.back_at {
            self.end();
            self.back_at = back_at;
            if back_at <= self.step {
                self.come_back();
            }
        }
    }

    fn order(&mut self, order: AlertCommand) {
        let now = self.now().wall;
        let Some(core) = &mut self.core else { return };
        self.refused += u64::from(core.on_order(now, order).is_err());
    }

    /// Other rules from now on.
    pub(crate) fn reload(&mut self, rules: Rules) {
        self.rules = rules.clone();
        let now = self.now();
        if let Some(core) = &mut self.core {
            core.reload(now, rules);
        }
    }

    /// The aggregator stores its state and ends.
    pub(crate) fn end(&mut self) {
        let Some(mut core) = self.core.take() else { return };
        if let Some(changes) = core.take_changes(self.now().wall) {
            self.stored.write(changes);
        }
        self.back_at = u64::MAX;
    }

    /// The one that comes after, from what was stored; it reads what it has missed.
    pub(crate) fn come_back(&mut self) {
        let checkpoint = self.stored.read().expect("what was stored can be read");
        let mut core = Core::restore(mesh(), self.rules.clone(), self.now(), checkpoint);
        core.on_positioned(Lane::Emergency, 0, 0, "s1");
        core.on_positioned(Lane::Normal, 1, self.stream.len() as u64, "s1");
        self.core = Some(core);
        self.read_on();
    }

    /// The shown state of an alert; `None` while no aggregator runs.
    pub(crate) fn state(&self, key: &AlertKey) -> Option<AlertState> {
        let core = self.core.as_ref()?;
        let active = core.alerts_page(self.now().wall, &AlertsQuery::default()).alerts;
        if let Some(row) = active.into_iter().find(|row| row.key == *key) {
            return Some(row.state);
        }
        let mut judged = core.view(self.now().wall, "test").summary.budgets.into_iter();
        let judged = judged.find(|row| row.budget == key.rule.as_str() && row.scope == key.scope);
        Some(judged.map_or(AlertState::Inactive, |row| row.alert))
    }

    /// The alert of a rule about the fleet or a node; `None` where there is no such rule.
    pub(crate) fn key(&self, rule: &str, who: &str) -> Option<AlertKey> {
        let rule = RuleName::new(rule).unwrap();
        let operation = match self.rules.find(&rule)? {
            Rule::Budget(budget) | Rule::Burn(budget, _) => budget.operation.clone(),
            Rule::Threshold(threshold) => threshold.metric.operation(),
            Rule::Straggler(straggler) => straggler.operation.clone()?,
        };
        let scope = match who {
            "fleet" => Scope::Fleet,
            node => Scope::Node(NodeName::new(node).unwrap()),
        };
        Some(AlertKey { rule, scope, operation })
    }
}

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

/// Plays a case's history, and calls `look` after every evaluation.
pub(crate) fn play(case: &Case, mut look: impl FnMut(&World, u64)) -> World {
    let mut world = World::new(parse(&case.rules, case.time_scale.max(1)), case.step);
    let mut speakers = BTreeMap::<(String, u64), Speaker>::new();
    // By the step in which they arrive, and their order in it.
    let mut waiting = BTreeMap::<(u64, u64, usize), Vec<Message>>::new();
    for step in 1..=case.steps {
        world.pass();
        for (number, report) in
            case.report.iter().enumerate().filter(|(_, report)| report.is_due(step))
        {
            let speaker =
                speakers.entry((report.node.clone(), report.incarnation.max(1))).or_default();
            let messages = speaker.report(report, own_clock(report, world.now().wall), case.step);
            let (arrives, behind) = report.arrives(step);
            let copies = if report.vanishes { 0 } else { 1 + report.again };
            let place = waiting.entry((arrives, behind, number)).or_default();
            (0..copies).for_each(|_| place.extend(messages.iter().cloned()));
        }
        while let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= step) {
            let (_, _, number) = *first.key();
            let sent = own_clock(&case.report[number], world.now().wall);
            first.remove().into_iter().for_each(|message| world.deliver(sent, message));
        }
        case.act.iter().filter(|act| act.at == step).for_each(|act| world.act(act));
        world.evaluate();
        look(&world, step);
    }
    world
}

fn own_clock(report: &Report, now: Wall) -> Wall {
    let off = Duration::from_secs(report.clock_ahead.unsigned_abs());
    if report.clock_ahead < 0 { now.minus(off) } else { now.plus(off) }
}
