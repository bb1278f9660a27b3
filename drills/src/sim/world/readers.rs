//! What the aggregator's driver, cursors and keeper do between its core and the world.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use plimsoll_aggregator::core::Delivered;
use plimsoll_aggregator::core::durable::Changes;
use plimsoll_aggregator::core::durable::PendingConfirmation;
use plimsoll_aggregator::limits::{CHECKPOINT_EVERY, CHECKPOINT_RETRY_PAUSE};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;

use super::fold::Fold;
use super::rollback::Copy;
use super::{Answer, Event, Knobs, Place, Request, Time, Undo, Who, World};
use crate::sim::agenda::MILLISECOND;
use crate::sim::book::Name;
use crate::sim::broker::Message;
use crate::sim::clocks::duration;
use crate::sim::node::News;
use crate::sim::plan::Readers;
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
    told: Vec<PendingConfirmation>,
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
    /// Whether it keeps everything in memory, and calls that stored.
    pub(super) is_stateless: bool,
    /// What each node was last told is stored: incarnation, first and last number.
    pub(super) confirmed: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    /// What the checkpoint in the store covers.
    pub(super) mark: Mark,
    /// What led to the present state.
    pub(super) readings: Vec<Reading>,
    pub(super) resets: u64,
    /// A copy of an older store.
    pub(super) copy: Copy,
    /// Days that it was away.
    pub(super) away: u32,
    /// Nodes that it tells people of, for gaps in their accounts.
    pub(super) gaps: Vec<bool>,
    /// The same by node.
    pub(super) folds: Vec<Fold>,
}

impl ReaderProcess {
    pub(super) fn new(which: usize, knobs: &Knobs) -> Self {
        let nodes = knobs.nodes;
        let is_stateless = which > 0 && knobs.readers == Readers::OneAndStateless;
        let copy = Copy::default();
        Self { copy, is_stateless, gaps: vec![false; nodes], ..Self::default() }
    }
}

impl World {
    pub(super) fn begin_reader(&mut self, which: usize) {
        let at = self.now();
        self.machine(Who::Aggregator(which)).begin(at);
        let now = self.clock(Who::Aggregator(which));
        let (core, restored) = match ReaderCore::begin(&mut self.readers[which].store, now) {
            Ok(begun) => begun,
            Err(what) => return self.break_with("a checkpoint can be read", || what),
        };
        if restored {
            self.reached.reach("restored from a checkpoint");
        }
        self.say(|| format!("{}: begins, restored: {restored}", Who::Aggregator(which)));
        for lane in Lane::ALL {
            let (read, stream) = core.position(lane);
            let next = if stream.is_some() { read + 1 } else { 1 };
            self.readers[which].cursors[lane as usize] = Cursor { next, stream, is_open: false };
        }
        self.readers[which].core = Some(core);
        (self.readers[which].keeps_at, self.readers[which].leaves) = (Mono(0), None);
        if self.readers[which].is_stateless {
            self.readers[which].confirmed.clear();
        }
        self.check_restored(which);
        self.link(Who::Aggregator(which)).forget();
        self.dial_soon(Who::Aggregator(which));
        self.settle_reader(which);
    }

    pub(super) fn on_reader_news(&mut self, which: usize, news: News) {
        let is_up = news == News::Connected;
        if is_up || news == News::Disconnected {
            self.readers[which].cursors.iter_mut().for_each(|cursor| cursor.is_open = false);
        }
        if is_up {
            for lane in Lane::ALL {
                self.request(Who::Aggregator(which), Request::Look { lane });
            }
        }
        self.settle_reader(which);
    }

    /// The stream under the cursors is gone: the broker says so, and they look again.
    pub(super) fn end_consumers(&mut self, lane: Lane) {
        for which in 0..self.readers.len() {
            if self.consumers[which][lane as usize].take().is_some() {
                let who = Who::Aggregator(which);
                let (generation, answer) = (self.link(who).generation, Answer::Gone { lane });
                self.after(MILLISECOND, Event::Answer { who, generation, answer });
            }
        }
    }

    pub(super) fn look_again(&mut self, which: usize, lane: Lane, generation: u64) {
        if self.link(Who::Aggregator(which)).generation == generation {
            self.request(Who::Aggregator(which), Request::Look { lane });
        }
    }

    pub(super) fn on_lane(&mut self, which: usize, answer: Answer) {
        match answer {
            Answer::Looked { lane, first, last, stream } => {
                self.on_looked(which, lane, first, last, stream);
            }
            Answer::Message { lane, place, message } => {
                self.on_reading(which, lane, place, &message);
            }
            Answer::Gone { lane } => {
                self.readers[which].cursors[lane as usize].is_open = false;
                let generation = self.link(Who::Aggregator(which)).generation;
                self.after(25 * MILLISECOND, Event::LookAgain { which, lane, generation });
            }
            Answer::News(_) | Answer::Told { .. } => {}
        }
        self.settle_reader(which);
    }

    /// As `bus::reader` does: is our position one in this stream?
    fn on_looked(&mut self, which: usize, lane: Lane, first: u64, last: u64, stream: u64) {
        let reader = &mut self.readers[which];
        let Some(core) = &mut reader.core else { return };
        let cursor = &mut reader.cursors[lane as usize];
        let remade = cursor.stream.is_some_and(|known| known != stream);
        if remade || last + 1 < cursor.next {
            self.reached.reach("stream reset");
            reader.resets += 1;
            core.on_reset(lane, last);
            cursor.next = 1;
        }
        (cursor.stream, cursor.is_open) = (Some(stream), true);
        core.on_positioned(lane, first, last, stream);
        let next = cursor.next;
        self.request(Who::Aggregator(which), Request::Open { lane, next });
    }

    fn on_reading(&mut self, which: usize, lane: Lane, place: Place, message: &Rc<Message>) {
        let Place { stream, number, behind, at } = place;
        let now = self.clock(Who::Aggregator(which));
        let reader = &mut self.readers[which];
        let cursor = &mut reader.cursors[lane as usize];
        let Some(core) = &mut reader.core else { return };
        if !cursor.is_open || number < cursor.next {
            return;
        }
        // A stream made anew between looking and opening is read under the old one's name.
        let stream = cursor.stream.unwrap_or(stream);
        cursor.next = number + 1;
        let delivered = Delivered {
            lane,
            at: Some(self.broker.clocks.now(0, at).wall),
            sent: None,
            stream_seq: number,
            pending: behind,
            subject: &message.subject,
            payload: &message.payload,
        };
        let read = core.on_message(now, delivered);
        let (from, name, resets) = (message.from, message.name, self.readers[which].resets);
        let reading = Reading { lane, stream, number, from, name, resets };
        self.say(|| format!("{}: reads {} at {number}", Who::Aggregator(which), message.id));
        if let Err(what) = read {
            return self.break_with("what a node sends can be read", || what);
        }
        self.fold(which, &reading);
        self.readers[which].readings.push(reading);
    }

    pub(super) fn settle_reader(&mut self, which: usize) {
        let now = self.clock(Who::Aggregator(which));
        let Some(core) = &mut self.readers[which].core else { return };
        let deadline = core.on_deadline(now);
        self.watch_hidden(which);
        if now.mono >= self.readers[which].keeps_at {
            self.keep(which);
        }
        if self.readers[which].leaves.is_some() && self.readers[which].writing.is_none() {
            return self.leave_reader(which);
        }
        let waits =
            self.readers[which].writing.is_none() && self.readers[which].keeps_at > now.mono;
        let deadline = if waits { deadline.min(self.readers[which].keeps_at) } else { deadline };
        let machine = self.machine(Who::Aggregator(which));
        let at = machine.clocks.when(machine.born, deadline);
        if at < machine.timer_at {
            machine.timer_at = at;
            self.agenda.plan(at, Event::Timer(Who::Aggregator(which)));
        }
    }

    /// Takes a checkpoint and begins to write it, unless one is under way.
    fn keep(&mut self, which: usize) {
        let now = self.clock(Who::Aggregator(which));
        let reader = &mut self.readers[which];
        let Some(core) = reader.core.as_mut().filter(|_| reader.writing.is_none()) else { return };
        let Some(changes) = core.take_changes(now.wall) else { return };
        let told = ReaderCore::confirmations(&changes, now.mono);
        if self.readers[which].is_stateless {
            self.readers[which].keeps_at = now.mono.plus(CHECKPOINT_EVERY);
            return self.confirm(which, told);
        }
        let mark = Mark {
            readings: self.readers[which].readings.len(),
            resets: self.readers[which].resets,
        };
        self.readers[which].writing = Some(Writing { changes, told, mark });
        let took = self.dice.span(MILLISECOND, self.knobs.checkpoint.1.max(MILLISECOND));
        let life = self.machine(Who::Aggregator(which)).life;
        self.after(took, Event::Written { which, life });
    }

    pub(super) fn on_written(&mut self, which: usize, life: u64) {
        if self.machine(Who::Aggregator(which)).life != life {
            return;
        }
        let Some(writing) = self.readers[which].writing.take() else { return };
        let now = self.clock(Who::Aggregator(which));
        let pause = if self.machine(Who::Aggregator(which)).is_disk_full {
            self.reached.reach("checkpoint failed");
            if let Some(core) = &mut self.readers[which].core {
                core.on_changes_lost();
            }
            CHECKPOINT_RETRY_PAUSE
        } else {
            let told = self.commit(which, writing);
            self.confirm(which, told);
            duration(self.knobs.checkpoint.0)
        };
        self.readers[which].keeps_at = now.mono.plus(pause);
        if self.readers[which].leaves.is_some() {
            // On the way out it writes what is left, whatever the pause.
            self.keep(which);
        }
        self.settle_reader(which);
    }

    fn commit(&mut self, which: usize, writing: Writing) -> Vec<PendingConfirmation> {
        self.readers[which].store.commit(writing.changes);
        self.readers[which].mark = writing.mark;
        writing.told
    }

    fn confirm(&mut self, which: usize, told: Vec<PendingConfirmation>) {
        let now = self.clock(Who::Aggregator(which)).mono;
        let limits = self.readers[which].core.as_ref().map(ReaderCore::limits).unwrap_or_default();
        for told in told {
            let payload = Bytes::from(told.encode(now, &limits));
            let number = told.node.as_str().strip_prefix('n').and_then(|n| n.parse().ok());
            let Some(node) = number else { continue };
            self.note_confirmed(which, node, &payload);
            self.request(Who::Aggregator(which), Request::Tell { node, payload });
        }
    }

    /// The process is gone at once; a transaction under way is wholly on the disk or not at all.
    pub(super) fn end_reader(&mut self, which: usize) {
        self.say(|| format!("{}: gone", Who::Aggregator(which)));
        let disk_full = self.machine(Who::Aggregator(which)).is_disk_full;
        if let Some(writing) = self.readers[which].writing.take()
            && !disk_full
            && self.dice.chance(500)
        {
            self.commit(which, writing);
        }
        self.readers[which].core = None;
        self.machine(Who::Aggregator(which)).end();
        self.link(Who::Aggregator(which)).forget();
    }

    pub(super) fn ask_reader(&mut self, which: usize, down: Time) {
        if self.machine(Who::Aggregator(which)).is_paused || self.readers[which].leaves.is_some() {
            return;
        }
        self.readers[which].leaves = Some(down);
        self.keep(which);
        self.settle_reader(which);
    }

    fn leave_reader(&mut self, which: usize) {
        let down = self.readers[which].leaves.take().unwrap_or(0);
        self.end_reader(which);
        self.after(down, Event::Undo(Undo::Reboot(Who::Aggregator(which))));
    }

    /// The state as it is now, in the store.
    pub(super) fn store_all(&mut self, which: usize) {
        let now = self.clock(Who::Aggregator(which));
        if let Some(writing) = self.readers[which].writing.take() {
            self.commit(which, writing);
        }
        let changes =
            self.readers[which].core.as_mut().and_then(|core| core.take_changes(now.wall));
        if let Some(changes) = changes {
            self.readers[which].store.commit(changes);
        }
    }
}
