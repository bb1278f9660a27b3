//! What the aggregator's driver, cursors and keeper do between its core and the world.

use std::rc::Rc;

use bytes::Bytes;
use plimsoll_aggregator::core::Delivered;
use plimsoll_aggregator::core::checkpoint::Changes;
use plimsoll_schemas::limits::aggregator::CHECKPOINT_RETRY_PAUSE;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;

use super::fold::Fold;
use super::rollback::Copy;
use super::{Answer, Event, Place, Request, Time, Undo, Who, World};
use crate::sim::agenda::MILLISECOND;
use crate::sim::book::Name;
use crate::sim::broker::Message;
use crate::sim::clocks::duration;
use crate::sim::node::News;
use crate::sim::reader::{ReaderCore, Store};

/// Where one lane is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) next: u64,
    stream: Option<u64>,
    is_open: bool,
}

/// One message read, and where it stood.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) lane: Lane,
    pub(super) stream: u64,
    pub(super) number: u64,
    pub(super) from: usize,
    pub(super) name: Name,
    /// Streams that had been lost when it was read.
    pub(super) resets: u64,
}

/// A checkpoint on its way to the disk.
struct Writing {
    changes: Changes,
    told: Vec<(usize, Bytes)>,
    mark: Mark,
}

/// How far reading had come when a checkpoint was taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) readings: usize,
    pub(super) resets: u64,
}

/// The aggregator and its store.
#[derive(Default)]
pub(super) struct ReaderProcess {
    pub(super) core: Option<ReaderCore>,
    pub(super) cursors: [Cursor; 2],
    writing: Option<Writing>,
    keeps_at: Mono,
    /// Set while it is leaving: how long it stays away.
    leaves: Option<Time>,
    pub(super) store: Store,
    /// What the checkpoint in the store covers.
    pub(super) mark: Mark,
    /// What led to the present state.
    pub(super) readings: Vec<Reading>,
    pub(super) resets: u64,
    /// A copy of an older store.
    pub(super) copy: Copy,
    /// Nodes that it tells people of, for gaps in their accounts.
    pub(super) gaps: Vec<bool>,
    /// The same by node.
    pub(super) folds: Vec<Fold>,
}

impl ReaderProcess {
    pub(super) fn new(nodes: usize) -> Self {
        let copy = Copy::of_nothing(nodes);
        Self { store: Store::new(nodes), copy, gaps: vec![false; nodes], ..Self::default() }
    }
}

impl World {
    pub(super) fn begin_reader(&mut self) {
        let at = self.now();
        self.machine(Who::Aggregator).begin(at);
        let now = self.clock(Who::Aggregator);
        let (core, restored) = match ReaderCore::begin(&mut self.reader.store, now) {
            Ok(begun) => begun,
            Err(what) => return self.break_with("a checkpoint can be read", || what),
        };
        if restored {
            self.reached.reach("restored from a checkpoint");
        }
        self.say(|| format!("aggregator: begins, restored: {restored}"));
        for lane in Lane::ALL {
            let (read, stream) = core.position(lane);
            let next = if stream.is_some() { read + 1 } else { 1 };
            self.reader.cursors[lane as usize] = Cursor { next, stream, is_open: false };
        }
        self.reader.core = Some(core);
        (self.reader.keeps_at, self.reader.leaves) = (Mono(0), None);
        self.check_restored();
        self.link(Who::Aggregator).forget();
        self.dial_soon(Who::Aggregator);
        self.settle_reader();
    }

    pub(super) fn on_reader_news(&mut self, news: News) {
        let is_up = news == News::Connected;
        if is_up || news == News::Disconnected {
            self.reader.cursors.iter_mut().for_each(|cursor| cursor.is_open = false);
        }
        if is_up {
            for lane in Lane::ALL {
                self.request(Who::Aggregator, Request::Look { lane });
            }
        }
        self.settle_reader();
    }

    /// The stream under a cursor is gone: the broker says so, and the cursor looks again.
    pub(super) fn end_consumer(&mut self, lane: Lane) {
        if self.consumers[lane as usize].take().is_some() {
            let generation = self.link(Who::Aggregator).generation;
            let answer = Answer::Gone { lane };
            self.after(MILLISECOND, Event::Answer { who: Who::Aggregator, generation, answer });
        }
    }

    pub(super) fn look_again(&mut self, lane: Lane, generation: u64) {
        if self.link(Who::Aggregator).generation == generation {
            self.request(Who::Aggregator, Request::Look { lane });
        }
    }

    pub(super) fn on_lane(&mut self, answer: Answer) {
        match answer {
            Answer::Looked { lane, first, last, stream } => {
                self.on_looked(lane, first, last, stream);
            }
            Answer::Message { lane, place, message } => self.on_reading(lane, place, &message),
            Answer::Gone { lane } => {
                self.reader.cursors[lane as usize].is_open = false;
                let generation = self.link(Who::Aggregator).generation;
                self.after(25 * MILLISECOND, Event::LookAgain { lane, generation });
            }
            Answer::News(_) | Answer::Told { .. } => {}
        }
        self.settle_reader();
    }

    /// As `bus::reader` does: is our position one in this stream?
    fn on_looked(&mut self, lane: Lane, first: u64, last: u64, stream: u64) {
        let Some(core) = &mut self.reader.core else { return };
        let cursor = &mut self.reader.cursors[lane as usize];
        let remade = cursor.stream.is_some_and(|known| known != stream);
        if remade || last + 1 < cursor.next {
            self.reached.reach("stream reset");
            self.reader.resets += 1;
            core.on_reset(lane, last);
            cursor.next = 1;
        }
        (cursor.stream, cursor.is_open) = (Some(stream), true);
        core.on_positioned(lane, first, last, stream);
        let next = cursor.next;
        self.request(Who::Aggregator, Request::Open { lane, next });
    }

    fn on_reading(&mut self, lane: Lane, place: Place, message: &Rc<Message>) {
        let Place { stream, number, behind, at } = place;
        let now = self.clock(Who::Aggregator);
        let cursor = &mut self.reader.cursors[lane as usize];
        let Some(core) = &mut self.reader.core else { return };
        if !cursor.is_open || number < cursor.next {
            return;
        }
        // A stream made anew between looking and opening is read under the old one's name.
        let stream = cursor.stream.unwrap_or(stream);
        cursor.next = number + 1;
        let delivered = Delivered {
            lane,
            at: Some(self.broker.clocks.now(0, at).wall),
            stream_seq: number,
            pending: behind,
            subject: &message.subject,
            payload: &message.payload,
        };
        let read = core.on_message(now, delivered);
        let (from, name, resets) = (message.from, message.name, self.reader.resets);
        let reading = Reading { lane, stream, number, from, name, resets };
        self.say(|| format!("aggregator: reads {} at {number}", message.id));
        if let Err(what) = read {
            return self.break_with("what a node sends can be read", || what);
        }
        self.fold(&reading);
        self.reader.readings.push(reading);
    }

    pub(super) fn settle_reader(&mut self) {
        let now = self.clock(Who::Aggregator);
        let Some(core) = &mut self.reader.core else { return };
        let deadline = core.on_deadline(now);
        if now.mono >= self.reader.keeps_at {
            self.keep();
        }
        if self.reader.leaves.is_some() && self.reader.writing.is_none() {
            return self.leave_reader();
        }
        let waits = self.reader.writing.is_none() && self.reader.keeps_at > now.mono;
        let deadline = if waits { deadline.min(self.reader.keeps_at) } else { deadline };
        let machine = self.machine(Who::Aggregator);
        let at = machine.clocks.when(machine.born, deadline);
        if at < machine.timer_at {
            machine.timer_at = at;
            self.agenda.plan(at, Event::Timer(Who::Aggregator));
        }
    }

    /// Takes a checkpoint and begins to write it, unless one is under way.
    fn keep(&mut self) {
        let now = self.clock(Who::Aggregator);
        let Some(core) = self.reader.core.as_mut().filter(|_| self.reader.writing.is_none()) else {
            return;
        };
        let Some(changes) = core.take_changes(now.wall) else { return };
        let told = ReaderCore::confirmations(&changes);
        let mark = Mark { readings: self.reader.readings.len(), resets: self.reader.resets };
        self.reader.writing = Some(Writing { changes, told, mark });
        let took = self.dice.span(MILLISECOND, self.knobs.checkpoint.1.max(MILLISECOND));
        let life = self.machine(Who::Aggregator).life;
        self.after(took, Event::Written { life });
    }

    pub(super) fn on_written(&mut self, life: u64) {
        if self.machine(Who::Aggregator).life != life {
            return;
        }
        let Some(writing) = self.reader.writing.take() else { return };
        let now = self.clock(Who::Aggregator);
        let pause = if self.machine(Who::Aggregator).is_disk_full {
            self.reached.reach("checkpoint failed");
            if let Some(core) = &mut self.reader.core {
                core.on_changes_lost();
            }
            CHECKPOINT_RETRY_PAUSE
        } else {
            let told = self.commit(writing);
            self.confirm(told);
            duration(self.knobs.checkpoint.0)
        };
        self.reader.keeps_at = now.mono.plus(pause);
        if self.reader.leaves.is_some() {
            // On the way out it writes what is left, whatever the pause.
            self.keep();
        }
        self.settle_reader();
    }

    fn commit(&mut self, writing: Writing) -> Vec<(usize, Bytes)> {
        self.reader.store.commit(writing.changes);
        self.reader.mark = writing.mark;
        writing.told
    }

    fn confirm(&mut self, told: Vec<(usize, Bytes)>) {
        for (node, payload) in told {
            self.note_confirmed(node, &payload);
            self.request(Who::Aggregator, Request::Tell { node, payload });
        }
    }

    /// The process is gone at once; a transaction under way is wholly on the disk or not at all.
    pub(super) fn end_reader(&mut self) {
        self.say(|| "aggregator: gone".to_owned());
        let disk_full = self.machine(Who::Aggregator).is_disk_full;
        if let Some(writing) = self.reader.writing.take()
            && !disk_full
            && self.dice.chance(500)
        {
            self.commit(writing);
        }
        self.reader.core = None;
        self.machine(Who::Aggregator).end();
        self.link(Who::Aggregator).forget();
    }

    pub(super) fn ask_reader(&mut self, down: Time) {
        if self.machine(Who::Aggregator).is_paused || self.reader.leaves.is_some() {
            return;
        }
        self.reader.leaves = Some(down);
        self.keep();
        self.settle_reader();
    }

    fn leave_reader(&mut self) {
        let down = self.reader.leaves.take().unwrap_or(0);
        self.end_reader();
        self.after(down, Event::Undo(Undo::Reboot(Who::Aggregator)));
    }

    /// The state as it is now, in the store.
    pub(super) fn store_all(&mut self) {
        let now = self.clock(Who::Aggregator);
        if let Some(writing) = self.reader.writing.take() {
            self.commit(writing);
        }
        let changes = self.reader.core.as_mut().and_then(|core| core.take_changes(now.wall));
        if let Some(changes) = changes {
            self.reader.store.commit(changes);
        }
    }
}
