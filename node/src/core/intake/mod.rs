//! The intake: everything that comes in, from datagrams to scraped pages, until the interval ends.
//!
//! Owns the readers of each format and the `recorder`, which counts what they
//! read into the open interval: [`lines`] reads DogStatsD, `unit_check` finds seconds sent as `ms`,
//! `clients` detects what numbered clients lost or sent twice, `jobs` which operations have
//! ended, `events` collects events and service checks, [`promtext`] reads scraped pages and
//! [`otlp`] OTLP requests, both as [`points`]. [`series`] holds the open interval. Nothing is
//! dropped without a counter.
//!
//! Refuses to do I/O, to build messages, and to keep anything of a closed interval except cached
//! series and the streams of cumulative points.

mod clients;
mod events;
pub mod glob;
mod jobs;
mod line_warnings;
pub mod lines;
pub mod otlp;
pub mod points;
pub mod promtext;
mod recorder;
mod reject;
mod rules;
mod scan;
pub mod series;
mod stats;
mod unit_check;

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::DATAGRAM_BYTES_MAX;
use plimsoll_schemas::ids::{Operation, Seq};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::confirmation::LatencyLimit;
use plimsoll_schemas::wire::frame::Frame;
use plimsoll_schemas::wire::{EventSource, Events, Latency};

use super::loss::SOCKET;
use clients::{ClientId, Clients};
use events::OpenEvents;
use jobs::Jobs;
use line_warnings::LineWarnings;
pub use line_warnings::RejectedInput;
use lines::Sequence;
use otlp::{Encoding, Malformed, Otlp, OtlpStats, Outcome, Signal};
use points::Point;
use promtext::{Pages, Scrape};
use recorder::{RecordedInterval, Recorder};
pub use reject::Reject;
pub use rules::Rules;
use scan::find;
pub use stats::IntakeStats;

pub(super) struct Intake {
    recorder: Recorder,
    clients: Clients,
    jobs: Jobs,
    events: OpenEvents,
    pages: Pages,
    otlp: Otlp,
    warnings: LineWarnings,
    input: InputStats,
}

/// Counts of input by how it arrived; they only grow.
#[derive(Default)]
struct InputStats {
    datagrams: u64,
    read_errors: u64,
    kernel_dropped: u64,
    client_lost_datagrams: u64,
    frames: u64,
    frames_rejected: BTreeMap<&'static str, u64>,
    events: BTreeMap<EventSource, u64>,
    events_cut: u64,
}

/// An interval that has ended.
pub(super) struct ClosedInterval {
    pub(super) started: Now,
    pub(super) latency: Latency,
    /// Operations of which more samples than allowed exceed a limit.
    pub(super) breached: BTreeSet<Operation>,
    /// Events and service checks.
    pub(super) events: Events,
    /// Samples that count as recorded and as lost, by reason.
    pub(super) lost: BTreeMap<&'static str, u64>,
}

impl Intake {
    /// An intake with an empty interval. `seed` is a number that a sender does not choose.
    pub(super) fn new(now: Now, series_max: usize, rules: Rules, seed: u64) -> Self {
        let Rules { labels, units, otlp, targets } = rules;
        let reading = (labels.clone(), units.clone());
        Self {
            pages: Pages::new(now, labels, units, targets, seed),
            otlp: Otlp::new(reading.clone(), otlp, seed),
            recorder: Recorder::new(now, series_max, reading, seed),
            clients: Clients::default(),
            jobs: Jobs::default(),
            events: OpenEvents::default(),
            warnings: LineWarnings::default(),
            input: InputStats::default(),
        }
    }

    /// Records one datagram of lines.
    pub(super) fn on_datagram(&mut self, now: Wall, datagram: &[u8]) {
        self.input.datagrams += 1;
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return self.reject(Reject::Truncated, datagram);
        }
        let mut rest = datagram;
        if rest.starts_with(Sequence::PREFIX) {
            let line = next_line(&mut rest);
            match self.on_sequence(trimmed(line)) {
                Ok(()) => {}
                Err(Reject::Duplicate) => return self.recorder.reject(Reject::Duplicate),
                Err(reason) => self.reject(reason, line),
            }
        }
        while !rest.is_empty() {
            let line = next_line(&mut rest);
            if !line.is_empty() {
                self.on_line(now, trimmed(line));
            }
        }
        self.recorder.set_source(None);
    }

    /// A datagram came from a user who may not send any.
    pub(super) fn on_datagram_refused(&mut self) {
        self.recorder.reject(Reject::NotAllowed);
    }

    fn on_sequence(&mut self, line: &[u8]) -> Result<(), Reject> {
        let sequence = Sequence::parse(line)?;
        let (client, missing) = self.clients.on_datagram(&sequence)?;
        self.set_source(client, sequence.is_last);
        // Saturates because a sender may claim any number.
        let lost = &mut self.input.client_lost_datagrams;
        *lost = lost.saturating_add(missing.datagrams);
        self.recorder.lose(SOCKET, missing.samples);
        Ok(())
    }

    /// What is recorded next comes from a client, which sends nothing after it if `is_last`.
    fn set_source(&mut self, client: ClientId, is_last: bool) {
        self.recorder.set_source(Some(client));
        if is_last {
            self.jobs.on_final(client);
        }
    }

    fn on_line(&mut self, now: Wall, line: &[u8]) {
        let outcome = match line.first() {
            Some(b'_') if events::is_event(line) => self.on_event(now, line),
            _ => lines::parse(line).and_then(|line| self.recorder.on_line(now, line)),
        };
        if let Err(reason) = outcome {
            let reason = match reason {
                Reject::TooLong => reason,
                _ if str::from_utf8(line).is_err() => Reject::Encoding,
                _ => reason,
            };
            self.reject(reason, line);
        }
    }

    fn reject(&mut self, reason: Reject, input: &[u8]) {
        self.recorder.reject(reason);
        self.warnings.on_rejected(reason.as_str(), input);
    }

    /// Warnings about rejected lines for the operator, at doubling counts of each reason.
    pub(super) fn take_line_warnings(&mut self) -> impl Iterator<Item = RejectedInput> + use<> {
        self.warnings.take()
    }

    fn on_event(&mut self, now: Wall, line: &[u8]) -> Result<(), Reject> {
        let parsed = events::parse(now, line, self.recorder.label_rules())?;
        let source = parsed.event.source;
        self.events.push(parsed.event)?;
        *self.input.events.entry(source).or_default() += 1;
        self.input.events_cut += parsed.cut;
        if let Some(labels) = parsed.labels {
            self.recorder.add_line_labels(labels);
        }
        Ok(())
    }

    /// Records a frame unless it is a repetition, and returns the number up to which the client's
    /// frames are recorded.
    pub(super) fn on_frame(&mut self, now: Wall, frame: Frame) -> Seq {
        self.input.frames += 1;
        if let Some(client) = self.clients.on_frame(&frame.client, frame.seq) {
            self.set_source(client, frame.last);
            self.recorder.on_frame(now, frame.clamped, frame.latency);
            self.recorder.set_source(None);
        }
        self.recorded_up_to(&frame.client)
    }

    /// The number up to which a client's frames are recorded.
    pub(super) fn recorded_up_to(&self, client: &str) -> Seq {
        self.clients.frame(client)
    }

    /// A frame could not be read.
    pub(super) fn on_frame_rejected(&mut self, reason: &'static str) {
        *self.input.frames_rejected.entry(reason).or_default() += 1;
    }

    /// Records what a point adds to what its stream reported before.
    ///
    /// # Errors
    /// Why nothing of it was recorded, which is counted.
    pub(super) fn on_point(&mut self, now: Now, point: &Point<'_>) -> Result<(), Reject> {
        self.recorder.on_point(now, point)
    }

    /// Records the page of a target, or that there is none, and returns warnings for the operator.
    pub(super) fn on_scrape(&mut self, now: Now, scrape: &Scrape) -> Vec<String> {
        let Self { pages, recorder, .. } = self;
        let outcome = pages.on_scrape(now, scrape, &mut |point| recorder.on_point(now, point));
        self.recorder.add_labels(&outcome.labels);
        for (reason, lines) in outcome.rejected {
            self.recorder.reject_many(reason, lines);
        }
        outcome.warnings
    }

    /// Records one OTLP request body, or rejects all of its items if the node is `leaving`.
    ///
    /// # Errors
    /// When it is malformed; then nothing of it is recorded.
    pub(super) fn on_otlp(
        &mut self,
        now: Now,
        format: (Signal, Encoding),
        body: &[u8],
        leaving: bool,
    ) -> Result<Outcome, Malformed> {
        let recorder = (!leaving).then_some(&mut self.recorder);
        self.otlp.on_body(recorder, now, format, body)
    }

    /// Warnings about OTLP for the operator, once for each reason.
    pub(super) fn take_otlp_warnings(&mut self) -> Vec<String> {
        self.otlp.take_warnings()
    }

    /// Warnings about units for the operator, once for each operation.
    pub(super) fn take_unit_warnings(&mut self) -> Vec<String> {
        self.recorder.take_unit_warnings()
    }

    /// Operations of which the unit is suspect.
    pub(super) fn suspect_units(&self) -> &[Operation] {
        self.recorder.suspect_units()
    }

    /// Records a latency that the node measured itself. Returns whether there was room.
    pub(super) fn on_own_latency(&mut self, operation: &Operation, ns: u64) -> bool {
        self.recorder.on_own_latency(operation, ns)
    }

    /// Adds limits over which samples are counted exactly.
    pub(super) fn on_limits(&mut self, now: Mono, limits: &[LatencyLimit]) {
        self.recorder.on_limits(now, limits);
    }

    /// All limits, in nanoseconds.
    pub(super) fn limits(&self) -> Vec<(Operation, u64)> {
        self.recorder.limits()
    }

    /// A socket could not be read, which may have cost a datagram.
    pub(super) fn on_read_error(&mut self) {
        self.input.read_errors += 1;
    }

    /// The kernel dropped datagrams of unknown senders.
    pub(super) fn on_kernel_dropped(&mut self, datagrams: u64) {
        self.input.kernel_dropped += datagrams;
    }

    /// Samples recorded and lost in the open interval.
    pub(super) fn open_samples(&self) -> u64 {
        self.recorder.open_samples()
    }

    /// Closes the interval and starts the next.
    pub(super) fn close(&mut self, now: Now) -> ClosedInterval {
        let judged = self.judged();
        self.jobs.on_interval(now.mono, &judged, self.recorder.brought());
        let RecordedInterval { started, latency, breached, lost } = self.recorder.close(now);
        ClosedInterval { started, latency, breached, events: self.events.take(), lost }
    }

    /// Operations of which every job has ended in good order, as of the last closed interval.
    pub(super) fn ended_operations(&self) -> Box<[Operation]> {
        self.jobs.ended(&self.judged())
    }

    /// Operations that a budget of an aggregator judges.
    fn judged(&self) -> BTreeSet<Operation> {
        self.recorder.limits().into_iter().map(|(operation, _)| operation).collect()
    }

    /// Series that were active in the open interval.
    pub(super) fn series(&self) -> usize {
        self.recorder.series()
    }

    /// What came in so far.
    pub(super) fn stats(&self) -> IntakeStats {
        let (input, recorded) = (&self.input, self.recorder.stats().clone());
        IntakeStats {
            datagrams: input.datagrams,
            values: recorded.values,
            timestamped: recorded.timestamped,
            samples: recorded.samples,
            clamped: recorded.clamped,
            overflowed: recorded.overflowed,
            rejected: recorded.rejected,
            read_errors: input.read_errors,
            kernel_dropped: input.kernel_dropped,
            labels: recorded.labels,
            events: input.events.clone(),
            events_cut: input.events_cut,
            clients: self.clients.len(),
            client_lost_datagrams: input.client_lost_datagrams,
            frames: input.frames,
            frames_rejected: input.frames_rejected.clone(),
            suspect_units: self.recorder.suspect_units().to_vec(),
            points: self.recorder.point_stats(),
            scrapes: self.pages.stats(),
        }
    }

    /// What came in as OTLP so far.
    pub(super) fn otlp_stats(&self) -> OtlpStats {
        self.otlp.stats()
    }

    /// Datagrams that the kernel dropped so far.
    pub(super) fn kernel_dropped(&self) -> u64 {
        self.input.kernel_dropped
    }

    /// Rejected input so far, by reason.
    pub(super) fn rejected(&self) -> &BTreeMap<Reject, u64> {
        &self.recorder.stats().rejected
    }
}

/// Removes one line from the front, without its line end.
fn next_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (line, after) = match find(b'\n', rest) {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (*rest, &[][..]),
    };
    *rest = after;
    line
}

/// A line without the carriage returns that some senders leave at its end.
fn trimmed(mut line: &[u8]) -> &[u8] {
    while let [before @ .., b'\r'] = line {
        line = before;
    }
    line
}

#[cfg(test)]
mod tests;
