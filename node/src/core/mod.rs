//! The node's decisions, without clock, socket or task: events in, messages to publish out.
//!
//! [`Core`] composes the rooms of this folder, and only this file sees several of them. A sample
//! passes [`intake`], which records it in the open interval; at the end of the interval the core
//! turns what was recorded into drafts for the [`outbox`]; `seal` encodes a draft when the outbox
//! may send it; the [`spool`] keeps what the outbox holds on disk, and the [`history`] what was
//! sealed. [`captures`] decides which ordered captures start, and keeps their profiles, and
//! [`continuous`] what is profiled all the time. The
//! `ledger` counts what was recorded, sealed and lost. [`departure`] bounds the shutdown and is
//! used by the driver. `confirmers` decides which confirmations are believed; `declared` has what
//! they declare urgent.
//!
//! The driver calls an `on_*` method for each event, then takes what is to be done:
//! [`Core::next_publish`], [`Core::next_spool_batch`], [`Core::next_note`],
//! [`Core::next_dead_letter`], [`Core::next_record`]; and calls [`Core::on_deadline`] at
//! [`Core::next_deadline`]. An answer to recorded input leaves once [`Core::noted`] has reached its
//! [`Core::wait_for_note`].
//!
//! DESIGN N8, N43.

mod bounds;
pub mod captures;
mod clock_steps;
mod confirmers;
pub mod continuous;
mod declared;
pub mod departure;
pub mod history;
mod identity;
pub mod intake;
mod ledger;
pub mod loss;
mod open_readings;
pub mod outbox;
mod priority;
mod seal;
pub mod sent_readings;
pub mod spool;
mod status;

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits;
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::ids::{Incarnation, Operation, Seq};
use plimsoll_schemas::limits::wire::{COUNT_MAX, INTERVAL_NS_MAX, MESSAGE_BYTES_SPLIT};
use plimsoll_schemas::own_operations::PUBLISH;
use plimsoll_schemas::subject::SnapshotKind;
use plimsoll_schemas::time::{Mono, Now, nanos};
use plimsoll_schemas::transport::{BusEvent, Publish, Refusal, Ticket};
use plimsoll_schemas::wire::capture::{CaptureOrder, CaptureRefusal};
use plimsoll_schemas::wire::confirmation::{self, Confirmation, ConfirmedIncarnation};
use plimsoll_schemas::wire::frame::Frame;
use plimsoll_schemas::wire::signature::ConfirmKey;
use plimsoll_schemas::wire::{Body, Bus, NotedIncarnation};

pub use bounds::Bounds;
use captures::{CaptureGate, Captures, SendingProcess};
use clock_steps::ClockSteps;
use confirmers::Confirmers;
use continuous::{Continuous, ContinuousBounds, ContinuousEffect, Turns};
use declared::DeclaredUrgencies;
use history::Record;
pub use identity::Identity;
use intake::otlp::{Encoding, Malformed, Outcome, Signal};
use intake::points::Point;
use intake::promtext::Scrape;
use intake::{ClosedInterval, Intake, Reject, RejectedInput, SocketEvent};
use ledger::{Ledger, SampleCount};
use open_readings::OpenReadings;
use outbox::{
    DeadLetter, DeadLetterReason, Draft, ForgedConfirmation, MessageNonce, Outbox, Priority,
    SealedMessage,
};
use priority::ReportedStates;
use seal::Sealer;
use sent_readings::SentReadings;
use spool::{
    Batch, IncarnationEnd, IncarnationState, NoteNumber, Notes, RecoveredMessages, Spool, Wal,
};
pub use status::{ConfirmationStats, Status};

/// Label of a confirmation of a message that was never sent.
const FORGED: &str = "forged";

pub struct Core {
    intake: Intake,
    outbox: Outbox,
    spool: Spool,
    sealer: Sealer,
    ledger: Ledger,
    clock_steps: ClockSteps,
    interval_length: Duration,
    interval_ends: Mono,
    /// Sealed messages for the history; `None` when none is kept. The driver takes them on each
    /// turn.
    records: Option<VecDeque<Record>>,
    captures: Captures,
    continuous: Continuous,
    /// Readings that the open interval will carry.
    hardware: OpenReadings,
    /// Those that aggregators have.
    sent_readings: SentReadings,
    /// States in the latest messages.
    reported: ReportedStates,
    declared: DeclaredUrgencies,
    confirmers: Confirmers,
    confirmations: ConfirmationStats,
    connections: u64,
    denials: u64,
    /// True while there is a connection on which the broker does not answer.
    stalled: bool,
    round_trip: Option<Duration>,
    task_restarts: u64,
    publish_operation: Operation,
    /// Samples of that operation, which no job has brought, in closed intervals
    own_closed: u64,
    /// and in the open one.
    own_open: u64,
    /// The first bus message, which reports what former incarnations had noted.
    orphans_reported: Option<Seq>,
    /// Nodes of the mesh; 0 while it is unknown.
    mesh_nodes: u32,
    /// When the present connection, or the last one, was made.
    connected_at: Mono,
    leaving: bool,
    /// When the outbox of a leaving node became empty, or the latest confirmation after that.
    emptied: Option<Mono>,
}

impl Core {
    /// A node at the start of a new incarnation.
    pub fn new(identity: Identity, bounds: Bounds, now: Now) -> Self {
        // The start time of the process: normally no earlier one of this node has it, and no file
        // is read.
        let incarnation = Incarnation(now.wall.0.max(1));
        Self {
            intake: Intake::new(now, bounds.series_max, bounds.rules, incarnation.0),
            outbox: Outbox::new(incarnation, bounds.outbox),
            spool: Spool::default(),
            // Until they are enabled no request is received.
            captures: Captures::new(identity.clone(), Err(CaptureRefusal::NoKey)),
            continuous: Continuous::default(),
            sealer: Sealer::new(identity, incarnation),
            ledger: Ledger::default(),
            clock_steps: ClockSteps::default(),
            interval_length: bounds.interval,
            interval_ends: now.mono.plus(bounds.interval),
            records: None,
            hardware: OpenReadings::default(),
            sent_readings: SentReadings::default(),
            reported: ReportedStates::default(),
            declared: DeclaredUrgencies::default(),
            confirmers: Confirmers::default(),
            confirmations: ConfirmationStats::default(),
            connections: 0,
            denials: 0,
            stalled: false,
            round_trip: None,
            task_restarts: 0,
            publish_operation: Operation::new(PUBLISH).expect("a constant of plain letters"),
            own_closed: 0,
            own_open: 0,
            orphans_reported: None,
            mesh_nodes: 0,
            connected_at: Mono(0),
            leaving: false,
            emptied: None,
        }
    }

    /// Sets what makes the ids of this incarnation's messages unpredictable, before anything of it
    /// is sealed. Without it they are not.
    pub fn with_nonce(mut self, nonce: MessageNonce) -> Self {
        self.sealer.nonce = nonce;
        self
    }

    /// Records one datagram of newline-separated DogStatsD lines. A bad line is rejected alone; a
    /// datagram longer than `DATAGRAM_BYTES_MAX` was truncated and is rejected as a whole.
    pub fn on_datagram(&mut self, now: Now, datagram: &[u8]) {
        self.intake.on_datagram(now.wall, datagram);
    }

    /// Records one frame of a client and returns the number up to which the client's frames are
    /// recorded, which is the answer to it. A leaving node records none.
    pub fn on_frame(&mut self, now: Now, frame: Frame) -> Seq {
        match self.leaving {
            true => self.intake.recorded_up_to(&frame.client),
            false => self.intake.on_frame(now.wall, frame),
        }
    }

    /// A frame could not be read; `reason` is a label.
    pub fn on_frame_rejected(&mut self, reason: &'static str) {
        self.intake.on_frame_rejected(reason);
    }

    /// Records one point of a metric. A leaving node records points that it no longer sends, so
    /// check [`Self::is_leaving`] first.
    ///
    /// # Errors
    /// Why nothing of it was recorded, which is counted.
    pub fn on_point(&mut self, now: Now, point: &Point<'_>) -> Result<(), Reject> {
        self.intake.on_point(now, point)
    }

    pub fn on_scrape(&mut self, now: Now, scrape: &Scrape) -> Vec<String> {
        if self.leaving { Vec::new() } else { self.intake.on_scrape(now, scrape) }
    }

    /// Records one OTLP request body: each point or span is accepted or rejected. A leaving node
    /// rejects all of them.
    ///
    /// # Errors
    /// When the body is malformed; then nothing of it is recorded.
    pub fn on_otlp(
        &mut self,
        now: Now,
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
    ) -> Result<Outcome, Malformed> {
        self.intake.on_otlp(now, signal, encoding, body, self.leaving)
    }

    /// Warnings about OTLP for the operator, once for each reason: many SDKs do not log what a
    /// receiver answers.
    pub fn take_otlp_warnings(&mut self) -> Vec<String> {
        self.intake.take_otlp_warnings()
    }

    /// Warnings for the operator about rejected lines, at doubling counts of each reason.
    pub fn take_line_warnings(&mut self) -> impl Iterator<Item = RejectedInput> + use<> {
        self.intake.take_line_warnings()
    }

    /// Warnings for the operator about timers that look like seconds sent as `ms`, once for each
    /// operation.
    pub fn take_unit_warnings(&mut self) -> Vec<String> {
        self.intake.take_unit_warnings()
    }

    /// Records what a read of a datagram socket brought, or counts what it did not.
    pub fn on_socket_event(&mut self, now: Now, event: SocketEvent<'_>) {
        if let SocketEvent::Datagram { bytes, sender: Some(sender) } = event {
            self.captures.on_sender(sender, |series| self.intake.has_line(bytes, series));
            // A sender of events alone is no job: `plimsoll run`, and hooks of a scheduler.
            if !bytes.starts_with(b"_e{") {
                self.continuous.on_sender(now.mono, sender);
            }
        }
        self.intake.on_socket_event(now.wall, event);
    }

    /// Folds a hardware sample into the open interval.
    pub fn on_hardware(&mut self, readings: Vec<Reading>) {
        self.hardware.fold(readings);
    }

    /// This many tasks and threads of this process had to be started again.
    pub fn on_task_restarts(&mut self, restarts: u64) {
        self.task_restarts = restarts;
    }

    pub fn on_bus_event(&mut self, now: Now, event: &BusEvent) {
        match event {
            BusEvent::Connected { payload_bytes_max, .. } => {
                self.connections += 1;
                // Before anything is sent: what is sealed from here on is divided to what this
                // broker takes.
                self.outbox.set_payload_max(*payload_bytes_max);
                self.stalled = false;
                self.connected_at = now.mono;
                self.outbox.on_connected();
            }
            BusEvent::ConnectFailed { .. } | BusEvent::Streams { .. } => {}
            BusEvent::Disconnected | BusEvent::Stalled => {
                // A stall that is reported after its connection was lost no longer matters.
                self.stalled = *event == BusEvent::Stalled && self.outbox.is_connected();
                self.round_trip = None;
                self.outbox.on_disconnected();
            }
            BusEvent::RoundTrip(span) => self.on_round_trip(now, *span),
            BusEvent::Acknowledged { ticket, duplicate } => {
                self.on_acknowledged(now, *ticket, *duplicate);
            }
            BusEvent::Refused { ticket, reason } => self.on_refused(now, *ticket, reason),
            BusEvent::Denied { publish, .. } => {
                self.denials += 1;
                if let Some(subject) = publish {
                    self.on_publish_denied(now, subject);
                }
            }
        }
    }

    /// Only an answer of the broker counts against the broker and the message: one that never left
    /// this process proves nothing.
    fn on_refused(&mut self, now: Now, ticket: Ticket, refusal: &Refusal) {
        match DeadLetterReason::of(refusal) {
            Some(reason) => {
                let given_up = self.outbox.on_refused(now.mono, ticket, reason);
                self.on_given_up(given_up);
            }
            None if *refusal == Refusal::Unreadable => {
                self.outbox.on_unreadable(now.mono, ticket);
            }
            None => self.outbox.on_deferred(now.mono, ticket),
        }
    }

    fn on_publish_denied(&mut self, now: Now, subject: &str) {
        if subject == self.sealer.dead_subject() {
            let given_up = self.outbox.on_letter_denied(now.mono);
            self.on_given_up(given_up);
        } else {
            self.outbox.on_denied(now.mono, subject);
        }
    }

    /// A message of a former incarnation is not in this incarnation's ledger.
    fn on_given_up(&mut self, letter: Option<DeadLetter>) {
        let Some(DeadLetter { message, reason }) = letter else { return };
        if message.incarnation == self.sealer.incarnation {
            let samples = SampleCount { all: message.samples, own: message.own_samples };
            self.ledger.lose(reason.loss(), samples);
        }
    }

    /// Ends a stall, which needs no new connection; an overdue answer of a lost connection does
    /// not.
    fn on_round_trip(&mut self, now: Now, span: Duration) {
        if std::mem::take(&mut self.stalled) {
            self.outbox.on_connected();
        }
        if self.outbox.is_connected() {
            self.round_trip = Some(span);
            self.outbox.on_round_trip(now.mono, span);
        }
    }

    /// The time from the outbox to the acknowledgement is itself recorded as a latency, unless the
    /// node is leaving: then no later snapshot could carry it. What was enqueued before the present
    /// connection was made is not recorded: a broker that restarts is no slow publishing.
    fn on_acknowledged(&mut self, now: Now, ticket: Ticket, duplicate: bool) {
        let given_up = self.outbox.on_letter_stored(ticket);
        self.on_given_up(given_up);
        let enqueued = match duplicate {
            true => self.outbox.on_duplicate(now.mono, ticket),
            false => self.outbox.on_acknowledged(now.mono, ticket),
        };
        let Some(enqueued) = enqueued else { return };

        if !self.leaving && enqueued >= self.connected_at {
            let latency_ns = nanos(now.mono.since(enqueued));
            let is_recorded = self.intake.on_own_latency(&self.publish_operation, latency_ns);
            self.own_open += u64::from(is_recorded);
        }
    }

    /// From here on only confirmations and orders with this key count.
    pub fn set_confirm_key(&mut self, key: ConfirmKey) {
        self.captures.set_key(key.clone());
        self.confirmers.key = Some(key);
    }

    /// Applies a confirmation of an aggregator: what is stored, and over which limits samples are
    /// counted. One that cannot be true is counted and not applied.
    pub fn on_confirmation(&mut self, now: Now, payload: &[u8]) -> Result<(), &'static str> {
        let decoded = confirmation::decode(self.sealer.node(), payload);
        let applied = decoded.map_err(|error| error.reason()).and_then(|confirmation| {
            self.confirmers.check(now.mono, self.sealer.mesh(), payload, &confirmation)?;
            // Before limits and urgencies: nothing of a forged confirmation is applied.
            let confirmed = self.outbox.on_confirmation(now.mono, &confirmation);
            confirmed.map_err(|ForgedConfirmation| FORGED)?;
            self.intake.on_limits(now.mono, &confirmation.limits);
            self.declared.update(now.mono, &confirmation.urgent);
            if confirmation.mesh_nodes > 0 {
                self.mesh_nodes = confirmation.mesh_nodes;
            }
            if confirmation.readings_missing {
                self.sent_readings.on_missing();
            }
            if confirmation.withheld {
                return Ok(());
            }
            // Only now may their notes go: an aggregator has the totals of these incarnations
            // (N43).
            if self.are_orphans_confirmed(&confirmation) {
                self.spool.set_orphans(Vec::new());
            }
            // An aggregator that confirms is waited for: it may have been sent something again.
            self.emptied = self.emptied.map(|_| now.mono);
            Ok(())
        });

        match applied {
            Ok(()) => self.confirmations.accepted += 1,
            Err(reason) => *self.confirmations.rejected.entry(reason).or_default() += 1,
        }

        applied
    }

    /// How many nodes the mesh has, as the latest confirmation with a number states it; 0 while it
    /// is unknown.
    pub fn mesh_nodes(&self) -> u32 {
        self.mesh_nodes
    }

    fn are_orphans_confirmed(&self, confirmation: &Confirmation) -> bool {
        let own =
            |confirmed: &&ConfirmedIncarnation| confirmed.incarnation == self.sealer.incarnation;
        let confirmed = confirmation.incarnations.iter().find(own);
        confirmed.zip(self.orphans_reported).is_some_and(|(confirmed, seq)| confirmed.covers(seq))
    }

    /// The next dead letter to hand to the broker. Its message is given up once it is acknowledged.
    pub fn next_dead_letter(&mut self, now: Now) -> Option<Publish> {
        let (ticket, letter) = self.outbox.next_dead_letter(now.mono)?;
        Some(self.sealer.dead_letter(ticket, letter))
    }

    /// Advances time: closes the interval when it is over, and ends waits that are overdue.
    pub fn on_deadline(&mut self, now: Now) {
        // First, so that what is sealed in this turn is already moved by a step of the clock (N51).
        self.clock_steps.on_reading(now);
        self.outbox.on_deadline(now.mono);
        self.spool.on_deadline(now.mono);
        while let Some(expired) = self.outbox.expire(now.mono) {
            self.ledger.lose(loss::EXPIRED, samples_of(&expired));
        }
        if self.leaving && self.outbox.is_empty() {
            self.emptied.get_or_insert(now.mono);
        }

        if now.mono >= self.interval_ends && !self.leaving {
            self.close_interval(now, false);
            let next = self.interval_ends.plus(self.interval_length);
            // The interval just closed includes those that an overdue call has missed.
            let is_overdue = next <= now.mono;
            self.interval_ends =
                if is_overdue { now.mono.plus(self.interval_length) } else { next };
        }
    }

    /// Closes the last interval with a final message; nothing is recorded after it.
    pub fn on_leave(&mut self, now: Now) {
        if !self.leaving {
            self.close_interval(now, true);
            self.outbox.on_leave(now.mono);
            self.leaving = true;
            // What runs of it is dropped with the node.
            self.continuous = Continuous::default();
        }
    }

    /// Turns the interval into drafts, each of which enters the outbox or is counted as dropped.
    /// Every interval ends with a bus message, so a node without samples still reports.
    fn close_interval(&mut self, now: Now, last: bool) {
        let ClosedInterval { started, latency, breached, events, lost } = self.intake.close(now);
        self.spool.on_interval_closed();
        self.own_closed += std::mem::take(&mut self.own_open);

        // What was lost before it could be recorded is in both counts, so that the difference stays
        // what arrives (N18).
        for (reason, samples) in lost {
            let samples = SampleCount::of_jobs(samples);
            self.ledger.record(samples);
            self.ledger.lose(reason, samples);
        }

        // Before this interval's own drafts are pushed, which are no backlog.
        let is_behind = self.outbox.is_behind(now.mono);
        let operations = latency.histograms.iter().map(|(series, _)| &series.operation);
        let urgent = self.declared.of_operations(now.mono, &breached, operations);

        for (latency, priority) in priority::of_latency(latency, &urgent, &breached, is_behind) {
            let mut priority = priority;
            for part in outbox::split(latency, MESSAGE_BYTES_SPLIT) {
                self.enqueue(now, started, priority, &Body::Latency(part));
                // One message goes at once, however many series a declared operation has.
                priority = priority.min(Priority::Critical);
            }
        }

        if !events.events.is_empty() {
            let declared = self.declared.of_events(now.mono, &events);
            let priority = priority::of_events(&events).max(declared);
            self.enqueue(now, started, priority, &Body::Event(events));
        }

        let readings = self.hardware.take();
        if !readings.is_empty() {
            let priority = self.reported.priority_of_hardware(&readings);
            let hardware = self.sent_readings.next(now.mono, readings);
            // What later messages count from is not among the first to be dropped.
            let least = if hardware.is_change() { Priority::Low } else { Priority::Normal };
            self.enqueue(now, started, priority.max(least), &Body::Hardware(hardware));
        }

        // Last, so that it counts the drafts of its own interval.
        let bus = self.bus_stats();
        let priority = self.reported.priority_of_bus(&bus);
        self.outbox.reset_depth_max();
        let draft = self.draft(now, started, priority, &Body::Bus(bus));
        self.enqueue_draft(now, if last { draft.into_final() } else { draft });
    }

    fn enqueue(&mut self, now: Now, started: Now, priority: Priority, body: &Body) {
        let draft = self.draft(now, started, priority, body);
        self.enqueue_draft(now, draft);
    }

    fn draft(&self, now: Now, started: Now, priority: Priority, body: &Body) -> Draft {
        let length_ns = nanos(now.mono.since(started.mono)).min(INTERVAL_NS_MAX);
        // The interval ends now, wherever the wall clock was when it started.
        let start = now.wall.minus(Duration::from_nanos(length_ns));
        let labels = self.sealer.labels_of(body.kind());
        let draft = Draft::new(body, start, length_ns, now.mono);
        draft.labelled(labels).prioritized(priority)
    }

    /// The samples of a draft for which there is no room are recorded and lost at once.
    fn enqueue_draft(&mut self, now: Now, draft: Draft) {
        // Recorded even if there is no room, or what is lost would be more than what was recorded.
        self.ledger.record(samples_of(&draft));
        if let Err(dropped) = self.outbox.try_push(now.mono, draft) {
            self.ledger.lose(loss::OUTBOX_FULL, samples_of(&dropped));
            // Later changes stand without one that is dropped, but not without their set.
            if dropped.kind == SnapshotKind::Hardware && dropped.priority > Priority::Low {
                self.sent_readings.on_missing();
            }
        }
    }

    /// Whether the next [`Self::on_deadline`] closes an interval, so that what has come belongs to
    /// it.
    pub fn is_interval_over(&self, now: Mono) -> bool {
        now >= self.interval_ends && !self.leaving
    }

    /// When [`Self::on_deadline`] next has something to do.
    pub fn next_deadline(&self) -> Mono {
        let interval = if self.leaving { Mono(u64::MAX) } else { self.interval_ends };
        let emptied = self.emptied.map(|emptied| emptied.plus(limits::LEAVE_CONFIRM_WAIT));
        let emptied = emptied.filter(|_| self.outbox.awaits_confirmation());
        let spool = self.spool.next_deadline(self.brought());
        let capture = self.captures.next_deadline();
        let profile = self.continuous.next_deadline();
        let deadlines = [emptied, self.outbox.next_deadline(), spool, capture, profile];
        deadlines.into_iter().flatten().fold(interval, Mono::min)
    }

    /// The next message to hand to the broker, if one may be sent now.
    pub fn next_publish(&mut self, now: Now) -> Option<Publish> {
        let Self { outbox, sealer, ledger, clock_steps, spool, orphans_reported, records, .. } =
            self;
        clock_steps.on_reading(now);
        // An outdated file would show what is sent now as unsent: after a crash it would arrive
        // twice (N5).
        if !spool.may_send() {
            return None;
        }

        outbox.next_publish(now.mono, |seq, lane, mut draft| {
            // An aggregator takes the age of samples from two readings of this clock, which must
            // agree (N51).
            draft.start = clock_steps.by_present_clock(draft.start, draft.latest);
            if draft.has_bus() {
                orphans_reported.get_or_insert(seq);
            }
            let interval = (draft.start, draft.length_ns, draft.kind);
            let sealed = sealer.seal(ledger.seal(draft.samples()), seq, lane, now.wall, draft);

            // The start is that of the sealed message, or the history would show other times than
            // the fleet.
            if let Some(records) = records {
                let (start, length_ns, kind) = interval;
                let end = start.plus(Duration::from_nanos(length_ns));
                records.push_back(Record { end, length_ns, kind, message: sealed.payload.clone() });
            }

            sealed
        })
    }

    /// Keeps sealed messages for a history from now on.
    pub fn keep_records(&mut self) {
        self.records = Some(VecDeque::new());
    }

    pub fn next_record(&mut self) -> Option<Record> {
        self.records.as_mut()?.pop_front()
    }

    /// Carries out captures from now on, as far as the gate lets them.
    pub fn enable_captures(&mut self, identity: Identity, gate: CaptureGate) {
        self.captures = Captures::new(identity, gate);
    }

    pub fn captures(&mut self) -> &mut Captures {
        &mut self.captures
    }

    /// Profiles processes from now on.
    pub fn enable_continuous(&mut self, bounds: ContinuousBounds) {
        self.continuous = Continuous::new(bounds);
    }

    pub fn continuous(&mut self) -> &mut Continuous {
        &mut self.continuous
    }

    /// The next thing to do for continuous profiling; an ordered capture has priority.
    pub fn next_continuous(&mut self, now: Mono) -> Option<ContinuousEffect> {
        let turns = |order: &CaptureOrder| Turns {
            hz: order.hz,
            native: order.native,
            every: Duration::from_secs(
                order.interval_seconds.unwrap_or(limits::CONTINUOUS_SECONDS).into(),
            ),
        };
        self.continuous.set_ordered(now, self.captures.recording().map(turns));
        self.continuous.next_effect(now, |pid| self.captures.is_capturing(pid))
    }

    /// Whether the kernel is to state who sends.
    pub fn is_searching_senders(&self, now: Mono) -> bool {
        self.captures.is_searching() || self.continuous.is_searching(now)
    }

    /// The kernel states that this process has sent a frame.
    pub fn on_frame_sender(&mut self, now: Mono, frame: &Frame, sender: SendingProcess) {
        self.captures.on_sender(sender, |series| self.intake.has_frame(frame, series));
        self.continuous.on_sender(now, sender);
    }

    pub fn on_handover_failed(&mut self, now: Now, ticket: Ticket) {
        self.outbox.on_handover_failed(now.mono, ticket);
    }

    /// Starts to keep what is held in a spool, after taking over what former incarnations held:
    /// their sealed messages are sent again unchanged, their drafts become drafts of this
    /// incarnation, and each that ended without a final message gets one.
    pub fn open_spool(&mut self, now: Now, wal: Wal, recovered: Option<RecoveredMessages>) {
        self.spool.open(wal);
        self.outbox.set_spooled(true);
        if let Some(recovered) = recovered {
            self.take_over(now, recovered);
        }
    }

    fn take_over(&mut self, now: Now, mut recovered: RecoveredMessages) {
        // A clock that was set back may have given this process the number of a former one, and
        // numbers of messages count within an incarnation.
        let own = recovered.unused_incarnation(self.sealer.incarnation);
        self.sealer.incarnation = own;
        self.outbox.set_incarnation(own);
        let stopped = recovered.stopped();
        let expired = self.spool.on_recovered(now.wall, &mut recovered);

        let lost = SampleCount { all: expired.draft_samples, own: expired.draft_own_samples };
        // They are of this incarnation now, as the drafts that it adopts are.
        self.ledger.record(lost);
        self.ledger.lose(loss::EXPIRED, lost);
        self.outbox.lose_events(loss::EXPIRED, expired.draft_events);

        for state in recovered.incarnations {
            let is_stopped = stopped == Some(state.incarnation);
            let end = if is_stopped { IncarnationEnd::InOrder } else { IncarnationEnd::Crashed };
            self.take_over_incarnation(now, state, end);
        }

        self.record_again(&recovered.sealed);
        recovered.sealed.into_iter().for_each(|sealed| self.outbox.adopt(now.mono, sealed));
        // Old readings and counters are superseded, and so is a final message that was not sealed.
        let drafts = recovered.drafts.into_iter().map(|(_, draft)| draft);

        for draft in drafts.filter(|draft| !draft.is_state()) {
            self.ledger.record(samples_of(&draft));
            self.outbox.adopt_draft(draft);
        }
    }

    /// An incarnation that was killed may have handed its last messages over and not have written
    /// them.
    fn record_again(&mut self, sealed: &[SealedMessage]) {
        let Some(records) = &mut self.records else { return };
        let newest = sealed.len().saturating_sub(limits::HISTORY_WRITTEN_AGAIN);
        records.extend(sealed[newest..].iter().filter_map(Record::of_sealed));
    }

    fn take_over_incarnation(
        &mut self,
        now: Now,
        mut state: IncarnationState,
        end: IncarnationEnd,
    ) {
        self.outbox.set_newest_sent(state.incarnation, state.newest);
        // Without one its ledger would stay open at the aggregator for ever (N4).
        if state.lacks_final_message() {
            let last = self.sealer.final_message_of(now.wall, &state, end);
            (state.newest, state.left) = (last.seq, true);
            self.outbox.push_sealed(now.mono, last);
        }
        self.spool.add_former(state);
    }

    /// Whether nothing is left that a later incarnation would have to report: the final message and
    /// all before it are stored, and so is what was noted of former incarnations.
    pub fn leaves_nothing(&self) -> bool {
        let is_over = self.leaving && self.outbox.is_final_sealed() && self.outbox.is_empty();
        is_over && self.spool.orphans().is_empty()
    }

    /// Former incarnations have left notes and no spool file, as after a full disk. Bus messages
    /// report them until an aggregator has confirmed one.
    pub fn on_orphans(&mut self, orphans: Vec<NotedIncarnation>) {
        self.spool.set_orphans(orphans);
    }

    pub fn on_spool_quarantined(&mut self, reason: &'static str) {
        self.spool.on_quarantined(reason);
    }

    /// The note that an answer to what was just recorded waits for. A repetition waits as long as
    /// what it repeats, so the number is the same for all that a turn brings.
    pub fn wait_for_note(&mut self, now: Now) -> NoteNumber {
        self.spool.wait_for_note(now.mono)
    }

    pub fn noted(&self) -> NoteNumber {
        self.spool.noted()
    }

    /// Whether an answer waits for its note for so long that nothing more that is answered may be
    /// recorded: its client would give up and send it again.
    pub fn are_answers_overdue(&self, now: Now) -> bool {
        self.spool.are_answers_overdue(now.mono)
    }

    /// The next note to write beside the spool; `None` while no answer waits for one and none is
    /// due.
    pub fn next_note(&mut self, now: Now) -> Option<Notes> {
        let (note, brought) = (self.note(), self.brought());
        self.spool.next_note(now.mono, note, brought)
    }

    /// Samples that jobs have brought.
    fn brought(&self) -> u64 {
        self.note().recorded.saturating_sub(self.own_closed)
    }

    /// What a note would state now. The node's own samples have no client that relies on them:
    /// those of the open interval are recorded when it is closed.
    pub fn note(&self) -> NotedIncarnation {
        let open = self.intake.open_samples().saturating_sub(self.own_open);
        // The last interval is closed, so the ledger has all of it.
        let open = if self.leaving { 0 } else { open };
        let recorded = self.ledger.totals().recorded.saturating_add(open).min(COUNT_MAX);
        NotedIncarnation { incarnation: self.sealer.incarnation, recorded }
    }

    pub fn on_noted(&mut self, now: Now) {
        self.spool.on_noted(now.mono);
    }

    /// The note could not be written: answers leave without it until one is.
    pub fn on_note_failed(&mut self, now: Now) {
        self.spool.on_note_failed(now.mono);
    }

    /// The next batch to write into the spool; `None` while nothing has changed, a write is under
    /// way, a failed one is not retried yet, or an answer to what it would hold is still owed.
    pub fn next_spool_batch(&mut self, now: Now) -> Option<Batch> {
        if !self.spool.may_write(now.mono) {
            return None;
        }
        let own = self.incarnation_state();
        let (drafts, sealed) = (self.outbox.drafts().collect(), self.outbox.sealed().collect());
        let batch = self.spool.next_batch(now.mono, drafts, sealed, own)?;

        // What is sealed from here on is not in this batch and must wait for the next.
        self.outbox.set_spooled(true);
        self.outbox.on_spooling();
        Some(batch)
    }

    fn incarnation_state(&self) -> IncarnationState {
        IncarnationState {
            incarnation: self.sealer.incarnation,
            newest: self.outbox.newest_sealed(),
            totals: self.ledger.stated(),
            left: self.leaving && self.outbox.is_final_sealed(),
        }
    }

    /// The batch is on disk.
    pub fn on_spooled(&mut self) {
        self.spool.on_written();
        self.outbox.on_spooled();
    }

    /// The batch could not be written and the file is removed: until it is rewritten, messages are
    /// sent without it.
    pub fn on_spool_failed(&mut self, now: Now) {
        self.spool.on_failed(now.mono, false);
        self.outbox.on_spool_failed();
    }

    /// The batch could not be written, and an outdated file remains. Until it is removed or
    /// rewritten, nothing more is sent: a later start would treat what is sent now as unsent.
    pub fn on_spool_stuck(&mut self, now: Now) {
        self.spool.on_failed(now.mono, true);
    }

    /// The spool writer has ended: messages are sent without a spool.
    pub fn close_spool(&mut self) {
        self.spool.close();
        self.outbox.on_spool_failed();
    }

    /// Whether a leaving node has nothing more to wait for: every message is acknowledged, and
    /// confirmed as well if an aggregator confirms in time.
    pub fn is_drained(&self, now: Now) -> bool {
        let waited = |emptied| now.mono.since(emptied) >= limits::LEAVE_CONFIRM_WAIT;
        let confirmed = !self.outbox.awaits_confirmation();
        self.outbox.is_empty() && (confirmed || self.emptied.is_some_and(waited))
    }

    /// Whether the last interval was closed.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    pub fn taken_ids(&self) -> u64 {
        self.outbox.taken_ids()
    }

    /// The longest body of a message that the broker takes.
    pub fn body_bytes_max(&self) -> usize {
        self.outbox.payload_body_bytes()
    }

    /// Whether messages can be sent.
    pub fn is_connected(&self) -> bool {
        self.outbox.is_connected()
    }

    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    pub fn status(&self) -> Status {
        Status {
            intake: self.intake.stats(),
            otlp: self.intake.otlp_stats(),
            totals: self.ledger.totals().clone(),
            never_sent_samples: self.ledger.never_sent(),
            own_open_samples: self.own_open,
            held_samples: self.outbox.samples(),
            unconfirmed_samples: self.outbox.unconfirmed_samples(),
            unconfirmed_bytes: self.outbox.unconfirmed_bytes(),
            events_lost: self.outbox.events_lost().clone(),
            confirmations: self.confirmations.clone(),
            denials: self.denials,
            dead_letters: self.outbox.dead_letters(),
            spool: self.spool.stats(),
            captures: self.captures.stats(),
            continuous: self.continuous.stats(),
            in_flight: self.outbox.in_flight(),
            series: self.intake.series(),
            limits: self.intake.limits(),
            connected: self.outbox.is_connected(),
            breaker: self.outbox.breaker(),
            critical_rerouted: self.outbox.critical_rerouted,
            sent_at_once: self.outbox.sent_at_once,
            bus: self.bus_stats(),
        }
    }

    fn bus_stats(&self) -> Bus {
        let intake = self.intake.stats();
        Bus {
            reconnects: self.connections.saturating_sub(1),
            round_trip_ns: self.round_trip.map(nanos),
            task_restarts: self.task_restarts,
            kernel_dropped: intake.kernel_dropped,
            rejected: intake.rejected.into_iter().map(|(why, n)| (why.reason(), n)).collect(),
            recorded: self.ledger.totals().recorded,
            recorded_own: self.ledger.recorded_own(),
            confirmations_refused: self.confirmations.by_reason(),
            spooled: Some(self.spool.outlives_process()),
            spool_durable: self.spool.durable(),
            former: self.spool.orphans().into(),
            ended_operations: self.intake.ended_operations(),
            suspect_units: intake.suspect_units.len() as u64,
            version: env!("CARGO_PKG_VERSION").into(),
            ..self.outbox.stats()
        }
    }
}

fn samples_of(draft: &Draft) -> SampleCount {
    SampleCount { all: draft.samples(), own: draft.own_samples() }
}

#[cfg(test)]
mod tests;
