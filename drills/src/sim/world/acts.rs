//! What a step of the schedule does to the world, and what takes it back.

use plimsoll_aggregator::limits::CHECKPOINT_EVERY;
use plimsoll_schemas::time::nanos;

use super::{Event, Time, Undo, Who, World};
use crate::sim::act::{Act, End};
use crate::sim::agenda::{MILLISECOND, SECOND};
use crate::sim::broker::Crash;

impl World {
    pub(super) fn on_step(&mut self, number: usize) {
        let (_, act) = self.schedule[number];
        self.say(|| format!("step {number}: {act}"));
        self.reached.reach(act.name());
        match act {
            Act::Load { node, samples, packed } => self.load(node, samples, packed),
            Act::Break { who, heard_after } => self.tear(who, heard_after),
            Act::Partition { who, requests, answers, span } => {
                let link = self.link(who);
                link.requests.is_blocked |= requests;
                link.answers.is_blocked |= answers;
                self.watch(who);
                self.after(span, Event::Undo(Undo::Unblock(who)));
            }
            Act::Slow { who, delay, span } => {
                self.link(who).slowness = delay;
                self.after(span, Event::Undo(Undo::Hasten(who)));
            }
            Act::Stall { span } => self.stall(span),
            Act::Restart { how, down } => self.crash_broker(how, down),
            Act::Full { span } => {
                self.broker.is_full = true;
                self.after(span, Event::Undo(Undo::Room));
            }
            Act::LoseAcks { permille, span } => {
                self.broker.forgets_permille = permille;
                self.after(span, Event::Undo(Undo::Remember));
            }
            Act::Remake { lane } => {
                if self.broker.is_up && !self.broker.is_stalled {
                    let gone = self.broker.remake(lane);
                    self.note_gone(gone.len());
                    self.end_consumers(lane);
                }
            }
            Act::EndProcess { who, end, down } => self.end_process(who, end, down),
            Act::Jump { who, by_ms } => {
                let by = by_ms.saturating_mul(1_000_000);
                self.machine(who).clocks.jump(by);
            }
            Act::DiskFull { who, span } => {
                self.machine(who).is_disk_full = true;
                self.after(span, Event::Undo(Undo::DiskRoom(who)));
            }
            Act::Jam { node, span } => {
                self.nodes[node].is_jammed = true;
                self.after(span, Event::Undo(Undo::Unjam(node)));
            }
            Act::Forge { node, lie } => self.forge(node, lie),
            Act::Delay { by, span } => {
                self.lateness = by;
                self.after(span, Event::Undo(Undo::Punctual));
            }
            Act::BackUp { which } => self.readers[which].back_up(),
            Act::RollBack { which, down } => self.roll_back(which, down),
            Act::Away { which, down } => self.go_away(which, down),
            Act::Pause { who, span } => self.pause(who, span),
        }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Unblock(who) => self.unblock(who),
            Undo::Hasten(who) => self.link(who).slowness = 0,
            Undo::Resume => {
                if self.broker.is_up && self.broker.is_stalled {
                    self.say(|| "broker: goes on".to_owned());
                    self.resume();
                }
            }
            Undo::ComeUp(how) => self.come_up(how),
            Undo::Room => self.broker.is_full = false,
            Undo::Remember => self.broker.forgets_permille = 0,
            Undo::Reboot(who) => {
                let is_wanted = matches!(who, Who::Aggregator(_)) || !self.is_over;
                if !self.machine(who).is_alive && is_wanted {
                    self.begin(who);
                }
            }
            Undo::DiskRoom(who) => self.machine(who).is_disk_full = false,
            Undo::Unjam(node) => self.nodes[node].is_jammed = false,
            Undo::Punctual => self.lateness = 0,
            Undo::Continue(who) => self.go_on(who),
        }
    }

    pub(super) fn begin(&mut self, who: Who) {
        match who {
            Who::Node(number) => self.begin_node(number),
            Who::Aggregator(which) => self.begin_reader(which),
        }
    }

    fn stall(&mut self, span: Time) {
        if !self.broker.is_up {
            return;
        }
        self.broker.is_stalled = true;
        self.everybody().into_iter().for_each(|who| self.watch(who));
        self.after(span, Event::Undo(Undo::Resume));
    }

    fn crash_broker(&mut self, how: Crash, down: Time) {
        if !self.broker.is_up {
            return;
        }
        for who in self.everybody() {
            let heard_after = self.dice.span(MILLISECOND / 10, 2 * SECOND);
            self.tear(who, heard_after);
        }
        (self.broker.is_up, self.broker.is_stalled) = (false, false);
        self.orphans.clear();
        self.consumers.fill([None; 2]);
        self.after(down, Event::Undo(Undo::ComeUp(how)));
    }

    fn come_up(&mut self, how: Crash) {
        if self.broker.is_up {
            return;
        }
        let gone = self.broker.crash(self.agenda.now(), how, &mut self.dice);
        self.broker.is_up = true;
        self.say(|| format!("broker: up again, {} messages gone", gone.len()));
        self.note_gone(gone.len());
    }

    fn end_process(&mut self, who: Who, end: End, down: Time) {
        if !self.machine(who).is_alive {
            return;
        }
        match (who, end) {
            (Who::Node(number), End::Asked) => self.ask_node(number, down),
            (Who::Aggregator(which), End::Asked) => self.ask_reader(which, down),
            (Who::Node(number), End::Killed | End::PowerCut) => {
                self.end_node(number, end);
                self.after(down, Event::Undo(Undo::Reboot(who)));
            }
            (Who::Aggregator(which), End::Killed | End::PowerCut) => {
                self.end_reader(which);
                self.after(down, Event::Undo(Undo::Reboot(who)));
            }
        }
    }

    fn pause(&mut self, who: Who, span: Time) {
        let machine = self.machine(who);
        if machine.is_alive && !machine.is_paused {
            machine.is_paused = true;
            self.after(span, Event::Undo(Undo::Continue(who)));
        }
    }

    pub(super) fn go_on(&mut self, who: Who) {
        let machine = self.machine(who);
        if !std::mem::replace(&mut machine.is_paused, false) {
            return;
        }
        for event in std::mem::take(&mut machine.deferred) {
            self.after(0, event);
        }
    }

    /// Everything that ails the world stops; what is down comes up.
    pub(super) fn heal(&mut self) {
        self.say(|| "all faults end".to_owned());
        self.is_healed = true;
        (self.broker.is_full, self.broker.forgets_permille) = (false, 0);
        self.lateness = 0;
        self.knobs.checkpoint.0 = nanos(CHECKPOINT_EVERY);
        self.come_up(Crash::Kill);
        for who in self.everybody() {
            (self.link(who).slowness, self.machine(who).is_disk_full) = (0, false);
            self.unblock(who);
            self.go_on(who);
        }
        if self.broker.is_stalled {
            self.resume();
        }
        for number in 0..self.nodes.len() {
            self.nodes[number].is_jammed = false;
        }
        for who in self.everybody() {
            if !self.machine(who).is_alive {
                self.begin(who);
            }
        }
    }
}
