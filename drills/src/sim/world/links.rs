//! Connections: how requests and answers travel, break, and come to be believed in.

use std::rc::Rc;

use plimsoll_bus::limits::{
    PING_EVERY, PROBE_EVERY, RECONNECT_DELAY_MAX, RETRY_DELAY_MIN, STALL_AFTER,
};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::nanos;

use super::{Answer, Consumer, Event, Place, Request, Time, Who, World};
use crate::sim::agenda::MILLISECOND;
use crate::sim::broker::Taken;
use crate::sim::link::Belief;
use crate::sim::node::News;

impl World {
    fn delay(&mut self, who: Who) -> Time {
        let (min, max) = self.knobs.delay;
        let max = if self.is_healed { max.min(50 * MILLISECOND) } else { max };
        self.dice.span(min, max) + self.link(who).slowness
    }

    /// A process sends; into a connection that is gone without its knowing, for nothing.
    pub(super) fn request(&mut self, who: Who, request: Request) {
        let at = self.now() + self.delay(who);
        let link = self.link(who);
        if !link.is_intact {
            self.reached.reach("message lost on the way");
            return;
        }
        let (generation, at) = (link.generation, link.requests.arrival(at, 0));
        self.agenda.plan(at, Event::Request { who, generation, request });
    }

    pub(super) fn answer(&mut self, who: Who, answer: Answer) {
        let at = self.now() + self.delay(who);
        let is_slow = matches!(who, Who::Aggregator(_)) && !self.is_healed;
        let apart = if is_slow { self.knobs.reading } else { 0 };
        let link = self.link(who);
        if !link.is_intact {
            return;
        }
        let (generation, at) = (link.generation, link.answers.arrival(at, apart));
        self.agenda.plan(at, Event::Answer { who, generation, answer });
    }

    pub(super) fn on_request(&mut self, who: Who, generation: u64, request: Request) {
        let is_stalled = self.broker.is_stalled;
        let link = self.link(who);
        if link.generation != generation || !link.is_intact {
            return self.on_orphan(request);
        }
        if link.requests.is_blocked || is_stalled || !link.requests.parked.is_empty() {
            return link.requests.parked.push_back(request);
        }
        self.serve(Some(who), request);
    }

    /// What was under way when its connection went may have been read all the same.
    fn on_orphan(&mut self, request: Request) {
        if !self.broker.is_up || self.dice.chance(500) {
            self.reached.reach("message lost on the way");
        } else if self.broker.is_stalled {
            self.orphans.push_back(request);
        } else {
            self.reached.reach("message read from a dead connection");
            self.serve(None, request);
        }
    }

    /// The broker acts on a request; nobody hears the answer when its connection is gone.
    fn serve(&mut self, who: Option<Who>, request: Request) {
        match (request, who) {
            (Request::Publish { token, message }, _) => {
                let taken = self.broker.take(self.now(), &message);
                self.say(|| format!("broker: {} {taken:?}", message.id));
                self.pump(message.lane);
                self.acknowledge(who, token, taken);
            }
            (Request::Tell { node, payload }, _) => self.pass_on(node, payload),
            (Request::Look { lane }, Some(who)) => {
                let stream = self.broker.stream(lane);
                let (first, last, stream) = (stream.first(), stream.last, stream.id);
                self.answer(who, Answer::Looked { lane, first, last, stream });
            }
            (Request::Open { lane, next }, Some(Who::Aggregator(which))) => {
                let generation = self.link(Who::Aggregator(which)).generation;
                let consumer = Consumer { generation, next };
                self.consumers[which][lane as usize] = Some(consumer);
                self.pump_to(which, lane);
            }
            (Request::Look { .. } | Request::Open { .. }, _) => {}
        }
    }

    fn acknowledge(&mut self, who: Option<Who>, token: u64, taken: Taken) {
        let news = match taken {
            Taken::Stored => News::Acknowledged(token),
            Taken::Duplicate => {
                self.reached.reach("message known again by the broker");
                News::Acknowledged(token)
            }
            Taken::Full => {
                self.reached.reach("message declined");
                News::Declined(token)
            }
        };
        let Some(who) = who else { return };
        let permille = self.broker.forgets_permille;
        if permille == 0 || !self.dice.chance(permille) {
            self.answer(who, Answer::News(news));
        }
    }

    /// Sends a lane's readers what the stream has for them.
    fn pump(&mut self, lane: Lane) {
        (0..self.readers.len()).for_each(|which| self.pump_to(which, lane));
    }

    fn pump_to(&mut self, which: usize, lane: Lane) {
        let who = Who::Aggregator(which);
        let Some(mut consumer) = self.consumers[which][lane as usize] else { return };
        let link = self.link(who);
        if link.generation != consumer.generation || !link.is_intact {
            self.consumers[which][lane as usize] = None;
            return;
        }
        while let Some((number, stored)) = self.broker.stream(lane).from(consumer.next) {
            let message = Rc::clone(&stored.message);
            let stream = self.broker.stream(lane);
            let at = stored.at;
            let place = Place { stream: stream.id, number, behind: stream.behind(number), at };
            consumer.next = number + 1;
            let answer = Answer::Message { lane, place, message };
            self.answer(who, answer);
        }
        self.consumers[which][lane as usize] = Some(consumer);
    }

    pub(super) fn on_answer(&mut self, who: Who, generation: u64, answer: Answer) {
        let link = self.link(who);
        if link.generation != generation || !link.is_intact {
            self.reached.reach("message lost on the way");
            return;
        }
        if link.answers.is_blocked || !link.answers.parked.is_empty() {
            return link.answers.parked.push_back(answer);
        }
        self.deliver(who, answer);
    }

    fn deliver(&mut self, who: Who, answer: Answer) {
        match (answer, who) {
            (Answer::News(news), _) => self.on_news(who, news),
            (Answer::Told { payload }, Who::Node(node)) => self.on_told(node, &payload),
            (answer, Who::Aggregator(which)) => self.on_lane(which, answer),
            (_, Who::Node(_)) => {}
        }
    }

    /// A connection is gone; its process hears of it after `heard_after`.
    pub(super) fn tear(&mut self, who: Who, heard_after: Time) {
        let is_stalled = self.broker.is_stalled;
        let link = self.link(who);
        if !link.is_intact {
            return;
        }
        let generation = link.generation;
        let reached_the_machine = is_stalled && !link.requests.is_blocked;
        let unread = link.tear();
        if reached_the_machine {
            self.orphans.extend(unread);
        }
        self.after(heard_after, Event::Hear { who, generation });
        self.watch(who);
    }

    pub(super) fn on_hear(&mut self, who: Who, generation: u64) {
        let link = self.link(who);
        if link.generation != generation || link.is_intact {
            return;
        }
        link.quiet_since = None;
        let was_up = std::mem::replace(&mut link.belief, Belief::Down) != Belief::Down;
        self.dial_soon(who);
        if was_up {
            self.reached.reach("told of a lost connection");
            self.on_news(who, News::Disconnected);
        }
    }

    pub(super) fn dial_soon(&mut self, who: Who) {
        let link = self.link(who);
        let doublings = link.attempts.min(10);
        link.attempts += 1;
        let pause = nanos(RETRY_DELAY_MIN) << doublings;
        let life = self.machine(who).life;
        self.after(pause.min(nanos(RECONNECT_DELAY_MAX)), Event::Dial { who, life });
    }

    pub(super) fn on_dial(&mut self, who: Who, life: u64) {
        let machine = self.machine(who);
        let is_wanted = machine.life == life && machine.is_alive;
        // Whoever believes in a connection does not make another.
        if !is_wanted || self.link(who).is_intact || self.link(who).belief != Belief::Down {
            return;
        }
        let answers = self.broker.is_up && !self.broker.is_stalled && self.link(who).is_open();
        if !answers {
            return self.dial_soon(who);
        }
        let link = self.link(who);
        link.join();
        let generation = link.generation;
        let settled = self.delay(who) * 4;
        self.after(settled, Event::Established { who, generation });
    }

    pub(super) fn on_established(&mut self, who: Who, generation: u64) {
        let is_stalled = self.broker.is_stalled;
        let link = self.link(who);
        if link.generation != generation || !link.is_intact || link.belief != Belief::Down {
            return;
        }
        if is_stalled || !link.is_open() {
            // The questions that follow a connect get no answer: the client begins again.
            return self.tear(who, nanos(STALL_AFTER));
        }
        link.belief = Belief::Up;
        self.say(|| format!("{who}: connected"));
        self.on_news(who, News::Connected);
        let echo = self.delay(who) * 2 + self.dice.below(nanos(PROBE_EVERY));
        self.after(echo, Event::Echo { who, generation });
    }

    /// Whether a process hears anything may have changed.
    pub(super) fn watch(&mut self, who: Who) {
        let (now, is_stalled) = (self.now(), self.broker.is_stalled);
        let link = self.link(who);
        if link.belief == Belief::Down {
            return;
        }
        let is_quiet = !link.is_intact || is_stalled || !link.is_open();
        match (is_quiet, link.quiet_since) {
            (true, None) => {
                link.quiet_since = Some(now);
                let silence = nanos(STALL_AFTER) + self.dice.below(nanos(PROBE_EVERY));
                self.after(silence, Event::Silence { who, since: now });
            }
            (false, Some(_)) => {
                link.quiet_since = None;
                let generation = link.generation;
                let echo = self.delay(who);
                self.after(echo, Event::Echo { who, generation });
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    pub(super) fn on_silence(&mut self, who: Who, since: Time) {
        let link = self.link(who);
        if link.quiet_since != Some(since) || link.belief != Belief::Up {
            return;
        }
        link.belief = Belief::Stalled;
        self.reached.reach("told of a stall");
        self.say(|| format!("{who}: told that the broker is silent"));
        self.on_news(who, News::Stalled);
        let patience = self.dice.within(nanos(PING_EVERY)..=3 * nanos(PING_EVERY));
        self.after(patience, Event::GiveUp { who, since });
    }

    pub(super) fn on_give_up(&mut self, who: Who, since: Time) {
        let link = self.link(who);
        if link.quiet_since == Some(since) {
            let generation = link.generation;
            self.tear(who, 0);
            self.on_hear(who, generation);
        }
    }

    pub(super) fn on_echo(&mut self, who: Who, generation: u64) {
        let link = self.link(who);
        let is_heard = link.generation == generation && link.is_intact;
        if is_heard && link.belief != Belief::Down && link.quiet_since.is_none() {
            link.belief = Belief::Up;
            let span = self.delay(who) * 2;
            self.on_news(who, News::RoundTrip(crate::sim::clocks::duration(span)));
        }
    }

    /// Both directions are open again: what waited arrives, in order.
    pub(super) fn unblock(&mut self, who: Who) {
        let link = self.link(who);
        (link.requests.is_blocked, link.answers.is_blocked) = (false, false);
        self.unpark(who);
        self.watch(who);
    }

    pub(super) fn unpark(&mut self, who: Who) {
        if !self.broker.is_stalled && !self.link(who).requests.is_blocked {
            for request in std::mem::take(&mut self.link(who).requests.parked) {
                self.serve(Some(who), request);
            }
        }
        if self.link(who).answers.is_blocked {
            return;
        }
        let generation = self.link(who).generation;
        let parked = std::mem::take(&mut self.link(who).answers.parked).into_iter();
        let parked = parked.map(|answer| Event::Answer { who, generation, answer });
        if self.machine(who).is_paused {
            // What came while the process was stopped came later.
            let deferred = &mut self.machine(who).deferred;
            parked.rev().for_each(|event| deferred.push_front(event));
        } else {
            parked.for_each(|event| self.after(0, event));
        }
    }

    /// The broker reads again what it was sent, on connections that are gone too.
    pub(super) fn resume(&mut self) {
        self.broker.is_stalled = false;
        for request in std::mem::take(&mut self.orphans) {
            self.reached.reach("message read from a dead connection");
            self.serve(None, request);
        }
        for who in self.everybody() {
            self.unpark(who);
            self.watch(who);
        }
    }
}
