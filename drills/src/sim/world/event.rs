//! What can happen in a run, and what travels between processes and the broker.

use std::rc::Rc;

use bytes::Bytes;
use plimsoll_schemas::subject::Lane;

use crate::sim::act::Who;
use crate::sim::agenda::Time;
use crate::sim::broker::{Crash, Message};
use crate::sim::node::News;

/// What a process sends to the broker.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Publish { token: u64, message: Rc<Message> },
    Look { lane: Lane },
    Open { lane: Lane, next: u64 },
    Tell { node: usize, payload: Bytes },
}

/// What the broker sends to a process.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    News(News),
    Looked { lane: Lane, first: u64, last: u64, stream: u64 },
    Message { lane: Lane, place: Place, message: Rc<Message> },
    Gone { lane: Lane },
    Told { payload: Bytes },
}

/// Where a message stands in a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) stream: u64,
    pub(super) number: u64,
    /// Messages behind it.
    pub(super) behind: u64,
    pub(super) at: Time,
}

/// What ends a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    Unblock(Who),
    Hasten(Who),
    Resume,
    ComeUp(Crash),
    Room,
    Remember,
    Reboot(Who),
    DiskRoom(Who),
    Unjam(usize),
    Punctual,
    Continue(Who),
}

#[derive(Debug)]
pub(super) enum Event {
    Step(usize),
    Undo(Undo),
    Timer(Who),
    Request {
        who: Who,
        generation: u64,
        request: Request,
    },
    Answer {
        who: Who,
        generation: u64,
        answer: Answer,
    },
    /// The news of a broken connection arrives.
    Hear {
        who: Who,
        generation: u64,
    },
    /// Another attempt to connect.
    Dial {
        who: Who,
        life: u64,
    },
    /// A new connection is ready for use.
    Established {
        who: Who,
        generation: u64,
    },
    /// A probe comes back.
    Echo {
        who: Who,
        generation: u64,
    },
    /// The broker has been silent for long.
    Silence {
        who: Who,
        since: Time,
    },
    /// Too long.
    GiveUp {
        who: Who,
        since: Time,
    },
    /// A confirmation that was held up somewhere.
    Late {
        node: usize,
        number: u64,
        payload: Bytes,
    },
    /// A process's own client answers.
    Local {
        node: usize,
        life: u64,
        news: News,
    },
    /// A batch is in a node's spool, or not.
    Spooled {
        node: usize,
        life: u64,
    },
    /// A checkpoint is written, or not.
    Written {
        which: usize,
        life: u64,
    },
    /// A cursor looks for its stream again.
    LookAgain {
        which: usize,
        lane: Lane,
        generation: u64,
    },
}
