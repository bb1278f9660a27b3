//! The events of a run, and the messages between processes and the broker.

use std::rc::Rc;

use bytes::Bytes;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::transport::{BusEvent, Publish, Ticket};

use super::act::{Crash, Who};
use super::schedule::Time;

/// A message that a node publishes.
#[derive(Clone, Debug)]
pub struct Message {
    /// The node that sent it.
    pub from: usize,
    /// The lane that its subject names.
    pub lane: Lane,
    /// Its incarnation and its sequence number.
    pub name: (u64, u64),
    /// What its core hands over.
    pub publish: Publish,
}

/// What a process sends to the broker.
#[derive(Clone, Debug)]
pub enum Request {
    /// A node publishes; the message's ticket comes back with the response.
    Publish { message: Rc<Message> },
    /// A node publishes a dead letter, whose ticket comes back with the response.
    DeadLetter { ticket: Ticket },
    /// An aggregator requests how far a stream reaches.
    StreamInfo { lane: Lane },
    /// An aggregator reads a stream.
    Consume {
        lane: Lane,
        /// Which stream of that name the aggregator was shown.
        stream: u64,
        /// The first message that it wants.
        next: u64,
    },
    /// An aggregator confirms messages of a node; no stream stores it.
    Confirm { node: usize, payload: Bytes },
}

/// What the broker sends to a process.
#[derive(Clone, Debug)]
pub enum Response {
    /// The outcome of a publish.
    Publish(BusEvent),
    /// How far a stream reaches.
    StreamInfo { lane: Lane, info: StreamInfo },
    /// One message of a stream.
    Message { lane: Lane, position: StreamPosition, message: Rc<Message> },
    /// The stream that was read does not exist any more.
    StreamGone { lane: Lane },
    /// A confirmation for a node.
    Confirmation { payload: Bytes },
}

/// How far a stream reaches.
#[derive(Clone, Copy, Debug)]
pub struct StreamInfo {
    /// Number of its oldest message.
    pub first: u64,
    /// Number of its newest message.
    pub last: u64,
    /// Identifies the stream among all of its name.
    pub stream: u64,
}

/// Where a message is in a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamPosition {
    pub stream: u64,
    pub number: u64,
    pub behind: u64,
    /// When the broker stored it.
    pub at: Wall,
}

/// What ends a fault.
#[derive(Clone, Copy, Debug)]
pub enum Undo {
    Unblock(Who),
    /// A slow network becomes fast.
    Hasten(Who),
    /// The stopped broker continues.
    ResumeBroker,
    /// The broker starts again.
    StartBroker(Crash),
    /// The broker's disk has free space.
    BrokerRoom,
    /// Acknowledgements are no longer lost.
    Acknowledge,
    /// A process starts again.
    Start(Who),
    /// A machine's disk has free space.
    DiskRoom(Who),
    /// A node's client takes messages again.
    Unjam(usize),
    /// Confirmations are no longer delayed.
    Punctual,
    /// A paused process continues.
    Continue(Who),
}

/// One event of a run.
#[derive(Debug)]
pub enum Event {
    /// A step of the plan.
    Step(usize),
    /// The end of a fault.
    Undo(Undo),
    /// The deadline of a process.
    Timer(Who),
    /// A request arrives at the broker's machine.
    Request { who: Who, generation: u64, request: Request },
    /// A response arrives at a process.
    Response { who: Who, generation: u64, response: Response },
    /// A process detects that its connection is broken.
    ConnectionLost { who: Who, generation: u64 },
    /// A process tries to connect.
    Dial { who: Who, life: u64 },
    /// A new connection is ready for use.
    Established { who: Who, generation: u64 },
    /// The response to a probe arrives.
    ProbeReply { who: Who, generation: u64 },
    /// The broker has not responded for long.
    Stall {
        who: Who,
        /// When it responded last.
        since: Time,
    },
    /// The broker has not responded for too long.
    Timeout {
        who: Who,
        /// When it responded last.
        since: Time,
    },
    /// A delayed confirmation continues to its node.
    DelayedConfirmation {
        node: usize,
        /// Its place among all confirmations.
        number: u64,
        payload: Bytes,
    },
    /// A node's own client reports.
    Client { node: usize, life: u64, event: BusEvent },
    /// The write of a batch into a node's spool ends.
    SpoolWritten { node: usize, life: u64 },
    /// The write of a node's note ends.
    NoteWritten { node: usize, life: u64 },
    /// The write of a checkpoint ends.
    CheckpointWritten { which: usize, life: u64 },
    /// An aggregator requests its stream again.
    RetryStream { which: usize, lane: Lane, generation: u64 },
}

impl Event {
    /// The process that cannot receive the event while it is paused.
    pub fn receiver(&self) -> Option<Who> {
        match self {
            Self::Timer(who)
            | Self::Response { who, .. }
            | Self::ConnectionLost { who, .. }
            | Self::Dial { who, .. }
            | Self::Established { who, .. }
            | Self::ProbeReply { who, .. }
            | Self::Stall { who, .. }
            | Self::Timeout { who, .. } => Some(*who),
            Self::Client { node, .. }
            | Self::SpoolWritten { node, .. }
            | Self::NoteWritten { node, .. } => Some(Who::Node(*node)),
            Self::CheckpointWritten { which, .. } | Self::RetryStream { which, .. } => {
                Some(Who::Aggregator(*which))
            }
            Self::Step(_)
            | Self::Undo(_)
            | Self::DelayedConfirmation { .. }
            | Self::Request { .. } => None,
        }
    }
}
