//! A node's core as the simulation calls it.

use std::time::Duration;

use plimsoll_node::core::outbox::Thresholds;
use plimsoll_node::core::outbox::UnconfirmedBounds;
use plimsoll_node::core::spool::Wal;
use plimsoll_node::core::spool::{self, RecoveredMessages};
use plimsoll_node::core::{Bounds, outbox::OutboxBounds};
use plimsoll_node::core::{Core, Identity, Status};
use plimsoll_schemas::ids::{Labels, NodeName};
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::transport::{BusEvent, Publish, Ticket};

pub use plimsoll_node::core::departure::{Departure, SocketPoll, Step};
pub use plimsoll_node::core::outbox::BreakerState;
pub use plimsoll_node::core::spool::Batch;
pub use plimsoll_node::limits::IN_FLIGHT_MAX;

use super::mesh_name::mesh_name;
use crate::sim::plan::Depths;

/// The reason under which a node drops what does not fit.
const DROPPED: &str = "outbox_full";

fn identity(node: &NodeName) -> Identity {
    let mesh = mesh_name();
    let labels = Labels::new([("rack", "r7")]).expect("a constant of plain letters");
    Identity { mesh, node: node.clone(), labels }
}

/// What a node reports of itself.
#[derive(Clone, Debug)]
pub struct NodeStats {
    /// Everything.
    pub status: Status,
    /// Samples dropped because the outbox was full.
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
    /// A new incarnation.
    #[must_use]
    pub fn begin(node: &NodeName, depths: Depths, interval: Duration, now: Now) -> Self {
        Self(Core::new(identity(node), bounds(depths, interval), now))
    }

    /// Takes over what a spool holds and writes one from now on. `boot` names the machine's present
    /// run; `syncs`: whether writes are synced.
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

    /// Name and samples of the next message that no broker accepts.
    pub fn next_dead_letter(&mut self) -> Option<((u64, u64), u64)> {
        let sealed = self.0.next_dead_letter()?.message;
        Some(((sealed.incarnation.0, sealed.seq.0), sealed.samples))
    }

    /// Jobs report.
    pub fn on_datagram(&mut self, now: Now, datagram: &[u8]) {
        self.0.on_datagram(now, datagram);
    }

    /// The client reports.
    pub fn on_bus_event(&mut self, now: Now, event: &BusEvent) {
        self.0.on_bus_event(now, event);
    }

    /// Advances the core's time.
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
    pub fn next_publish(&mut self, now: Now) -> Option<Publish> {
        self.0.next_publish(now)
    }

    /// It could not be handed over.
    pub fn on_not_taken(&mut self, now: Now, ticket: Ticket) {
        self.0.on_handover_failed(now, ticket);
    }

    /// An aggregator's confirmation arrives.
    ///
    /// # Errors
    /// When the node rejects it.
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

    /// What it reports of itself.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        let status = self.0.status();
        let lost = status.totals.lost.iter().filter(|(reason, _)| reason.as_str() == DROPPED);
        let dropped = lost.map(|(_, samples)| samples).sum();
        NodeStats { dropped, is_leaving: self.0.is_leaving(), status }
    }

    /// Whether its breaker lets nothing pass.
    #[must_use]
    pub fn is_open(stats: &NodeStats) -> bool {
        stats.status.breaker == BreakerState::Open
    }
}
