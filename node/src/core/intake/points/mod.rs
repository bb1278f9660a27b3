//! What one point of another system adds to the open interval. A point is a figure that somebody
//! else has merged; how it was written is the business of its reader.
//!
//! - Delta: all of it is new. One of a time that was taken, in part or whole, is refused.
//! - Cumulative: the difference to the last point of the stream is new. The first one is new as a
//!   whole when its producer began after this node did, else it adds nothing: it may hold what a
//!   former run of the node has sent. A start later than what was taken is a restart.
//! - A count that went down is a restart where no start is told, as in Prometheus. Where one is,
//!   the producer contradicts itself, or is two that call themselves the same: a distribution is
//!   refused, since nobody knows what of it is new; a sum is taken from zero.
//! - Processes that call themselves the same are told apart by their starts. Deltas have none, so
//!   those of the second overlap and are refused: it has to say who it is, as by
//!   `service.instance.id`.
//! - Other bounds than before, from the same start: nothing is added, the next is compared.

mod edges;
mod kept;
mod streams;
mod taking;
mod told;

use crate::limits::POINT_AHEAD_MAX;
use plimsoll_schemas::time::{Now, Wall};

use super::interval::{Admitted, Interval};
use super::point::{Point, Temporality, Value};
use super::reject::Reject;
use kept::Difference;
use streams::{First, Memory, Streams};
use taking::Taking;

/// What came of points so far; refusals are among all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointFigures {
    /// Points taken, those that added nothing included.
    pub taken: u64,
    /// Of those, points that only say from where to count on.
    pub baselines: u64,
    /// Of those, points of a process that began anew.
    pub restarts: u64,
    /// Streams known at this moment.
    pub streams: usize,
    /// Streams that gave way to others.
    pub forgotten: u64,
}

/// What is known of all who tell points.
pub(super) struct Points {
    streams: Streams,
    difference: Difference,
    figures: PointFigures,
}

impl Points {
    /// Nobody yet. `seed` is a number that a sender does not choose.
    pub(super) fn new(now: Now, seed: u64) -> Self {
        Self {
            streams: Streams::new(now, seed),
            difference: Difference::default(),
            figures: PointFigures::default(),
        }
    }

    /// Takes a point, all of it or nothing.
    ///
    /// # Errors
    /// Says why nothing of it was taken.
    pub(super) fn take(
        &mut self,
        now: Now,
        point: &Point<'_>,
        interval: &mut Interval,
    ) -> Result<Admitted, Reject> {
        let Self { streams, difference, figures } = self;
        let start = if is_since_start(point) { point.start } else { Wall::default() };
        check_time(point)?;
        let mut taking = Taking { now, point, interval, figures };
        let admitted = if let Some(stream) = streams.get(point.stream, start) {
            check_order(now.wall, point, stream.time)?;
            let before = stream.memory.bytes();
            let admitted = taking.take(&mut stream.memory, None, difference)?;
            stream.time = point.time;
            let bytes = stream.memory.bytes();
            streams.on_kept(now, bytes, before);
            admitted
        } else {
            let first = if is_since_start(point) { streams.first(now, point) } else { First::New };
            let mut memory = Memory::default();
            let admitted = taking.take(&mut memory, Some(first), difference)?;
            streams.insert(now, start, point, memory);
            admitted
        };
        self.figures.taken += 1;
        Ok(admitted)
    }

    /// Hears where the slots of all series are now.
    pub(super) fn renew(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        self.streams.renew(moved);
    }

    /// What came so far.
    pub(super) fn figures(&self) -> PointFigures {
        let (streams, forgotten) = (self.streams.len(), self.streams.forgotten());
        PointFigures { streams, forgotten, ..self.figures.clone() }
    }
}

/// Whether it matters since when it counts.
fn is_since_start(point: &Point<'_>) -> bool {
    let grows = match point.value {
        Value::Latencies(_) => true,
        Value::Sum { monotonic, .. } => monotonic,
        Value::Gauge(_) => false,
    };
    grows && point.temporality == Temporality::Cumulative
}

fn check_time(point: &Point<'_>) -> Result<(), Reject> {
    let is_gauge = matches!(point.value, Value::Gauge(_));
    let holds = point.time != Wall::default() && (is_gauge || point.start <= point.time);
    if holds { Ok(()) } else { Err(Reject::Timestamp) }
}

/// Whether a point goes on from what was taken up to `last`. A time that has not come yet is of a
/// clock that was set back since: nothing would be taken until it comes.
fn check_order(now: Wall, point: &Point<'_>, last: Wall) -> Result<(), Reject> {
    let is_ahead = |time: Wall| time > now.plus(POINT_AHEAD_MAX);
    if is_ahead(last) && !is_ahead(point.time) {
        return Ok(());
    }
    let is_delta = match point.value {
        Value::Gauge(_) => false,
        Value::Latencies(_) | Value::Sum { .. } => point.temporality == Temporality::Delta,
    };
    if point.time < last {
        return Err(Reject::OutOfOrder);
    }
    let is_told = point.start != Wall::default();
    match point.time == last || is_delta && is_told && point.start < last {
        true => Err(Reject::Duplicate),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
