//! The node's decisions, without clock, socket or task: events in, messages to publish out.
//!
//! A sample's way: [`intake`] reads it and counts it into its series, the interval closes into a
//! [`draft`], [`outbox`] seals it when it may be sent, and keeps it until the broker has
//! acknowledged it ([`flight`]) and an aggregator has confirmed it ([`entrusted`]). [`journal`]
//! says what of this a spool holds. [`Core`] joins them and keeps the ledger; the driver feeds it
//! and carries out what it asks. [`departure`] bounds the way out.

pub mod bounds;
pub mod breaker;
mod custody;
pub mod dead_letters;
pub mod departure;
pub mod draft;
pub mod entrusted;
pub mod flight;
pub mod intake;
pub mod journal;
pub mod outbox;
pub mod pressure;
pub mod queue;
mod seal;
pub mod sealed;
mod status;
pub mod tokens;

use std::time::Duration;

use crate::limits;
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq};
use plimsoll_schemas::time::{Mono, Now, nanos};
use plimsoll_schemas::wire::frame::Frame;
use plimsoll_schemas::wire::{Bus, Totals, confirmation};

use bounds::Bounds;
use custody::Custody;
pub use custody::SpoolFigures;
use dead_letters::{DeadLetter, DeadLetters, Unacceptable};
use intake::Intake;
pub use intake::figures::IntakeFigures;
use intake::otlp::Otlp;
use intake::point::Point;
use intake::promtext::Scrape;
use intake::reject::Reject;
use outbox::{Forged, Outbox};
use seal::Sealer;
use sealed::{Publish, Ticket};
pub use status::{Confirmations, Status};

/// A confirmation of what was never sent, as a label.
const FORGED: &str = "forged";

/// What a core must know to begin.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The mesh it speaks in.
    pub mesh: MeshName,
    /// Its own name.
    pub node: NodeName,
    /// What it is grouped by: rack, role, version and the like.
    pub labels: Labels,
}

/// What the connection to the broker has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// There is a new connection: messages can be sent.
    Connected,
    /// They cannot.
    Disconnected,
    /// The connection stands, but the broker is silent: they cannot, until a round trip.
    Stalled,
    /// The broker answered a probe after this long.
    RoundTrip(Duration),
    /// The broker has this message.
    Acknowledged(Ticket),
    /// This message did not get as far as the broker; it may later.
    Deferred(Ticket),
    /// The broker did not take this message now; it may later.
    Declined(Ticket),
    /// The broker will never take this message.
    Refused(Ticket, Unacceptable),
    /// The broker does not permit something.
    Denied,
}

/// A node's whole state.
pub struct Core {
    sealer: Sealer,
    length: Duration,
    intake: Intake,
    otlp: Otlp,
    interval_ends: Mono,
    hardware: Vec<Reading>,
    outbox: Outbox,
    dead_letters: DeadLetters,
    confirmations: Confirmations,
    custody: Custody,
    /// Intervals closed so far.
    intervals: u64,
    totals: Totals,
    connections: u64,
    denials: u64,
    /// True while there is a connection on which the broker is silent.
    stalled: bool,
    round_trip: Option<Duration>,
    publish: Operation,
    leaving: bool,
    /// When a leaving node had nothing left that was not acknowledged.
    emptied: Option<Mono>,
}

impl Core {
    /// A node at the start of a new incarnation.
    #[must_use]
    pub fn new(identity: Identity, bounds: Bounds, now: Now) -> Self {
        let incarnation = Incarnation(now.wall.0.max(1));
        Self {
            sealer: Sealer::new(identity, incarnation),
            length: bounds.interval,
            otlp: Otlp::new(bounds.rules.clone(), incarnation.0),
            intake: Intake::new(now, bounds.series_max, bounds.rules, incarnation.0),
            interval_ends: now.mono.plus(bounds.interval),
            hardware: Vec::new(),
            outbox: Outbox::new(incarnation, bounds.outbox),
            dead_letters: DeadLetters::default(),
            confirmations: Confirmations::default(),
            custody: Custody::default(),
            intervals: 0,
            totals: Totals::default(),
            connections: 0,
            denials: 0,
            stalled: false,
            round_trip: None,
            publish: Operation::new("publish").expect("a constant name of plain letters"),
            leaving: false,
            emptied: None,
        }
    }

    /// Takes one datagram of newline-separated DogStatsD lines. A bad line costs itself alone;
    /// a datagram longer than `DATAGRAM_BYTES_MAX` was cut, and nothing of it is taken.
    pub fn on_datagram(&mut self, now: Now, datagram: &[u8]) {
        self.intake.on_datagram(now.wall, datagram);
    }

    /// Takes one frame of a client, and gives the number up to which the client's frames are
    /// recorded: that is the answer to it, due before time passes. A leaving node records no
    /// more, and its answer says so.
    pub fn on_frame(&mut self, now: Now, frame: Frame) -> Seq {
        match self.leaving {
            true => self.intake.recorded_up_to(&frame.client),
            false => self.intake.on_frame(now.wall, frame),
        }
    }

    /// A frame could not be read; `reason` is a label.
    pub fn on_frame_refused(&mut self, reason: &'static str) {
        self.intake.on_frame_refused(reason);
    }

    /// Takes one point that another system tells. What a leaving node takes it sends no more, so
    /// ask [`Self::is_leaving`] first.
    ///
    /// # Errors
    /// Says why nothing of it was taken, which is counted.
    pub fn on_point(&mut self, now: Now, point: &Point<'_>) -> Result<(), Reject> {
        self.intake.on_point(now, point)
    }

    /// Takes what a look at a target's page brought, and says what its operator should know.
    pub fn on_scrape(&mut self, now: Now, scrape: &Scrape) -> Vec<String> {
        if self.leaving { Vec::new() } else { self.intake.on_scrape(now, scrape) }
    }

    /// A socket could not be read, which may have cost a datagram.
    pub fn on_read_error(&mut self) {
        self.intake.on_read_error();
    }

    /// The kernel dropped so many datagrams more, because a socket was full.
    pub fn on_kernel_dropped(&mut self, datagrams: u64) {
        self.intake.on_kernel_dropped(datagrams);
    }

    /// Takes the machine's latest readings; they travel with the interval that is open.
    pub fn on_hardware(&mut self, readings: Vec<Reading>) {
        self.hardware = readings;
        self.hardware.truncate(limits::READINGS_MAX);
    }

    /// Hears from the connection to the broker.
    pub fn on_signal(&mut self, now: Now, signal: Signal) {
        match signal {
            Signal::Connected => {
                self.connections += 1;
                self.stalled = false;
                self.outbox.on_connected();
            }
            Signal::Disconnected | Signal::Stalled => {
                // A stall told after its connection was lost is no longer one.
                self.stalled = signal == Signal::Stalled && self.outbox.is_connected();
                self.round_trip = None;
                self.outbox.on_disconnected();
            }
            Signal::RoundTrip(span) => self.on_round_trip(span),
            Signal::Acknowledged(ticket) => self.on_acknowledged(now, ticket),
            Signal::Deferred(ticket) => self.outbox.on_deferred(now.mono, ticket),
            Signal::Declined(ticket) => self.outbox.on_declined(now.mono, ticket),
            Signal::Refused(ticket, reason) => self.on_refused(ticket, reason),
            Signal::Denied => self.denials += 1,
        }
    }

    /// Ends a stall, which needs no new connection; a late echo of a lost connection ends nothing.
    fn on_round_trip(&mut self, span: Duration) {
        if std::mem::take(&mut self.stalled) {
            self.outbox.on_connected();
        }
        if self.outbox.is_connected() {
            self.round_trip = Some(span);
        }
    }

    /// The way from outbox to acknowledgement is itself a budgeted operation. Once the node is
    /// leaving there is no later snapshot that could carry it, so it is no sample any more.
    fn on_acknowledged(&mut self, now: Now, ticket: Ticket) {
        let Some(enqueued) = self.outbox.on_acknowledged(now.mono, ticket) else { return };
        if self.leaving {
            return;
        }
        self.intake.on_own_latency(&self.publish, nanos(now.mono.since(enqueued)));
    }

    /// A message of a former incarnation is not among the samples of this one.
    fn on_refused(&mut self, ticket: Ticket, reason: Unacceptable) {
        let Some(sealed) = self.outbox.on_refused(ticket) else { return };
        if sealed.incarnation == self.sealer.incarnation() {
            self.lose(seal::REFUSED, sealed.samples);
        }
        self.dead_letters.push(DeadLetter { sealed, reason });
    }

    /// Hears what an aggregator says is stored, and over which limits it judges. What cannot be
    /// true is counted, and nothing of it believed.
    ///
    /// # Errors
    /// Says why, as a label.
    pub fn on_confirmation(&mut self, now: Now, payload: &[u8]) -> Result<(), &'static str> {
        let read = confirmation::decode(self.sealer.node(), payload);
        let heard = read.map_err(|error| error.reason()).and_then(|confirmation| {
            self.outbox.on_confirmation(now.mono, &confirmation).map_err(|Forged| FORGED)?;
            self.intake.on_limits(now.mono, &confirmation.limits);
            Ok(())
        });
        match heard {
            Ok(()) => self.confirmations.heard += 1,
            Err(reason) => *self.confirmations.refused.entry(reason).or_default() += 1,
        }
        heard
    }

    /// The next message that can never be accepted, to be left where someone may look at it.
    pub fn next_dead_letter(&mut self) -> Option<DeadLetter> {
        self.dead_letters.pop()
    }

    /// Lets time pass: closes the interval when it is over, gives up waiting for
    /// acknowledgements that are overdue.
    pub fn on_deadline(&mut self, now: Now) {
        self.outbox.on_deadline(now.mono);
        self.custody.on_deadline(now.mono);
        while let Some(expired) = self.outbox.expire(now.mono) {
            self.lose(seal::EXPIRED, expired.samples());
        }
        if self.leaving && self.outbox.is_empty() {
            self.emptied.get_or_insert(now.mono);
        }
        if now.mono >= self.interval_ends && !self.leaving {
            self.seal(now, false);
            let next = self.interval_ends.plus(self.length);
            // One that has passed as well was merged into the interval just sealed.
            let late = next <= now.mono;
            self.interval_ends = if late { now.mono.plus(self.length) } else { next };
        }
    }

    /// Closes the last interval and says farewell; what comes after is not recorded.
    pub fn on_leave(&mut self, now: Now) {
        if !self.leaving {
            self.seal(now, true);
            self.outbox.on_leave();
            self.leaving = true;
        }
    }

    /// When [`Self::on_deadline`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        let interval = if self.leaving { Mono(u64::MAX) } else { self.interval_ends };
        let emptied = self.emptied.map(|emptied| emptied.plus(limits::LEAVE_CONFIRM_WAIT));
        let emptied = emptied.filter(|_| !self.is_confirmed());
        let outbox = self.outbox.next_deadline();
        let counted = (!self.leaving).then(|| self.counted());
        let spool = self.custody.next_deadline(counted);
        outbox.into_iter().chain(emptied).chain(spool).fold(interval, Mono::min)
    }

    /// The next message to hand to the broker, if one may be sent now.
    pub fn next_publish(&mut self, now: Now) -> Option<Publish> {
        let Self { outbox, sealer, totals, .. } = self;
        let seal = |seq, lane, draft| sealer.seal(&totals.lost, seq, lane, now.wall, draft);
        outbox.next_publish(now.mono, seal)
    }

    /// Takes back a message that could not even be handed over.
    pub fn on_not_taken(&mut self, now: Now, ticket: Ticket) {
        self.outbox.on_not_taken(now.mono, ticket);
    }

    /// True when a leaving node has nothing more to wait for: every message is acknowledged, and
    /// confirmed too if there is anybody who confirms and does so soon.
    #[must_use]
    pub fn is_drained(&self, now: Now) -> bool {
        let waited = |emptied| now.mono.since(emptied) >= limits::LEAVE_CONFIRM_WAIT;
        self.outbox.is_empty() && (self.is_confirmed() || self.emptied.is_some_and(waited))
    }

    fn is_confirmed(&self) -> bool {
        let entrusted = self.outbox.entrusted();
        entrusted.messages() == 0 || !entrusted.is_heard()
    }

    /// True once the last interval was sealed.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether messages can be sent.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.outbox.is_connected()
    }

    /// Whether there is a connection on which the broker is silent.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Figures for the node's own metrics.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            intake: self.intake.figures(),
            otlp: self.otlp.figures(),
            totals: self.totals.clone(),
            held_samples: self.outbox.samples(),
            entrusted_samples: self.outbox.entrusted().samples(),
            entrusted_bytes: self.outbox.entrusted().bytes(),
            events_lost: self.outbox.events_lost().clone(),
            confirmations: self.confirmations.clone(),
            denials: self.denials,
            spool: self.custody.figures.clone(),
            in_flight: self.outbox.in_flight(),
            series: self.intake.series(),
            limits: self.intake.limits(),
            connected: self.outbox.is_connected(),
            breaker: self.outbox.breaker(),
            rerouting: self.outbox.pressure().is_rerouting(),
            dropping: self.outbox.pressure().is_dropping(),
            conservative: self.outbox.pressure().is_conservative(),
            bus: self.bus_account(),
        }
    }

    fn bus_account(&self) -> Bus {
        let reason = |reject: &Reject| reject.reason();
        Bus {
            reconnects: self.connections.saturating_sub(1),
            round_trip_ns: self.round_trip.map(nanos),
            kernel_dropped: self.intake.kernel_dropped(),
            rejected: self.intake.rejected().iter().map(|(r, n)| (reason(r), *n)).collect(),
            ..self.outbox.account()
        }
    }
}

#[cfg(test)]
mod tests;
