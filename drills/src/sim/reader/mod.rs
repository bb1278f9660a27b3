//! An aggregator's process: what its driver, its cursors and its checkpointer do between the core
//! and the connection.
//!
//! Owns the machine, the core, the cursors, the store and a backup of it. It reads streams over
//! the network and reports every reading to the oracle, which judges. It does not decide when it
//! ends or is rolled back: the world does.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::transport::{BusEvent, Delivered};

use super::act::Who;
use super::clocks::duration;
use super::cores::aggregator::{
    CHECKPOINT_EVERY, CHECKPOINT_RETRY_PAUSE, Changes, Merged, PendingConfirmation, ReaderCore,
    Store, Turns,
};
use super::event::{Event, Message, Request, Response, StreamInfo, StreamPosition, Undo};
use super::kernel::Kernel;
use super::machine::Machine;
use super::oracle::{Mark, NodeOracle, Oracle, Reading};
use super::plan::{Knobs, Readers};
use super::rng::Rng;
use super::rooms::ReaderRooms;
use super::schedule::{MILLISECOND, Time};

/// In nanoseconds: longer than the 24 hours after which an aggregator hides a silent node.
const OVER_A_DAY: i64 = 25 * 3_600 * 1_000_000_000;
/// Days that an aggregator is away, at most: after seven it may evict nodes.
const AWAY_MAX: u32 = 3;

/// Where one lane is read.
#[derive(Default)]
struct Cursor {
    next: u64,
    stream: Option<u64>,
    is_open: bool,
    /// What has arrived and is not read, oldest first.
    arrived: VecDeque<(StreamPosition, Rc<Message>)>,
}

impl Cursor {
    fn close(&mut self) {
        self.is_open = false;
        self.arrived.clear();
    }
}

/// A checkpoint on its way to the disk.
struct Writing {
    changes: Changes,
    confirmations: Vec<PendingConfirmation>,
    mark: Mark,
}

/// One aggregator: its machine, its core while it runs, and its cursors.
pub struct LaneReader {
    which: usize,
    machine: Machine,
    core: Option<ReaderCore>,
    cursors: [Cursor; 2],
    turns: Turns,
    writing: Option<Writing>,
    /// When the next checkpoint is due, on its own clock.
    checkpoint_at: Mono,
    /// Set while it is leaving: how long it stays away.
    leaves: Option<Time>,
    store: Store,
    /// Whether it holds everything in memory, and treats that as stored.
    is_stateless: bool,
    /// A copy of the store, and what its checkpoint covers.
    backup: (Store, Mark),
    /// Days that it was away.
    away: u32,
}

impl LaneReader {
    /// An aggregator that has not started.
    pub fn new(which: usize, knobs: &Knobs, rng: &mut Rng) -> Self {
        Self {
            which,
            machine: Machine::new(knobs, rng),
            core: None,
            cursors: Default::default(),
            turns: Turns::default(),
            writing: None,
            checkpoint_at: Mono(0),
            leaves: None,
            store: Store::default(),
            is_stateless: which > 0 && knobs.readers == Readers::OneAndStateless,
            backup: (Store::default(), Mark::default()),
            away: 0,
        }
    }

    fn who(&self) -> Who {
        Who::Aggregator(self.which)
    }

    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// The core of its process, if it runs.
    pub fn core(&self) -> Option<&ReaderCore> {
        self.core.as_ref()
    }

    /// The next message that it reads of a lane.
    pub fn next(&self, lane: Lane) -> u64 {
        self.cursors[lane as usize].next
    }

    /// What its process reads from its clocks.
    pub fn clock(&self, k: &Kernel) -> Now {
        self.machine.clock(k.now())
    }

    /// Its process starts with what the store holds.
    pub fn begin(&mut self, rooms: &mut ReaderRooms<'_>) {
        let who = self.who();
        self.machine.begin(rooms.k.now());
        let now = self.clock(rooms.k);

        let (core, restored) = match ReaderCore::begin(&mut self.store, now) {
            Ok(begun) => begun,
            Err(what) => return rooms.k.fail("a checkpoint can be read", || what),
        };

        if restored {
            rooms.k.reach("restored from a checkpoint");
        }
        rooms.k.trace(|| format!("{who}: begins, restored: {restored}"));

        for lane in Lane::ALL {
            let (read, stream) = core.position(lane);
            let next = if stream.is_some() { read + 1 } else { 1 };
            self.cursors[lane as usize] = Cursor { next, stream, ..Cursor::default() };
        }

        self.turns = Turns::default();
        (self.checkpoint_at, self.leaves) = (Mono(0), None);
        self.check_restored(rooms, &core);
        self.core = Some(core);
        rooms.net.clear(who);
        rooms.net.dial_soon(rooms.k, who, self.machine.life());
        self.settle(rooms);
    }

    fn check_restored(&mut self, rooms: &mut ReaderRooms<'_>, core: &ReaderCore) {
        let (record, nodes) = rooms.oracle.reader(self.which);
        if self.is_stateless {
            record.clear_confirmed();
        }
        match self.store.merged() {
            Ok(merged) => record.check_restored(rooms.k, core, &merged, nodes),
            Err(what) => rooms.k.fail("a checkpoint can be read", || what),
        }
    }

    pub fn on_timer(&mut self, rooms: &mut ReaderRooms<'_>) {
        if !self.machine.take_timer(rooms.k.now()) {
            return;
        }
        self.settle(rooms);
        if let Some(core) = &self.core {
            let (record, nodes) = rooms.oracle.reader(self.which);
            record.watch_gaps(rooms.k, core, nodes);
        }
    }

    pub fn on_bus_event(&mut self, rooms: &mut ReaderRooms<'_>, event: &BusEvent) {
        let now = self.clock(rooms.k);
        if let Some(core) = &mut self.core {
            core.on_bus_event(now, event);
        }
        let is_up = matches!(event, BusEvent::Connected { .. });
        if is_up || *event == BusEvent::Disconnected {
            self.cursors.iter_mut().for_each(Cursor::close);
        }

        if is_up {
            for lane in Lane::ALL {
                rooms.net.request(rooms.k, self.who(), Request::StreamInfo { lane });
            }
        }

        self.settle(rooms);
    }

    /// Requests again a stream that did not exist, on the same connection.
    pub fn retry_stream(&mut self, rooms: &mut ReaderRooms<'_>, lane: Lane, generation: u64) {
        let who = self.who();
        if rooms.net.generation(who) == generation {
            rooms.net.request(rooms.k, who, Request::StreamInfo { lane });
        }
    }

    /// The broker's response arrives.
    pub fn on_response(&mut self, rooms: &mut ReaderRooms<'_>, response: Response) {
        let who = self.who();
        match response {
            Response::StreamInfo { lane, info } => self.on_stream_info(rooms, lane, info),
            Response::Message { lane, position, message } => {
                let cursor = &mut self.cursors[lane as usize];
                if cursor.is_open {
                    cursor.arrived.push_back((position, message));
                }
            }
            Response::StreamGone { lane } => {
                self.cursors[lane as usize].close();
                let (which, generation) = (self.which, rooms.net.generation(who));
                rooms.k.after(25 * MILLISECOND, Event::RetryStream { which, lane, generation });
            }
            Response::Publish(_) | Response::Confirmation { .. } => {}
        }

        self.settle(rooms);
    }

    /// As `bus::reader` does: is our position one in this stream?
    fn on_stream_info(&mut self, rooms: &mut ReaderRooms<'_>, lane: Lane, info: StreamInfo) {
        let StreamInfo { first, last, stream } = info;
        let Some(core) = &mut self.core else { return };
        let cursor = &mut self.cursors[lane as usize];
        let remade = cursor.stream.is_some_and(|known| known != stream);

        if remade || last + 1 < cursor.next {
            rooms.k.reach("stream reset");
            rooms.oracle.reader(self.which).0.on_reset();
            core.on_reset(lane, last);
            cursor.next = 1;
        }

        cursor.close();
        (cursor.stream, cursor.is_open) = (Some(stream), true);
        core.on_positioned(lane, first, last, stream);
        let next = cursor.next;
        rooms.net.request(rooms.k, self.who(), Request::Consume { lane, stream, next });
    }

    /// Reads what has arrived, in the order in which the driver reads both lanes.
    fn read_arrived(&mut self, rooms: &mut ReaderRooms<'_>) {
        while let Some(core) = &self.core {
            let mut lanes = self.turns.order(core.lane_order());
            let arrived = lanes.find_map(|lane| {
                let arrived = self.cursors[lane as usize].arrived.pop_front();
                arrived.map(|(position, message)| (lane, position, message))
            });
            let Some((lane, position, message)) = arrived else { return };
            self.turns.on_read(lane);
            self.on_message(rooms, lane, position, &message);
        }
    }

    fn on_message(
        &mut self,
        rooms: &mut ReaderRooms<'_>,
        lane: Lane,
        position: StreamPosition,
        message: &Rc<Message>,
    ) {
        let StreamPosition { stream, number, behind, at } = position;
        let (who, now) = (self.who(), self.clock(rooms.k));
        let cursor = &mut self.cursors[lane as usize];
        let Some(core) = &mut self.core else { return };
        if !cursor.is_open || number < cursor.next {
            return;
        }
        cursor.next = number + 1;

        let delivered = Delivered {
            lane,
            at: Some(at),
            sent: None,
            stream_seq: number,
            pending: behind,
            subject: message.publish.subject.clone(),
            payload: message.publish.payload.clone(),
        };

        let read = core.on_message(now, &delivered);
        rooms.k.trace(|| format!("{who}: reads {} at {number}", message.publish.message_id));
        if let Err(what) = read {
            return rooms.k.fail("what a node sends can be read", || what);
        }
        let reading = Reading { lane, stream, number, from: message.from, name: message.name };
        let (record, nodes) = rooms.oracle.reader(self.which);
        record.on_read(rooms.k, core, &nodes[message.from], reading);
    }

    /// One turn of the driver after an event.
    fn settle(&mut self, rooms: &mut ReaderRooms<'_>) {
        self.read_arrived(rooms);
        let now = self.clock(rooms.k);
        let Some(core) = &mut self.core else { return };
        let deadline = core.on_deadline(now);
        let (record, nodes) = rooms.oracle.reader(self.which);
        record.watch_expired(rooms.k, core, nodes);
        if now.mono >= self.checkpoint_at {
            self.begin_checkpoint(rooms);
        }
        if self.leaves.is_some() && self.writing.is_none() {
            return self.leave(rooms);
        }
        let waits = self.writing.is_none() && self.checkpoint_at > now.mono;
        let deadline = if waits { deadline.min(self.checkpoint_at) } else { deadline };
        if let Some(at) = self.machine.set_timer(deadline) {
            rooms.k.at(at, Event::Timer(self.who()));
        }
    }

    /// Takes a checkpoint and begins to write it, unless one is under way.
    fn begin_checkpoint(&mut self, rooms: &mut ReaderRooms<'_>) {
        let now = self.clock(rooms.k);
        let Some(core) = self.core.as_mut().filter(|_| self.writing.is_none()) else { return };
        let Some(changes) = core.take_changes(now.wall) else { return };
        let confirmations = ReaderCore::confirmations(&changes, now.mono);

        if self.is_stateless {
            self.checkpoint_at = now.mono.plus(CHECKPOINT_EVERY);
            return self.confirm(rooms, confirmations);
        }

        let mark = rooms.oracle.reader(self.which).0.mark();
        self.writing = Some(Writing { changes, confirmations, mark });
        let longest = rooms.k.knobs().checkpoint.1.max(MILLISECOND);
        let took = rooms.k.rng().span(MILLISECOND, longest);
        let (which, life) = (self.which, self.machine.life());
        rooms.k.after(took, Event::CheckpointWritten { which, life });
    }

    /// The write of a checkpoint of this life ends.
    pub fn on_checkpoint_written(&mut self, rooms: &mut ReaderRooms<'_>, life: u64) {
        if self.machine.life() != life {
            return;
        }
        let Some(writing) = self.writing.take() else { return };
        let now = self.clock(rooms.k);

        let pause = if self.machine.is_disk_full() {
            rooms.k.reach("checkpoint failed");
            if let Some(core) = &mut self.core {
                core.on_changes_lost();
            }
            CHECKPOINT_RETRY_PAUSE
        } else {
            let confirmations = self.commit(rooms.oracle, writing);
            self.confirm(rooms, confirmations);
            duration(rooms.k.knobs().checkpoint.0)
        };

        self.checkpoint_at = now.mono.plus(pause);

        if self.leaves.is_some() {
            // On exit it writes what is left, regardless of the checkpoint interval.
            self.begin_checkpoint(rooms);
        }

        self.settle(rooms);
    }

    fn commit(&mut self, oracle: &mut Oracle, writing: Writing) -> Vec<PendingConfirmation> {
        self.store.commit(writing.changes);
        oracle.reader(self.which).0.on_stored(writing.mark);
        writing.confirmations
    }

    fn confirm(&mut self, rooms: &mut ReaderRooms<'_>, confirmations: Vec<PendingConfirmation>) {
        let now = self.clock(rooms.k).mono;
        let declares = rooms.k.knobs().declares;
        let terms = |core: &ReaderCore| core.common_terms(declares);
        let common = self.core.as_ref().map(terms).unwrap_or_default();

        for confirmation in confirmations {
            let payload = Bytes::from(confirmation.encode(now, &common));
            let number =
                confirmation.node.as_str().strip_prefix('n').and_then(|n| n.parse::<usize>().ok());
            let Some(node) = number else { continue };
            let (record, nodes) = rooms.oracle.reader(self.which);
            let name: &NodeName = nodes[node].name();
            record.on_confirmation(rooms.k, node, name, &payload);
            rooms.net.request(rooms.k, self.who(), Request::Confirm { node, payload });
        }
    }

    /// Its process has ended; a transaction under way is wholly on the disk or not at all.
    pub fn end(&mut self, rooms: &mut ReaderRooms<'_>) {
        let who = self.who();
        rooms.k.trace(|| format!("{who}: gone"));
        if let Some(writing) = self.writing.take()
            && !self.machine.is_disk_full()
            && rooms.k.rng().chance(500)
        {
            self.commit(rooms.oracle, writing);
        }
        self.core = None;
        self.machine.end();
        rooms.net.clear(who);
    }

    /// SIGTERM: it writes a last checkpoint.
    pub fn terminate(&mut self, rooms: &mut ReaderRooms<'_>, down: Time) {
        if self.machine.is_paused() || self.leaves.is_some() {
            return;
        }
        self.leaves = Some(down);
        self.begin_checkpoint(rooms);
        self.settle(rooms);
    }

    fn leave(&mut self, rooms: &mut ReaderRooms<'_>) {
        let down = self.leaves.take().unwrap_or(0);
        self.end(rooms);
        rooms.k.after(down, Event::Undo(Undo::Start(self.who())));
    }

    /// Copies the store to a backup.
    pub fn back_up(&mut self, oracle: &mut Oracle) {
        let mark = oracle.reader(self.which).0.stored();
        self.backup = (self.store.copy(), mark);
    }

    /// Ends the process and replaces the store with the backup, as an operator does. It must come
    /// to the same counts by reading the streams again.
    pub fn roll_back(&mut self, rooms: &mut ReaderRooms<'_>, down: Time) {
        if !self.machine.is_alive() {
            return;
        }
        self.end(rooms);
        self.store = self.backup.0.copy();
        rooms.oracle.on_older_store(self.which, self.backup.1);
        rooms.k.after(down, Event::Undo(Undo::Start(self.who())));
    }

    /// Ends the process; when it starts again its clock shows another day: nodes are expired, but
    /// what they sent is in the ledger.
    pub fn go_away(&mut self, rooms: &mut ReaderRooms<'_>, down: Time) {
        if !self.machine.is_alive() || self.away >= AWAY_MAX {
            return;
        }
        self.away += 1;
        self.end(rooms);
        self.machine.jump(OVER_A_DAY);
        rooms.k.after(down, Event::Undo(Undo::Start(self.who())));
    }

    /// What it has of each node: in its store, or without one in its memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn merged(&mut self, k: &Kernel, oracle: &mut Oracle) -> Result<Vec<Merged>, String> {
        let now = self.clock(k);
        if let Some(core) = self.core.as_ref().filter(|_| self.is_stateless) {
            return Ok(oracle.nodes().iter().map(|node| core.merged(node.name())).collect());
        }
        if let Some(writing) = self.writing.take() {
            self.commit(oracle, writing);
        }
        if let Some(changes) = self.core.as_mut().and_then(|core| core.take_changes(now.wall)) {
            self.store.commit(changes);
        }
        let stored = self.store.merged()?;
        let of = |node: &NodeOracle| stored.get(node.name().as_str()).cloned().unwrap_or_default();
        Ok(oracle.nodes().iter().map(of).collect())
    }
}
