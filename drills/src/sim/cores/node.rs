//! A node's core as the simulation calls it.

use std::time::Duration;

use plimsoll_node::core::outbox::MessageNonce;
use plimsoll_node::core::outbox::Thresholds;
use plimsoll_node::core::outbox::UnconfirmedBounds;
use plimsoll_node::core::spool::Wal;
use plimsoll_node::core::spool::{self, RecoveredMessages};
use plimsoll_node::core::{Bounds, outbox::OutboxBounds};
use plimsoll_node::core::{Core, Identity};
use plimsoll_schemas::ids::{Labels, NodeName, Seq};
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::transport::{BusEvent, Publish, Ticket};
use plimsoll_schemas::wire::frame::Frame;

pub use plimsoll_node::core::Status;
pub use plimsoll_node::core::departure::{Departure, SocketPoll, Step};
pub use plimsoll_node::core::outbox::BreakerState;
pub use plimsoll_node::core::spool::{Batch, NOTES_BYTES, NoteNumber, Notes};
pub use plimsoll_node::limits::IN_FLIGHT_MAX;

use super::mesh_name::mesh_name;
use crate::sim::plan::Depths;

fn identity(node: &NodeName) -> Identity {
    let mesh = mesh_name();
    let labels = Labels::new([("rack", "r7")]).expect("a constant of plain letters");
    Identity { mesh, node: node.clone(), labels }
}

/// What a node reports of itself.
#[derive(Clone, Debug)]
pub struct NodeStats {
    pub status: Status,
    /// Samples dropped because the outbox was full.
    pub dropped: u64,
    /// Whether the last interval has ended.
    pub is_leaving: bool,
}

pub struct NodeCore {
    core: Core,
    /// Samples that it took over in drafts.
    adopted: u64,
}

/// What a node that starts finds on its disk.
pub struct DiskFiles<'a> {
    pub spool: Option<&'a [u8]>,
    pub notes: Option<Notes>,
}

/// A dead letter that a node hands over.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetter {
    pub ticket: Ticket,
    /// Incarnation and number of its message.
    pub name: (u64, u64),
    /// Samples of its message.
    pub samples: u64,
}

/// What a beginning node made of its spool.
#[derive(Clone, Debug, Default)]
pub struct Adopted {
    /// Whether there was anything.
    pub is_found: bool,
    /// Samples in drafts, which it states as its own.
    pub samples: u64,
    /// Whether the end of the file had to be left out.
    pub is_torn: bool,
    /// Why the spool's content is uncertain, if it is.
    pub doubt: Option<String>,
}

/// The bounds of a core with an outbox of these depths.
fn bounds(depths: Depths, interval: Duration) -> Bounds {
    let defaults = OutboxBounds::default();
    let Depths { drop, reroute, leave, bytes, coalesce, tokens, unconfirmed: messages } = depths;
    let (emergency_per_minute, emergency_burst, emergency_reserved) = tokens;
    let thresholds =
        Thresholds { drop, reroute, recover: leave, bytes_max: bytes, ..defaults.thresholds };

    let outbox = OutboxBounds {
        thresholds,
        coalesce_messages: coalesce,
        emergency_per_minute,
        emergency_burst,
        emergency_reserved,
        unconfirmed: UnconfirmedBounds { messages, ..defaults.unconfirmed },
        ..defaults
    };

    Bounds { interval, outbox, ..Bounds::default() }
}

impl NodeCore {
    pub fn begin(node: &NodeName, depths: Depths, interval: Duration, now: Now) -> Self {
        // Of each start another one, and the same in each repetition of the simulation.
        let nonce = MessageNonce(u128::from(now.wall.0).to_be_bytes());
        let core = Core::new(identity(node), bounds(depths, interval), now).with_nonce(nonce);
        Self { core, adopted: 0 }
    }

    /// Takes over what a spool holds and writes one from now on. `boot` names the machine's present
    /// incarnation; `syncs`: whether writes are synced.
    pub fn open_spool(
        &mut self,
        node: &NodeName,
        now: Now,
        found: DiskFiles<'_>,
        boot: &str,
        syncs: bool,
    ) -> Adopted {
        let DiskFiles { spool, notes } = found;
        let identity = identity(node);
        let read = spool.map(|bytes| spool::recover(bytes, &identity, Some(boot), now.mono));
        let journal = Wal::new(identity, (!syncs).then_some(boot));

        let (mut recovered, unusable) = match read.transpose() {
            Ok(recovered) => (recovered, None),
            Err(unusable) => (None, Some(unusable.to_string())),
        };

        let take = |notes| RecoveredMessages::take_notes(recovered.as_mut(), notes);
        let orphans = notes.map(take).unwrap_or_default();
        let doubt = recovered.as_ref().and_then(|recovered| recovered.damaged.clone());

        let mut adopted = Adopted {
            samples: 0,
            is_found: recovered.as_ref().is_some_and(|found| found.samples() > 0),
            is_torn: recovered
                .as_ref()
                .is_some_and(|found: &RecoveredMessages| found.torn_bytes > 0),
            doubt: unusable.or(doubt),
        };

        self.core.open_spool(now, journal, recovered);
        self.core.on_orphans(orphans);
        self.adopted = self.core.status().totals.recorded;
        adopted.samples = self.adopted;
        adopted
    }

    /// What is to be written into the spool.
    pub fn next_spool(&mut self, now: Now) -> Option<Batch> {
        self.core.next_spool_batch(now)
    }

    /// What is to be noted beside it.
    pub fn next_note(&mut self, now: Now) -> Option<Notes> {
        self.core.next_note(now)
    }

    /// The name of its incarnation, and the samples recorded in it that an answer relies on: taken
    /// over, and taken in, but for what it took of itself in the open interval.
    pub fn recorded(&self) -> (u64, u64) {
        let status = self.core.status();
        let taken_in = status.intake.samples - status.own_open_samples;
        (self.core.note().incarnation.0, self.adopted + taken_in)
    }

    /// It was noted, or could not be.
    pub fn on_note_written(&mut self, now: Now, is_written: bool) {
        if is_written {
            self.core.on_noted(now);
        } else {
            self.core.on_note_failed(now);
        }
    }

    /// Answers up to this number may leave.
    pub fn noted(&self) -> NoteNumber {
        self.core.noted()
    }

    /// Whether frames are to be left unread.
    pub fn are_answers_overdue(&self, now: Now) -> bool {
        self.core.are_answers_overdue(now)
    }

    /// A client sends a frame; the number that answers it, and the note that the answer waits for.
    pub fn on_frame(&mut self, now: Now, frame: Frame) -> (Seq, NoteNumber) {
        (self.core.on_frame(now, frame), self.core.wait_for_note(now))
    }

    /// It was written, or could not be.
    pub fn on_spool_written(&mut self, now: Now, is_written: bool) {
        if is_written {
            self.core.on_spooled();
        } else {
            self.core.on_spool_failed(now);
        }
    }

    /// The next dead letter to hand over, with the name of its message and its samples.
    pub fn next_dead_letter(&mut self, now: Now) -> Option<DeadLetter> {
        let publish = self.core.next_dead_letter(now)?;
        let header = |name: &str| {
            let of_name = publish.headers.iter().find(|(of, _)| *of == name);
            of_name.and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
        };
        let name = (header("Plimsoll-Incarnation"), header("Plimsoll-Seq"));
        Some(DeadLetter { ticket: publish.ticket, name, samples: header("Plimsoll-Samples") })
    }

    pub fn on_datagram(&mut self, now: Now, datagram: &[u8]) {
        self.core.on_datagram(now, datagram);
    }

    pub fn on_bus_event(&mut self, now: Now, event: &BusEvent) {
        self.core.on_bus_event(now, event);
    }

    /// Advances the core's time.
    pub fn on_deadline(&mut self, now: Now) {
        self.core.on_deadline(now);
    }

    /// The last interval ends.
    pub fn on_leave(&mut self, now: Now) {
        self.core.on_leave(now);
    }

    /// When time next matters.
    pub fn next_deadline(&self) -> Mono {
        self.core.next_deadline()
    }

    /// The next message to hand over.
    pub fn next_publish(&mut self, now: Now) -> Option<Publish> {
        self.core.next_publish(now)
    }

    /// It could not be handed over.
    pub fn on_not_taken(&mut self, now: Now, ticket: Ticket) {
        self.core.on_handover_failed(now, ticket);
    }

    /// An aggregator's confirmation arrives.
    ///
    /// # Errors
    /// When the node rejects it.
    pub fn on_confirmation(&mut self, now: Now, payload: &[u8]) -> Result<(), &'static str> {
        self.core.on_confirmation(now, payload)
    }

    /// Whether a leaving node has nothing more to wait for.
    pub fn is_drained(&self, now: Now) -> bool {
        self.core.is_drained(now)
    }

    /// Whether the last interval has ended.
    pub fn is_leaving(&self) -> bool {
        self.core.is_leaving()
    }

    /// What it reports of itself.
    pub fn stats(&self) -> NodeStats {
        let status = self.core.status();
        // Of the node's own, too, whose reason does not say so.
        let dropped = status.never_sent_samples;
        NodeStats { dropped, is_leaving: self.core.is_leaving(), status }
    }

    /// Whether its breaker lets nothing pass.
    pub fn is_open(stats: &NodeStats) -> bool {
        stats.status.breaker == BreakerState::Open
    }
}
