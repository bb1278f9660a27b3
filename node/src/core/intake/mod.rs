//! What comes in: datagrams of lines, frames of clients. Decides what is recorded in the open
//! interval, what is refused, and what of it a socket has lost; nothing passes without a count.
//!
//! A line's way: [`dogstatsd`] cuts it into parts, [`spellings`] finds its series by their bytes,
//! or [`rules`] do ([`units`], [`labels`]) when it is new; [`number`] reads its values, and
//! [`interval`] counts them, and those over [`limits`] beside. [`clients`] number their datagrams
//! and frames, [`events`] have words; what other systems count comes as [`points`],
//! which [`promtext`] reads from pages.

mod clients;
mod dogstatsd;
mod events;
pub mod figures;
mod find;
mod interval;
pub mod labels;
mod limits;
mod number;
pub mod otlp;
pub mod point;
pub mod points;
pub mod promtext;
pub mod reject;
pub mod rules;
mod slot;
mod spellings;
pub mod units;

use std::collections::BTreeMap;

use crate::limits::DATAGRAM_BYTES_MAX;
use plimsoll_schemas::ids::{Operation, Seq};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::frame::Frame;
use plimsoll_schemas::wire::{Events, Latency};

use clients::{Clients, Position, SEQUENCE};
use events::OpenEvents;
use figures::IntakeFigures;
use find::find;
pub use interval::OVERFLOW;
use interval::{Admitted, Interval};
use point::Point;
use points::Points;
use promtext::{Pages, Scrape};
use reject::Reject;
use rules::Rules;
use slot::MetricType;

/// Samples that a client sent and no datagram brought.
pub(super) const SOCKET: &str = "socket";
/// Samples of a client's distribution that found no room in its series, or in the incarnation.
pub(super) const SAMPLES_CAP: &str = "samples_cap";

/// Everything that the open interval holds, and what is known of who fills it.
pub(super) struct Intake {
    interval: Interval,
    clients: Clients,
    points: Points,
    pages: Pages,
    events: OpenEvents,
    /// Samples that were lost before they could be recorded, by reason. They enter the ledger
    /// with the interval in which that was noticed.
    lost: BTreeMap<&'static str, u64>,
    /// Samples recorded and lost in the open interval.
    counted: u64,
    figures: IntakeFigures,
}

/// An interval that has ended.
pub(super) struct Closed {
    /// When it began.
    pub(super) started: Now,
    /// What was recorded.
    pub(super) latency: Latency,
    /// What was said in words.
    pub(super) events: Events,
    /// Samples to be counted as recorded and as lost, by reason.
    pub(super) lost: BTreeMap<&'static str, u64>,
}

impl Intake {
    /// Nothing yet. `seed` is a number that a sender does not choose.
    pub(super) fn new(now: Now, series_max: usize, rules: Rules, seed: u64) -> Self {
        Self {
            pages: Pages::new(now, &rules, seed),
            interval: Interval::new(now, series_max, rules, seed),
            clients: Clients::default(),
            points: Points::new(now, seed),
            events: OpenEvents::default(),
            lost: BTreeMap::new(),
            counted: 0,
            figures: IntakeFigures::default(),
        }
    }

    /// Takes one datagram of lines.
    pub(super) fn on_datagram(&mut self, now: Wall, datagram: &[u8]) {
        self.figures.datagrams += 1;
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return self.reject(Reject::Truncated);
        }
        let mut rest = datagram;
        if rest.starts_with(SEQUENCE) {
            let line = next_line(&mut rest);
            match self.on_sequence(trimmed(line)) {
                Ok(()) => {}
                Err(Reject::Duplicate) => return self.reject(Reject::Duplicate),
                Err(reason) => self.reject(reason),
            }
        }
        while !rest.is_empty() {
            let line = next_line(&mut rest);
            if !line.is_empty() {
                self.on_line(now, trimmed(line));
            }
        }
    }

    fn on_sequence(&mut self, line: &[u8]) -> Result<(), Reject> {
        let missing = self.clients.on_datagram(&Position::read(line)?)?;
        // Any sender may claim any number.
        let lost = &mut self.figures.client_lost_datagrams;
        *lost = lost.saturating_add(missing.datagrams);
        self.lose(SOCKET, missing.samples);
        Ok(())
    }

    fn on_line(&mut self, now: Wall, line: &[u8]) {
        let outcome = match line.first() {
            Some(b'_') if events::is_event(line) => self.on_event(now, line),
            _ => self.on_metric(now, line),
        };
        if let Err(reason) = outcome {
            self.reject(match reason {
                Reject::TooLong => reason,
                _ if str::from_utf8(line).is_err() => Reject::Encoding,
                _ => reason,
            });
        }
    }

    fn on_metric(&mut self, now: Wall, line: &[u8]) -> Result<(), Reject> {
        let line = dogstatsd::parse(line)?;
        let admitted = self.interval.record(now, line)?;
        self.figures.values += admitted.values;
        self.figures.timestamped += if line.at.is_some() { admitted.values } else { 0 };
        self.figures.overflowed += if admitted.folded { admitted.values } else { 0 };
        self.on_admitted(admitted, admitted.values);
        Ok(())
    }

    fn on_admitted(&mut self, admitted: Admitted, values: u64) {
        self.counted += admitted.samples;
        self.figures.samples += admitted.samples;
        self.figures.clamped += admitted.clamped;
        if let Some(labels) = admitted.labels {
            self.figures.labels.add(labels, values);
        }
    }

    fn on_event(&mut self, now: Wall, line: &[u8]) -> Result<(), Reject> {
        let parsed = events::parse(now, line, &self.interval.rules().labels)?;
        let source = parsed.event.source;
        self.events.push(parsed.event)?;
        *self.figures.events.entry(source).or_default() += 1;
        self.figures.cut += parsed.cut;
        if let Some(labels) = parsed.labels {
            self.figures.labels.add(labels, 1);
        }
        Ok(())
    }

    /// Records a frame unless it was before, and says up to which number the client's frames are
    /// recorded. A distribution for which there is no room is lost, as the client has let go of
    /// it: it was recorded there, so it stands in the ledger.
    pub(super) fn on_frame(&mut self, now: Wall, frame: Frame) -> Seq {
        self.figures.frames += 1;
        if self.clients.on_frame(&frame.client, frame.seq) {
            self.figures.clamped = self.figures.clamped.saturating_add(frame.clamped);
            self.record_frame(now, frame.latency);
        }
        self.recorded_up_to(&frame.client)
    }

    /// The number up to which a client's frames are recorded.
    pub(super) fn recorded_up_to(&self, client: &str) -> Seq {
        self.clients.frame(client)
    }

    fn record_frame(&mut self, now: Wall, latency: Latency) {
        for (series, histogram) in latency.histograms {
            let samples = histogram.count();
            let merged = self.interval.merge(series, histogram);
            if merged == Err(Reject::SamplesCap) {
                self.lose(SAMPLES_CAP, samples);
            }
            self.on_part(merged, samples);
        }
        for (series, amount) in latency.counters {
            let place = self.interval.place(MetricType::Counter, series);
            let added = place.map(|place| self.interval.add(place, amount));
            self.on_part(added, 1);
        }
        for (series, value) in latency.gauges {
            let place = self.interval.place(MetricType::Gauge, series);
            let set = place.map(|place| self.interval.set(now, place, value));
            self.on_part(set, 1);
        }
    }

    /// One series of a frame was recorded, or not.
    fn on_part(&mut self, part: Result<Admitted, Reject>, values: u64) {
        match part {
            Ok(admitted) => {
                self.figures.overflowed += if admitted.folded { values } else { 0 };
                self.on_admitted(admitted, values);
            }
            Err(reason) => self.reject(reason),
        }
    }

    /// Records what a point adds to what its stream told before.
    ///
    /// # Errors
    /// Says why nothing of it was taken, which is counted.
    pub(super) fn on_point(&mut self, now: Now, point: &Point<'_>) -> Result<(), Reject> {
        let taken = self.points.take(now, point, &mut self.interval);
        self.on_part(taken, 1);
        taken.map(|_| ())
    }

    /// Records what a page of a target says, or that there is none, and says what its operator
    /// should know.
    pub(super) fn on_scrape(&mut self, now: Now, scrape: &Scrape) -> Vec<String> {
        let mut pages = std::mem::take(&mut self.pages);
        let heard = pages.on_scrape(now, scrape, &mut |point| self.on_point(now, point));
        self.pages = pages;
        self.figures.labels.add_all(&heard.labels);
        for (reason, lines) in heard.refused {
            *self.figures.rejected.entry(reason).or_default() += lines;
        }
        heard.warnings
    }

    /// A frame could not be read.
    pub(super) fn on_frame_refused(&mut self, reason: &'static str) {
        *self.figures.frames_refused.entry(reason).or_default() += 1;
    }

    /// The node has measured a latency itself, which no series cap refuses.
    pub(super) fn on_own_latency(&mut self, operation: &Operation, ns: u64) {
        if !self.interval.record_own(operation, ns) {
            return self.reject(Reject::SamplesCap);
        }
        self.figures.samples += 1;
        self.counted += 1;
    }

    /// Hears over which limits samples are to be counted.
    pub(super) fn on_limits(&mut self, now: Mono, told: &[(Operation, u64)]) {
        self.interval.hear_limits(now, told);
    }

    /// The limits known, in nanoseconds.
    pub(super) fn limits(&self) -> Vec<(Operation, u64)> {
        self.interval.limits()
    }

    /// A socket could not be read, which may have cost a datagram.
    pub(super) fn on_read_error(&mut self) {
        self.figures.read_errors += 1;
    }

    /// The kernel dropped datagrams of which nothing else is known.
    pub(super) fn on_kernel_dropped(&mut self, datagrams: u64) {
        self.figures.kernel_dropped += datagrams;
    }

    /// The ledger counts no further than a reader does; what is beyond is in no account.
    fn lose(&mut self, reason: &'static str, samples: u64) {
        let samples = self.interval.reserve(samples);
        if samples > 0 {
            *self.lost.entry(reason).or_default() += samples;
            self.counted += samples;
        }
    }

    fn reject(&mut self, reason: Reject) {
        *self.figures.rejected.entry(reason).or_default() += 1;
    }

    /// Samples recorded and lost in the open interval.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// Ends the interval; the next begins.
    pub(super) fn close(&mut self, now: Now) -> Closed {
        self.counted = 0;
        let started = self.interval.started();
        let (latency, moved) = self.interval.close(now);
        self.points.renew(|slot| moved[slot]);
        Closed {
            started,
            latency,
            events: self.events.take(),
            lost: std::mem::take(&mut self.lost),
        }
    }

    /// Series that spoke in the open interval.
    pub(super) fn series(&self) -> usize {
        self.interval.len()
    }

    /// What came in so far.
    pub(super) fn figures(&self) -> IntakeFigures {
        let (points, scrapes) = (self.points.figures(), self.pages.figures());
        IntakeFigures { clients: self.clients.len(), points, scrapes, ..self.figures.clone() }
    }

    /// Datagrams that the kernel dropped so far.
    pub(super) fn kernel_dropped(&self) -> u64 {
        self.figures.kernel_dropped
    }

    /// Lines refused so far, by reason.
    pub(super) fn rejected(&self) -> &BTreeMap<Reject, u64> {
        &self.figures.rejected
    }
}

/// Takes one line off the front, without its end.
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
