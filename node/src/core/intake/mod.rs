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

use std::collections::BTreeSet;

use crate::limits::DATAGRAM_BYTES_MAX;
use plimsoll_schemas::ids::{Labels, Operation, Seq, Series};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::confirmation::LatencyLimit;
use plimsoll_schemas::wire::frame::Frame;

use super::captures::SendingProcess;
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
pub(super) use recorder::ClosedInterval;
use recorder::Recorder;
pub use reject::Reject;
pub use rules::Rules;
use scan::take_until;
pub use stats::IntakeStats;

pub(super) struct Intake {
    recorder: Recorder,
    clients: Clients,
    jobs: Jobs,
    events: OpenEvents,
    pages: Pages,
    otlp: Otlp,
    warnings: LineWarnings,
}

/// What one read of a datagram socket returned.
#[derive(Clone, Copy, Debug)]
pub enum SocketEvent<'a> {
    /// A datagram; one longer than `DATAGRAM_BYTES_MAX` was cut, but is still longer than that.
    Datagram {
        bytes: &'a [u8],
        /// The process that sent it, as the kernel states while it is asked to.
        sender: Option<SendingProcess>,
    },
    /// A datagram of a user who may not send any.
    Refused,
    /// A read failed, which may have cost a datagram.
    Failed,
    /// The kernel dropped this many datagrams since the last read of its counter, because the
    /// socket was full.
    Dropped(u64),
}

impl Intake {
    /// An intake with an empty interval. `seed` is a number that a sender does not choose.
    pub(super) fn new(now: Now, series_max: usize, rules: Rules, seed: u64) -> Self {
        let Rules { labels, units, otlp, targets } = rules;
        Self {
            otlp: Otlp::new(labels.clone(), units.clone(), otlp, seed),
            recorder: Recorder::new(now, series_max, labels.clone(), units.clone(), seed),
            pages: Pages::new(now, labels, units, targets, seed),
            clients: Clients::default(),
            jobs: Jobs::default(),
            events: OpenEvents::default(),
            warnings: LineWarnings::default(),
        }
    }

    pub(super) fn on_datagram(&mut self, now: Wall, datagram: &[u8]) {
        self.recorder.stats_mut().datagrams += 1;
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return self.reject(Reject::Truncated, datagram);
        }
        let mut rest = datagram;

        if rest.starts_with(Sequence::PREFIX) {
            let line = take_until(b'\n', &mut rest);
            // A number that cannot be read costs itself alone: the lines behind it are recorded all
            // the same.
            match self.on_sequence(trimmed(line)) {
                Ok(()) => {}
                Err(Reject::Duplicate) => return self.recorder.reject(Reject::Duplicate),
                Err(reason) => self.reject(reason, line),
            }
        }

        while !rest.is_empty() {
            let line = take_until(b'\n', &mut rest);
            if !line.is_empty() {
                self.on_line(now, trimmed(line));
            }
        }

        // What is recorded next may be anyone's.
        self.recorder.set_source(None);
    }

    pub(super) fn on_socket_event(&mut self, now: Wall, event: SocketEvent<'_>) {
        match event {
            SocketEvent::Datagram { bytes, .. } => self.on_datagram(now, bytes),
            SocketEvent::Refused => self.recorder.reject(Reject::NotAllowed),
            SocketEvent::Failed => self.recorder.stats_mut().read_errors += 1,
            SocketEvent::Dropped(count) => self.recorder.stats_mut().kernel_dropped += count,
        }
    }

    /// Whether a datagram has a line of this series; it may have more labels.
    pub(super) fn has_line(&self, datagram: &[u8], series: &Series) -> bool {
        let Series { operation, labels } = series;
        datagram.split(|byte| *byte == b'\n').any(|line| {
            lines::parse(trimmed(line)).is_ok_and(|line| {
                let (tags, container) = (str::from_utf8(line.tags), str::from_utf8(line.container));
                line.name == operation.as_str().as_bytes()
                    && tags.ok().zip(container.ok()).is_some_and(|(tags, container)| {
                        has_labels(&self.recorder.label_rules().read(tags, container).0, labels)
                    })
            })
        })
    }

    /// Whether a frame has this series; it may have more labels.
    pub(super) fn has_frame(&self, frame: &Frame, series: &Series) -> bool {
        let Latency { histograms, counters, gauges } = &frame.latency;
        let of_histograms = histograms.iter().map(|(sent, _)| sent);
        let of_numbers = counters.iter().chain(gauges).map(|(sent, _)| sent);
        of_histograms.chain(of_numbers).any(|sent| {
            sent.operation == series.operation && has_labels(&sent.labels, &series.labels)
        })
    }

    fn on_sequence(&mut self, line: &[u8]) -> Result<(), Reject> {
        let sequence = Sequence::parse(line)?;
        let (client, missing) = self.clients.on_datagram(&sequence)?;
        self.set_source(client, sequence.is_last);
        // Saturates because a sender may claim any number.
        let lost = &mut self.recorder.stats_mut().client_lost_datagrams;
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
                // Bytes that are no text explain whatever else is wrong with the line. A long one
                // is not read.
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

    pub(super) fn take_line_warnings(&mut self) -> impl Iterator<Item = RejectedInput> + use<> {
        self.warnings.take()
    }

    fn on_event(&mut self, now: Wall, line: &[u8]) -> Result<(), Reject> {
        let parsed = events::parse(now, line, self.recorder.label_rules())?;
        let source = parsed.event.source;
        self.events.push(parsed.event)?;
        *self.recorder.stats_mut().events.entry(source).or_default() += 1;
        self.recorder.stats_mut().events_cut += parsed.cut;
        if let Some(labels) = parsed.labels {
            self.recorder.stats_mut().labels.add(labels, 1);
        }
        Ok(())
    }

    /// Records a frame unless it is a repetition, and returns the number up to which the client's
    /// frames are recorded.
    pub(super) fn on_frame(&mut self, now: Wall, frame: Frame) -> Seq {
        self.recorder.stats_mut().frames += 1;
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

    pub(super) fn on_frame_rejected(&mut self, reason: &'static str) {
        *self.recorder.stats_mut().frames_rejected.entry(reason).or_default() += 1;
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
        self.recorder.stats_mut().labels.add(outcome.labels, 1);
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
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
        leaving: bool,
    ) -> Result<Outcome, Malformed> {
        let recorder = (!leaving).then_some(&mut self.recorder);
        self.otlp.on_body(recorder, now, signal, encoding, body)
    }

    pub(super) fn take_otlp_warnings(&mut self) -> Vec<String> {
        self.otlp.take_warnings()
    }

    pub(super) fn take_unit_warnings(&mut self) -> Vec<String> {
        self.recorder.take_unit_warnings()
    }

    /// Records a latency that the node measured itself. Returns whether there was room.
    pub(super) fn on_own_latency(&mut self, operation: &Operation, ns: u64) -> bool {
        self.recorder.on_own_latency(operation, ns)
    }

    pub(super) fn on_limits(&mut self, now: Mono, limits: &[LatencyLimit]) {
        self.recorder.on_limits(now, limits);
    }

    pub(super) fn limits(&self) -> Vec<LatencyLimit> {
        self.recorder.limits()
    }

    pub(super) fn open_samples(&self) -> u64 {
        self.recorder.open_samples
    }

    pub(super) fn close(&mut self, now: Now) -> ClosedInterval {
        // Before the recorder closes the interval, and with it who brought what.
        let judged = self.judged();
        self.jobs.on_interval(now.mono, &judged, self.recorder.brought());
        ClosedInterval { events: self.events.take(), ..self.recorder.close(now) }
    }

    /// Operations of which every job has ended normally, as of the last closed interval.
    pub(super) fn ended_operations(&self) -> Box<[Operation]> {
        self.jobs.ended(&self.judged())
    }

    /// Operations that a budget of an aggregator judges.
    fn judged(&self) -> BTreeSet<Operation> {
        self.recorder.limits().into_iter().map(|limit| limit.operation).collect()
    }

    pub(super) fn series(&self) -> usize {
        self.recorder.series()
    }

    pub(super) fn stats(&self) -> IntakeStats {
        IntakeStats {
            clients: self.clients.len(),
            scrapes: self.pages.stats(),
            ..self.recorder.stats()
        }
    }

    pub(super) fn otlp_stats(&self) -> OtlpStats {
        self.otlp.stats()
    }
}

fn has_labels(sent: &Labels, searched: &Labels) -> bool {
    searched.iter().all(|(key, value)| sent.get(key) == Some(value))
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
