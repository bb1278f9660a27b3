//! A node's core as the simulation speaks to it: the one place that knows its interface.

use std::time::Duration;

use bytes::Bytes;
use plimsoll_node::core::outbox::BreakerState;
use plimsoll_node::core::outbox::DeadLetterReason;
use plimsoll_node::core::outbox::Thresholds;
use plimsoll_node::core::outbox::UnconfirmedBounds;
use plimsoll_node::core::outbox::{Publish, Ticket};
use plimsoll_node::core::spool::{self, RecoveredMessages};
use plimsoll_node::core::spool::{Batch, Wal};
use plimsoll_node::core::{Bounds, outbox::OutboxBounds};
use plimsoll_node::core::{BrokerEvent, Core, Identity, Status};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
use plimsoll_schemas::time::{Mono, Now};

use super::dice::Dice;

/// What every simulated mesh is called.
pub const MESH: &str = "sim";
/// The reason under which a node gives up what it has no room for.
const DROPPED: &str = "outbox_full";

fn identity(node: &NodeName) -> Identity {
    let mesh = MeshName::new(MESH).expect("a constant of plain letters");
    let labels = Labels::new([("rack", "r7")]).expect("a constant of plain letters");
    Identity { mesh, node: node.clone(), labels }
}

/// Depths of an outbox, small enough for a short run to reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depths {
    /// From here on new messages are dropped.
    pub drop: usize,
    /// From here on they go by the emergency lane.
    pub reroute: usize,
    /// Here both end.
    pub leave: usize,
    /// Above this drafts are merged.
    pub coalesce: usize,
    /// Tokens a minute, at once, and kept for critical messages.
    pub tokens: (u32, u32, u32),
    /// Copies kept for an aggregator's confirmation.
    pub entrusted: usize,
}

/// What a connection tells a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Messages can be sent.
    Connected,
    /// They cannot.
    Disconnected,
    /// The broker is silent.
    Stalled,
    /// The broker answered.
    RoundTrip(Duration),
    /// The broker has this message.
    Acknowledged(u64),
    /// It did not get there.
    Deferred(u64),
    /// The broker has no room for it.
    Declined(u64),
    /// No broker ever takes it.
    Refused(u64),
}

/// A message that the node hands over.
#[derive(Clone, Debug)]
pub struct Sending {
    /// The node's name for it, which its answer bears.
    pub token: u64,
    /// Its subject.
    pub subject: String,
    /// What the broker knows a repetition by.
    pub id: String,
    /// Its bytes.
    pub payload: Bytes,
}

/// What a node says of itself.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Everything.
    pub status: Status,
    /// Samples given up because the outbox was full.
    pub dropped: u64,
    /// Whether the last interval has ended.
    pub is_leaving: bool,
}

/// A running node.
pub struct NodeCore(Core);

/// What a beginning node made of its spool.
#[derive(Clone, Debug, Default)]
pub struct Adopted {
    /// Whether there was anything.
    pub is_found: bool,
    /// Whether the end of the file had to be left out.
    pub is_torn: bool,
    /// Why it cannot be told for certain what was held, if so.
    pub doubt: Option<String>,
}

impl Depths {
    /// Bounds that bring one part of the outbox or another within reach.
    #[must_use]
    pub fn draw(dice: &mut Dice) -> Self {
        let (drop, reroute, leave) = dice.one_of([(24, 10, 4), (48, 24, 8), (16, 12, 6)]);
        // Merging ends below the mark at which rerouting does, as in every sound configuration:
        // else a node with just as many tokens as messages would go on rerouting for ever.
        let coalesce = dice.one_of([leave - 1, leave - 1, 1_000]);
        let tokens = dice.one_of([(120, 20, 5), (60, 4, 2), (20, 3, 1)]);
        Self {
            drop,
            reroute,
            leave,
            coalesce,
            tokens: if coalesce < leave { tokens } else { (12, 3, 1) },
            entrusted: dice.one_of([12, 40, 1_024]),
        }
    }

    /// The bounds as a core takes them.
    #[must_use]
    pub fn bounds(self, interval: Duration) -> Bounds {
        let defaults = OutboxBounds::default();
        let Self { drop, reroute, leave, coalesce, tokens, entrusted: messages } = self;
        let (emergency_per_minute, emergency_burst, emergency_reserved) = tokens;
        let thresholds = Thresholds { drop, reroute, recover: leave, ..defaults.thresholds };
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
}

impl NodeCore {
    /// A new incarnation.
    #[must_use]
    pub fn begin(node: &NodeName, bounds: Bounds, now: Now) -> Self {
        Self(Core::new(identity(node), bounds, now))
    }

    /// Takes over what a spool holds and keeps one from now on. `boot` names the machine's
    /// present run; `syncs` says whether what is written is synced.
    pub fn open_spool(
        &mut self,
        node: &NodeName,
        now: Now,
        file: Option<&[u8]>,
        boot: &str,
        syncs: bool,
    ) -> Adopted {
        let identity = identity(node);
        let read = file.map(|bytes| spool::recover(bytes, &identity, Some(boot), now.mono));
        let journal = Wal::new(identity, (!syncs).then_some(boot));
        let (recovered, unusable) = match read.transpose() {
            Ok(recovered) => (recovered, None),
            Err(unusable) => (None, Some(unusable.to_string())),
        };
        let doubt = recovered.as_ref().and_then(|recovered| recovered.damaged.clone());
        let adopted = Adopted {
            is_found: recovered.as_ref().is_some_and(|found| found.samples() > 0),
            is_torn: recovered
                .as_ref()
                .is_some_and(|found: &RecoveredMessages| found.torn_bytes > 0),
            doubt: unusable.or(doubt),
        };
        self.0.open_spool(now, journal, recovered);
        adopted
    }

    /// What is to be written into the spool.
    pub fn next_spool(&mut self, now: Now) -> Option<Batch> {
        self.0.next_spool_batch(now)
    }

    /// It was written, or could not be.
    pub fn on_spool_written(&mut self, now: Now, is_written: bool) {
        if is_written {
            self.0.on_spooled();
        } else {
            self.0.on_spool_failed(now);
        }
    }

    /// Samples in the next message that no broker takes, which goes to whoever may look at it.
    pub fn next_dead_letter(&mut self) -> Option<((u64, u64), u64)> {
        let sealed = self.0.next_dead_letter()?.sealed;
        Some(((sealed.incarnation.0, sealed.seq.0), sealed.samples))
    }

    /// Jobs report.
    pub fn on_datagram(&mut self, now: Now, datagram: &[u8]) {
        self.0.on_datagram(now, datagram);
    }

    /// The connection tells.
    pub fn on_news(&mut self, now: Now, news: News) {
        let signal = match news {
            News::Connected => BrokerEvent::Connected,
            News::Disconnected => BrokerEvent::Disconnected,
            News::Stalled => BrokerEvent::Stalled,
            News::RoundTrip(span) => BrokerEvent::RoundTrip(span),
            News::Acknowledged(token) => BrokerEvent::Acknowledged(Ticket(token)),
            News::Deferred(token) => BrokerEvent::Deferred(Ticket(token)),
            News::Declined(token) => BrokerEvent::Declined(Ticket(token)),
            News::Refused(token) => {
                BrokerEvent::Rejected(Ticket(token), DeadLetterReason::TooLarge)
            }
        };
        self.0.on_broker_event(now, signal);
    }

    /// Time passes.
    pub fn on_deadline(&mut self, now: Now) {
        self.0.on_deadline(now);
    }

    /// The last interval ends.
    pub fn on_leave(&mut self, now: Now) {
        self.0.on_leave(now);
    }

    /// When time next matters.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        self.0.next_deadline()
    }

    /// The next message to hand over.
    pub fn next_sending(&mut self, now: Now) -> Option<Sending> {
        let Publish { ticket, subject, message_id, payload } = self.0.next_publish(now)?;
        Some(Sending { token: ticket.0, subject, id: message_id, payload })
    }

    /// It could not be handed over.
    pub fn on_not_taken(&mut self, now: Now, token: u64) {
        self.0.on_handover_failed(now, Ticket(token));
    }

    /// An aggregator tells what is stored.
    ///
    /// # Errors
    /// When the node does not believe it.
    pub fn on_confirmation(&mut self, now: Now, payload: &[u8]) -> Result<(), &'static str> {
        self.0.on_confirmation(now, payload)
    }

    /// Whether a leaving node has nothing more to wait for.
    #[must_use]
    pub fn is_drained(&self, now: Now) -> bool {
        self.0.is_drained(now)
    }

    /// Whether the last interval has ended.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.0.is_leaving()
    }

    /// What it says of itself.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let status = self.0.status();
        let lost = status.totals.lost.iter().filter(|(reason, _)| reason.as_str() == DROPPED);
        let dropped = lost.map(|(_, samples)| samples).sum();
        Figures { dropped, is_leaving: self.0.is_leaving(), status }
    }

    /// Whether its breaker lets nothing pass.
    #[must_use]
    pub fn is_open(figures: &Figures) -> bool {
        figures.status.breaker == BreakerState::Open
    }
}
