//! Points: decides what one point of another system adds to the open interval.
//!
//! Owns the state of every stream. Refuses to read formats: their readers make the [`Point`].
//!
//! - Delta: all of it is new. A point that overlaps a recorded time is rejected.
//! - Cumulative: the difference to the previous point of the stream is new. The first point is new
//!   as a whole if its producer started after this node, else it adds nothing: a former
//!   incarnation of the node may have sent it. A start after the recorded time is a restart.
//! - A count that decreased is a restart if the start is unknown, as in Prometheus. With a known
//!   start the producer is inconsistent, or two producers share an identity: a distribution is
//!   rejected, because what of it is new is unknown; a sum is counted from zero.
//! - Producers that share an identity are distinguished by their starts. Deltas have none, so those
//!   of the second overlap and are rejected; a `service.instance.id` makes them distinct.
//! - Other bounds with the same start: nothing is added, and the next point is compared.
//!
//! DESIGN N28.

mod apply;
mod buckets;
mod edges;
mod known_edges;
mod point;
mod previous;
mod stats;
mod streams;

use crate::limits::POINT_AHEAD_MAX;
use plimsoll_schemas::time::{Now, Wall};

use super::reject::Reject;
use super::series::{Interval, RecordCounts};
use apply::PointRecorder;
use known_edges::KnownEdges;
pub use point::{Buckets, Latencies, Point, Temporality, Value};
use previous::BucketDifference;
pub use stats::PointStats;
use streams::{FirstPoint, StreamState, StreamTable};

pub(super) struct Points {
    streams: StreamTable,
    difference: BucketDifference,
    edges: KnownEdges,
    stats: PointStats,
}

impl Points {
    /// No streams. `seed` is a number that a sender does not choose.
    pub(super) fn new(now: Now, seed: u64) -> Self {
        Self {
            streams: StreamTable::new(now, seed),
            difference: BucketDifference::default(),
            edges: KnownEdges::default(),
            stats: PointStats::default(),
        }
    }

    /// Records a point as a whole.
    pub(super) fn record(
        &mut self,
        now: Now,
        point: &Point<'_>,
        interval: &mut Interval,
    ) -> Result<RecordCounts, Reject> {
        let Self { streams, difference, edges, stats } = self;
        // Where the start does not matter, another one must not make another stream.
        let start = if is_since_start(point) { point.start } else { Wall::default() };
        check_time(point)?;
        let mut recorder = PointRecorder { now, point, interval, edges, stats };

        let counts = if let Some(stream) = streams.get(point.stream, start) {
            check_order(now.wall, point, stream.time)?;
            let before = stream.state.bytes();
            let counts = recorder.record(&mut stream.state, None, difference)?;
            stream.time = point.time;
            let bytes = stream.state.bytes();
            streams.on_resized(now, bytes, before);
            counts
        } else {
            let first =
                if is_since_start(point) { streams.first(now, point) } else { FirstPoint::New };
            let mut state = StreamState::default();
            let counts = recorder.record(&mut state, Some(first), difference)?;
            streams.insert(now, start, point, state);
            counts
        };

        self.stats.recorded += 1;
        Ok(counts)
    }

    pub(super) fn on_slots_moved(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        self.streams.on_slots_moved(moved);
    }

    pub(super) fn stats(&self) -> PointStats {
        let (streams, evicted) = (self.streams.len(), self.streams.evicted);
        PointStats { streams, evicted, ..self.stats.clone() }
    }
}

/// Whether its start matters.
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

/// Whether a point may follow one of time `last`. If `last` is in the future, the clock was set
/// back since, and order is not checked: nothing would be recorded until that time.
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
    let has_start = point.start != Wall::default();

    match point.time == last || is_delta && has_start && point.start < last {
        true => Err(Reject::Duplicate),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
