//! A node's process: what its driver does between the core, the connection and the disk.
//!
//! Owns the machine, the core, its departure and its spool. It sends over the network and reports
//! every step to the oracle, which judges. It does not decide when it ends: the world requests its
//! exit, or kills it.

mod disk;
mod forgery;
mod job;
mod spool;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use bytes::Bytes;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;
use plimsoll_schemas::transport::{BusEvent, Publish, Refusal, Ticket};
use plimsoll_schemas::wire::Bus;

use super::act::{End, Lie, Who};
use super::cores::aggregator::REPORTED;
use super::cores::node::{DeadLetter, Departure, NodeCore, SocketPoll, Step};
use super::event::{Event, Message, Request, Undo};
use super::kernel::Kernel;
use super::machine::Machine;
use super::oracle::{Name, Overtaking};
use super::plan::{Knobs, Spooling};
use super::rng::Rng;
use super::rooms::NodeRooms;
use super::schedule::{MICROSECOND, MILLISECOND, SECOND, Time};
use forgery::forged;
use job::Job;
use spool::{DiskState, Spool};

/// With one of this many samples a job reports an event.
const SAMPLES_AN_EVENT: usize = 5;

/// See the module.
pub struct Node {
    number: usize,
    name: NodeName,
    machine: Machine,
    core: Option<NodeCore>,
    departure: Departure,
    /// How long it stays down after it has ended.
    down: Option<Time>,
    is_jammed: bool,
    /// The messages that it handed to its client, by token.
    handed_over: BTreeMap<Ticket, Name>,
    /// The dead letters that it handed over.
    letters: BTreeMap<Ticket, DeadLetter>,
    spool: Spool,
    /// A job that sends frames, and outlives the node.
    job: Job,
    /// Whether its last life left messages in its spool.
    left_holding: bool,
}

impl Node {
    /// A node that has not started.
    pub fn new(number: usize, name: NodeName, knobs: &Knobs, rng: &mut Rng) -> Self {
        Self {
            number,
            name,
            machine: Machine::new(knobs, rng),
            core: None,
            departure: Departure::default(),
            down: None,
            is_jammed: false,
            handed_over: BTreeMap::new(),
            letters: BTreeMap::new(),
            spool: Spool::default(),
            job: Job::default(),
            left_holding: false,
        }
    }

    fn who(&self) -> Who {
        Who::Node(self.number)
    }

    pub fn name(&self) -> &NodeName {
        &self.name
    }

    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Whether its process runs or is paused.
    pub fn is_running(&self) -> bool {
        self.core.is_some()
    }

    /// Whether its last life ended with something in its spool.
    pub fn left_holding(&self) -> bool {
        self.left_holding
    }

    /// Its client takes few messages, or all again.
    pub fn set_jammed(&mut self, is_jammed: bool) {
        self.is_jammed = is_jammed;
    }

    fn clock(&self, k: &Kernel) -> Now {
        self.machine.clock(k.now())
    }

    pub fn begin(&mut self, rooms: &mut NodeRooms<'_>) {
        let who = self.who();
        self.machine.begin(rooms.k.now());
        let now = self.clock(rooms.k);
        let (depths, interval) = (rooms.k.knobs().depths, rooms.k.knobs().interval);
        self.core = Some(NodeCore::begin(&self.name, depths, interval, now));
        (self.departure, self.down, self.left_holding) = (Departure::default(), None, false);
        self.spool.drop_write();
        self.job.on_node_started();
        self.handed_over.clear();
        self.letters.clear();
        rooms.k.trace(|| format!("{who}: begins as {}", now.wall.0));
        self.open_spool(rooms, now);
        if let Some(core) = &self.core {
            rooms.oracle.incarnation_mut().begin(core.stats().status.bus.attempted, depths);
        }
        rooms.net.clear(who);
        rooms.net.dial_soon(rooms.k, who, self.machine.life());
        self.settle(rooms);
    }

    fn open_spool(&mut self, rooms: &mut NodeRooms<'_>, now: Now) {
        let spool = rooms.k.knobs().spool;
        let Some(core) = self.core.as_mut().filter(|_| spool != Spooling::Off) else { return };
        let adopted = self.spool.open(core, &self.name, now, spool == Spooling::Synced);
        rooms.oracle.history_mut().on_adopted(adopted.samples);
        rooms.k.reach_n("spool found", u64::from(adopted.is_found));
        rooms.k.reach_n("spool torn", u64::from(adopted.is_torn));
        let Some(doubt) = adopted.doubt else { return };
        rooms.k.reach("spool in doubt");
        rooms.oracle.history_mut().excuse("a spool that was not synced is not whole");
        rooms.oracle.history_mut().on_notes_lost();

        if spool == Spooling::Synced {
            let number = self.number;
            rooms.k.fail("no crash damages a synced spool", || format!("n{number}: {doubt}"));
        }
    }

    /// Jobs report samples, each of which there is once: in a frame if their number is even and
    /// none is unanswered, or in datagrams of `packed` each, with an event here and there.
    pub fn load(&mut self, rooms: &mut NodeRooms<'_>, samples: u64, packed: u64) {
        let is_taken = self.machine.is_alive() && !self.machine.is_paused();
        let now = self.clock(rooms.k);
        let Some(core) = self.core.as_mut().filter(|core| is_taken && !core.is_leaving()) else {
            return;
        };
        if self.job.resend(rooms, core, now)
            || samples.is_multiple_of(2) && self.job.send(rooms, core, now, samples)
        {
            return self.settle(rooms);
        }
        let (mut datagram, mut lines) = (String::new(), 0);

        for left in (0..samples).rev() {
            let Some((sample, ns)) = rooms.oracle.next_sample() else { return };
            let line = format!("{REPORTED}:{}.{:06}|ms", ns / 1_000_000, ns % 1_000_000);
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

        self.settle(rooms);
    }

    pub fn on_timer(&mut self, rooms: &mut NodeRooms<'_>) {
        if self.machine.take_timer(rooms.k.now()) {
            self.settle(rooms);
        }
    }

    pub fn on_bus_event(&mut self, rooms: &mut NodeRooms<'_>, event: &BusEvent) {
        let now = self.clock(rooms.k);
        let Some(core) = &mut self.core else { return };
        let before = core.stats().status.bus.refused;
        core.on_bus_event(now, event);
        let is_given_up = core.stats().status.bus.refused > before;
        if let BusEvent::Acknowledged { ticket, .. } | BusEvent::Refused { ticket, .. } = event
            && let Some(letter) = self.letters.remove(ticket)
            && is_given_up
        {
            rooms.k.reach("dead letter stored");
            rooms.oracle.history_mut().refuse(letter.name, letter.samples);
        }
        self.settle(rooms);
    }

    /// An aggregator's confirmation arrives.
    pub fn on_confirmation(&mut self, rooms: &mut NodeRooms<'_>, payload: &Bytes) {
        let now = self.clock(rooms.k);
        let Some(core) = &mut self.core else { return };
        if let Err(reason) = core.on_confirmation(now, payload) {
            rooms.k.fail("an honest confirmation is accepted", || reason.to_owned());
        }
        self.settle(rooms);
    }

    /// A forged confirmation arrives: it changes nothing but the count of rejected ones.
    pub fn on_forgery(&mut self, rooms: &mut NodeRooms<'_>, lie: Lie) {
        let who = self.who();
        let receives = rooms.net.sees_up(who) && !self.machine.is_paused();

        if rooms.k.knobs().spool == Spooling::Unsynced && self.machine.life() > 1 {
            // The node may not have recovered the newest number of its former life, and must then
            // accept the confirmation.
            return;
        }

        let now = self.clock(rooms.k);
        let newest = self.handed_over.values().max().copied();
        let (Some(newest), true) = (newest, receives) else { return };
        let payload = forged(rooms.k.rng(), &self.name, newest, lie);
        let Some(core) = &mut self.core else { return };

        let counts = |core: &NodeCore| {
            let status = core.stats().status;
            let refused: u64 = status.confirmations.rejected.values().sum();
            // The report has the same count.
            let bus = Bus { confirmations_refused: BTreeMap::new(), ..status.bus };
            (refused, status.confirmations.accepted, status.unconfirmed_samples, bus)
        };

        let before = counts(core);
        let is_accepted = core.on_confirmation(now, &payload).is_ok();
        let after = counts(core);
        let is_inert =
            (before.0 + 1, before.1, before.2, &before.3) == (after.0, after.1, after.2, &after.3);

        if is_accepted || !is_inert {
            let words = || format!("{who}: {lie:?}: {before:?}, then {after:?}");
            return rooms.k.fail("a forged confirmation changes nothing", words);
        }

        rooms.k.reach("forgery refused");
    }

    /// SIGTERM: the sockets are read empty and closed, the last interval is sealed.
    pub fn terminate(&mut self, rooms: &mut NodeRooms<'_>, down: Time) {
        if self.machine.is_paused() {
            // The signal has no effect on a stopped process.
            return;
        }
        let now = self.clock(rooms.k);
        if self.departure.step() == Step::Running {
            self.down = Some(down);
            self.departure.on_shutdown_requested(now.mono);
            self.departure.on_polled(now.mono, SocketPoll::default(), false);
        }
        self.settle(rooms);
    }

    /// One turn of the driver after an event.
    fn settle(&mut self, rooms: &mut NodeRooms<'_>) {
        let who = self.who();
        let now = self.clock(rooms.k);
        let Some(core) = &mut self.core else { return };
        self.job.answer(rooms, core);
        if self.departure.step() == Step::Draining && !core.is_leaving() {
            core.on_leave(now);
        }
        self.departure.on_deadline(now.mono, core.is_drained(now));

        if self.departure.step() >= Step::Closing {
            let is_drained = core.is_drained(now);
            rooms.k.trace(|| {
                format!("{who}: ends, {}", if is_drained { "drained" } else { "holding" })
            });
            return self.leave(rooms);
        }

        core.on_deadline(now);
        self.observe(rooms);
        self.begin_spool_write(rooms, now);
        self.publish(rooms, now);
        self.publish_letters(rooms, now);
        self.observe(rooms);
        self.set_timer(rooms.k);
    }

    /// Reports the core's own figures to the oracle.
    fn observe(&mut self, rooms: &mut NodeRooms<'_>) {
        let now = self.clock(rooms.k);
        let Some(core) = &mut self.core else { return };
        rooms.oracle.incarnation_mut().observe(rooms.k, now, core.stats());
    }

    fn set_timer(&mut self, k: &mut Kernel) {
        let Some(core) = &self.core else { return };
        let deadline = core.next_deadline().min(self.departure.next_deadline());
        if let Some(at) = self.machine.set_timer(deadline) {
            k.at(at, Event::Timer(self.who()));
        }
    }

    fn leave(&mut self, rooms: &mut NodeRooms<'_>) {
        let down = self.down.take().unwrap_or(MILLISECOND);
        self.finish_spool(rooms);
        self.end(rooms, End::Terminated);
        rooms.k.after(down, Event::Undo(Undo::Start(self.who())));
    }

    /// Its process has ended.
    pub fn end(&mut self, rooms: &mut NodeRooms<'_>, end: End) {
        let who = self.who();

        if end == End::Killed && self.departure.step() == Step::Running {
            // The moment at which most is at stake: right after a frame came, perhaps answered.
            self.load(rooms, 2, 1);
        }

        self.observe(rooms);
        rooms.k.trace(|| format!("{who}: gone ({end:?})"));
        if self.core.take().is_some()
            && let Some(left_holding) =
                rooms.oracle.on_ended(rooms.k, end, self.spool.noted_incarnation())
        {
            self.left_holding = left_holding;
        }
        let spool = rooms.k.knobs().spool;
        self.spool.end(end, spool, rooms.k.rng());
        self.handed_over.clear();
        self.letters.clear();
        self.machine.end();
        rooms.net.clear(who);
    }

    fn publish(&mut self, rooms: &mut NodeRooms<'_>, now: Now) {
        while !rooms.k.is_broken() {
            let was_open = rooms.oracle.incarnation().stats().is_some_and(NodeCore::is_open);
            let Some(core) = &mut self.core else { return };
            let Some(publish) = core.next_publish(now) else { return };
            if was_open {
                rooms.k.fail("an open breaker lets nothing pass", || publish.message_id.clone());
            }
            if !self.hand_over(rooms, now, publish) {
                return;
            }
        }
    }

    fn publish_letters(&mut self, rooms: &mut NodeRooms<'_>, now: Now) {
        let who = self.who();
        let Some(core) = &mut self.core else { return };
        while let Some(letter) = core.next_dead_letter(now) {
            let DeadLetter { ticket, name, .. } = letter;
            rooms.k.trace(|| format!("{who}: sends the dead letter of {name:?}"));
            self.letters.insert(ticket, letter);
            rooms.net.request(rooms.k, who, Request::DeadLetter { ticket });
        }
    }

    /// Hands one message to the node's own client; false when that takes no more.
    fn hand_over(&mut self, rooms: &mut NodeRooms<'_>, now: Now, publish: Publish) -> bool {
        let who = self.who();
        let Publish { ticket, subject, message_id, payload, .. } = &publish;
        let (ticket, lane) = (*ticket, lane_of(subject));

        let name = match rooms.oracle.history_mut().note(rooms.k.now(), subject, payload) {
            Ok((name, is_new)) => {
                let is_crash_report = rooms.oracle.history().is_crash_report(&name);
                let branch = if is_crash_report { "crash report" } else { "sent again" };
                rooms.k.reach_n(branch, u64::from(is_crash_report || !is_new));
                if lane == Lane::Emergency && (is_crash_report || !is_new) {
                    rooms.oracle.incarnation_mut().on_emergency(rooms.k, now, false);
                }
                let is_own = self.core.as_ref().is_some_and(|core| core.recorded().0 == name.0);

                if lane == Lane::Emergency && is_new && is_own {
                    let history = rooms.oracle.history();
                    let message = Overtaking {
                        is_urgent: history.is_urgent(&name),
                        has_samples: history.has_samples(&name),
                    };
                    rooms.oracle.incarnation().on_overtaking(rooms.k, message);
                }

                name
            }
            Err(what) => {
                rooms.k.fail("what was sent never changes", || what);
                return false;
            }
        };

        rooms.k.trace(|| format!("{who}: sends {message_id} ({} bytes)", payload.len()));
        self.handed_over.insert(ticket, name);

        if self.is_jammed && rooms.k.rng().chance(700) {
            if rooms.k.rng().chance(500) {
                let Some(core) = &mut self.core else { return false };
                core.on_not_taken(now, ticket);
                return false;
            }
            self.report_locally(rooms.k, BusEvent::Refused { ticket, reason: Refusal::HandOver });
            return true;
        }

        // No broker has a limit so low that a node's message about itself does not pass.
        if payload.len() > rooms.k.knobs().payload_max && subject.ends_with(".latency") {
            rooms.k.reach("message refused");
            self.report_locally(rooms.k, BusEvent::Refused { ticket, reason: Refusal::TooLarge });
            return true;
        }

        let message = Message { from: self.number, lane, name, publish };
        rooms.net.request(rooms.k, who, Request::Publish { message: Rc::new(message) });
        true
    }

    fn report_locally(&self, k: &mut Kernel, event: BusEvent) {
        let (node, life) = (self.number, self.machine.life());
        let span = k.rng().span(10 * MICROSECOND, 1_000 * MILLISECOND);
        k.after(span, Event::Client { node, life, event });
    }

    /// Begins to write what has changed into the spool, unless a write is under way.
    fn begin_spool_write(&mut self, rooms: &mut NodeRooms<'_>, now: Now) {
        let Some(core) = &mut self.core else { return };
        let (longest, node, life) = (rooms.k.knobs().spool_write, self.number, self.machine.life());

        if self.spool.begin_note(core, now) {
            // Notes are not synced, and yet some disks let them wait for seconds.
            let slow = rooms.k.rng().chance(50).then_some((SECOND, 5 * SECOND));
            let (least, most) = slow.unwrap_or((MICROSECOND, longest));
            let took = rooms.k.rng().span(least, most);
            rooms.k.after(took, Event::NoteWritten { node, life });
        }

        if self.spool.begin_write(core, now) {
            rooms.oracle.incarnation_mut().on_batch();
            let took = rooms.k.rng().span(MILLISECOND / 10, longest);
            rooms.k.after(took, Event::SpoolWritten { node, life });
        }
    }

    /// A note of this life is written.
    pub fn on_note_written(&mut self, rooms: &mut NodeRooms<'_>, life: u64) {
        if self.machine.life() == life {
            self.end_note(rooms.k);
            self.settle(rooms);
        }
    }

    fn end_note(&mut self, k: &Kernel) {
        let now = self.clock(k);
        let is_full = self.machine.is_disk_full();
        if let Some(core) = &mut self.core {
            self.spool.end_note(core, now, is_full);
        }
    }

    /// A write into the spool of this life ends.
    pub fn on_spool_written(&mut self, rooms: &mut NodeRooms<'_>, life: u64) {
        if self.machine.life() == life {
            self.end_spool_write(rooms);
            self.settle(rooms);
        }
    }

    fn end_spool_write(&mut self, rooms: &mut NodeRooms<'_>) {
        let now = self.clock(rooms.k);
        let syncs = rooms.k.knobs().spool == Spooling::Synced;
        let state = DiskState { is_full: self.machine.is_disk_full(), syncs };
        let Some(core) = &mut self.core else { return };
        match self.spool.end_write(core, now, state) {
            Some(true) => rooms.oracle.incarnation_mut().on_batch_written(),
            Some(false) => rooms.k.reach("spool failed"),
            None => {}
        }
    }

    /// On exit it writes everything that can be written.
    fn finish_spool(&mut self, rooms: &mut NodeRooms<'_>) {
        let now = self.clock(rooms.k);
        loop {
            self.end_spool_write(rooms);
            self.end_note(rooms.k);
            let Some(core) = &mut self.core else { return };
            self.job.answer(rooms, core);
            let notes = self.spool.begin_note(core, now);
            let writes = self.spool.begin_write(core, now);
            rooms.oracle.incarnation_mut().on_batch();
            if !writes && !notes {
                return;
            }
        }
    }
}

fn lane_of(subject: &str) -> Lane {
    let is_emergency = subject.split('.').nth(3) == Some(Lane::Emergency.as_str());
    if is_emergency { Lane::Emergency } else { Lane::Normal }
}
