//! A query of the past: what is asked for, and how its range is divided into points.

use std::ops::Range;
use std::time::Duration;

use plimsoll_schemas::ids::{Labels, NodeName, Operation};
use plimsoll_schemas::summary::MetricKind;
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::unit::Unit;
use thiserror::Error;

use super::metric::{HistoryKey, MetricKey};
use super::plan::{KeptFrom, resolution_at, widened};
use super::resolution::Resolution;
use crate::core::fleet::Pool;
use crate::limits::HISTORY_POINTS_MAX;

/// The shortest slot in which nodes answer, and
const NODE_SLOT: Duration = Duration::from_secs(1);
const NODE_SLOTS: [Duration; 4] = [
    Duration::from_secs(3_600),
    Duration::from_secs(600),
    Duration::from_secs(60),
    Duration::from_secs(10),
];

/// Slots of a range of one point at least, so that it is widened by little.
const LONG_SLOTS_MIN: u64 = 30;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryQuery {
    pub pool: Pool,
    /// Metrics, beside the samples of the pool.
    pub metrics: Vec<MetricKey>,
    /// From when until when.
    pub range: Range<Wall>,
    /// Length of a point; one point for the whole range without it.
    pub step: Option<Duration>,
    /// Quantiles, 0 to 1.
    pub quantiles: Vec<f64>,
    /// Limits over which samples are counted, in whole numbers of the unit.
    pub limits_ns: Vec<u64>,
    /// Whether each point has its samples by bucket.
    pub with_distribution: bool,
    /// The nodes that are asked for their own histories; `None` for the history of the fleet.
    pub nodes: Option<AskedNodes>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AskedNodes {
    /// Their names; `None` for all that are known.
    pub names: Option<Vec<NodeName>>,
    /// Labels that a series or its node must have.
    pub labels: Labels,
}

/// Why a query is refused, with the bound and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoHistory {
    #[error("the range ends before it starts: from must be earlier than to")]
    Inverted,
    #[error("the range starts in the future: from must be earlier than now")]
    Future,
    #[error(
        "the range has {points} points of {step:?}, and one answer at most {HISTORY_POINTS_MAX}; \
         use step={fits}s or more, or a shorter range"
    )]
    Points {
        points: u64,
        step: Duration,
        /// The shortest step that is accepted, in seconds.
        fits: u64,
    },
}

impl HistoryQuery {
    /// The unit of the samples.
    pub fn unit(&self) -> Unit {
        Unit::of(&self.pool.operation_name())
    }

    /// Of a metric: of a counter and of a gauge of the name, whichever there is, then of the
    /// counters by which it is divided. The samples are those of the operation that the name starts
    /// with: of `train_step.tokens` those of `train_step`.
    pub fn of_metric(
        metric: &Operation,
        per: &[Operation],
        pool: impl Fn(Operation) -> Pool,
        range: Range<Wall>,
        step: Option<Duration>,
    ) -> Self {
        let key = |kind, name: &Operation| MetricKey { kind, pool: pool(name.clone()) };
        let by_kind = [MetricKind::Counter, MetricKind::Gauge].map(|kind| key(kind, metric));
        let per = per.iter().map(|name| key(MetricKind::Counter, name));
        let operation =
            metric.as_str().rsplit_once('.').and_then(|(of, _)| Operation::new(of).ok());
        Self {
            pool: pool(operation.unwrap_or_else(|| metric.clone())),
            metrics: by_kind.into_iter().chain(per).collect(),
            range,
            step,
            quantiles: Vec::new(),
            limits_ns: Vec::new(),
            with_distribution: false,
            nodes: None,
        }
    }

    /// What is read for it.
    pub fn keys(&self) -> Vec<HistoryKey> {
        let mut keys = vec![HistoryKey::Samples(self.pool.clone())];
        for metric in &self.metrics {
            let key = HistoryKey::Metric(metric.clone());
            // A counter may be part of what it is divided by, and is read once.
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

/// How a query's range is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The finest slots that still exist for all of the range; `None` for the seconds of nodes' own
    /// histories.
    pub resolution: Option<Resolution>,
    /// The range, widened to whole slots.
    pub range: Range<Wall>,
    /// Length of a point, a multiple of a slot.
    pub step: Duration,
    /// When it is answered.
    pub now: Wall,
}

impl Layout {
    /// The division of a range into points of a step, given what the tiers keep; into one point
    /// without a step.
    pub fn of(
        asked: &Range<Wall>,
        step: Option<Duration>,
        now: Wall,
        kept_from: &KeptFrom,
    ) -> Result<Self, NoHistory> {
        if asked.end <= asked.start {
            return Err(NoHistory::Inverted);
        }
        if asked.start >= now {
            return Err(NoHistory::Future);
        }

        // Nothing has been recorded after now.
        let end = asked.end.min(now.plus(Resolution::TenSeconds.slot()));
        let resolution = resolution_at(kept_from, asked.start);
        let range = widened(&(asked.start..end), resolution);
        let whole = range.end.since(range.start);
        let step = step.map_or(whole, |step| round_up(step, resolution.slot()));
        check_points(whole, step)?;
        Ok(Self { resolution: Some(resolution), range, step, now })
    }

    /// The division of a query's range that nodes answer from their own histories.
    pub fn of_nodes(
        asked: &Range<Wall>,
        step: Option<Duration>,
        now: Wall,
    ) -> Result<Self, NoHistory> {
        if asked.end <= asked.start {
            return Err(NoHistory::Inverted);
        }
        if asked.start >= now {
            return Err(NoHistory::Future);
        }
        let second = nanos(NODE_SLOT);
        let start = Wall(asked.start.0 / second * second);
        let end = Wall(asked.end.min(now).0.div_ceil(second).saturating_mul(second));
        let whole = end.since(start);
        let step = step.map_or(whole, |step| round_up(step, NODE_SLOT));
        check_points(whole, step)?;
        Ok(Self { resolution: None, range: start..end, step, now })
    }

    /// The same range in one point, widened to slots of which a response of a node holds many
    /// minutes: a range that ends now would otherwise be asked for by the second.
    pub fn in_long_slots(self) -> Self {
        let whole = nanos(self.range.end.since(self.range.start));
        let fits = |slot: &Duration| nanos(*slot).saturating_mul(LONG_SLOTS_MIN) <= whole;
        let slot = nanos(NODE_SLOTS.into_iter().find(fits).unwrap_or(NODE_SLOT));
        let start = Wall(self.range.start.0 / slot * slot);
        let end = Wall(self.range.end.0.div_ceil(slot).saturating_mul(slot));
        Self { range: start..end, step: end.since(start), ..self }
    }

    /// The longest slots in which nodes can answer: whole points are made of whole slots.
    pub fn node_slot(&self) -> Duration {
        let fits = |slot: &Duration| {
            let ends = [self.range.start.0, self.range.end.0, nanos(self.step)];
            ends.iter().all(|end| end % nanos(*slot) == 0)
        };
        NODE_SLOTS.into_iter().find(fits).unwrap_or(NODE_SLOT)
    }

    /// The name of the slots in answers.
    pub fn slots(&self) -> &'static str {
        self.resolution.map_or("1s", Resolution::as_str)
    }

    /// The points, in the order of time; the last one may be shorter.
    pub fn points(&self) -> impl Iterator<Item = Range<Wall>> {
        let end = self.range.end;
        let begins = std::iter::successors(Some(self.range.start), |at| Some(at.plus(self.step)));
        begins.take_while(move |at| *at < end).map(move |at| at..at.plus(self.step).min(end))
    }

    pub fn point_of(&self, at: Wall) -> Option<usize> {
        if !self.range.contains(&at) {
            return None;
        }
        usize::try_from(nanos(at.since(self.range.start)) / nanos(self.step)).ok()
    }
}

/// Refuses more points than an answer may have.
fn check_points(whole: Duration, step: Duration) -> Result<(), NoHistory> {
    let points = nanos(whole).div_ceil(nanos(step).max(1));
    if points > HISTORY_POINTS_MAX {
        let fits = nanos(whole).div_ceil(HISTORY_POINTS_MAX).div_ceil(1_000_000_000);
        return Err(NoHistory::Points { points, step, fits });
    }
    Ok(())
}

fn round_up(step: Duration, slot: Duration) -> Duration {
    let slot = nanos(slot);
    Duration::from_nanos(nanos(step).max(1).div_ceil(slot).saturating_mul(slot))
}
