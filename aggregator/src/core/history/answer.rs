//! The answer to a query, put together from slots as they are read: they may come in any order.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_schemas::histogram::{ExactFigures, Histogram, Packed, PackedCounts, layout, rank};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{
    Band, BucketCounts, HistoryPoint, MetricKind, MetricPoint, OverLimit, QuantileValue,
};
use plimsoll_schemas::time::{Wall, nanos, seconds};
use plimsoll_schemas::unit::Unit;
use plimsoll_schemas::wire::history::{HistorySlot, MetricValues, OperationTime};

use super::batch::{Coverage, SlotSamples, Unstored, node_time};
use super::exact_sum::ExactSum;
use super::metric::{MetricKey, MetricTotals};
use super::query::{HistoryQuery, Layout};
use super::resolution::Resolution;
use crate::core::fleet::Pool;

/// Samples, values of metrics and coverage of each point of a query.
#[derive(Debug)]
pub struct Accumulator {
    pub layout: Layout,
    points: Vec<Point>,
    /// As many of each as points.
    metrics: BTreeMap<MetricKey, Vec<MetricTotals>>,
    /// Of gauges in nodes' own histories, by point.
    latest: BTreeMap<(MetricKey, usize), Latest>,
}

/// Times of operations, by class where they have one.
pub(super) type OperationTimes = BTreeMap<(Operation, Option<String>), ExactFigures>;

/// The latest values of a gauge in a point, one of each node.
#[derive(Clone, Copy, Debug)]
struct Latest {
    begin_ns: u64,
    sum: f64,
    nodes: u64,
}

/// The nodes' time that was received in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Received {
    pub ns: u64,
    /// Its share of what was expected, if that is known.
    pub ratio: Option<f64>,
}

#[derive(Debug)]
struct Point {
    range: Range<Wall>,
    samples: Histogram,
    coverage: Coverage,
    /// Times that nodes answered, by operation and class.
    operations: OperationTimes,
}

impl Accumulator {
    pub fn new(layout: Layout) -> Self {
        let point = |range| Point {
            range,
            samples: Histogram::default(),
            coverage: Coverage::default(),
            operations: BTreeMap::new(),
        };
        let points = layout.points().map(point).collect();
        Self { layout, points, metrics: BTreeMap::new(), latest: BTreeMap::new() }
    }

    /// Adds a stored slot's samples that begins then.
    pub fn add(&mut self, begin: Wall, samples: &Packed) {
        if let Some(point) = self.point(begin) {
            point.samples.merge_packed(samples);
        }
    }

    /// Adds a stored slot's values of a metric that begins then.
    pub fn add_values(&mut self, begin: Wall, metric: &MetricKey, values: &MetricTotals) {
        let Some(place) = self.layout.point_of(begin) else { return };
        if !self.metrics.contains_key(metric) {
            self.metrics.insert(metric.clone(), vec![MetricTotals::default(); self.points.len()]);
        }
        let at = self.metrics.get_mut(metric).and_then(|points| points.get_mut(place));
        if let Some(at) = at {
            at.add(values);
        }
    }

    /// Adds a stored slot's coverage that begins then.
    pub fn cover(&mut self, begin: Wall, coverage: Coverage) {
        if let Some(point) = self.point(begin) {
            point.coverage.add(coverage);
        }
    }

    pub fn add_of_node(&mut self, slot: &HistorySlot) {
        let begin = Wall(slot.begin_ns);
        if let Some(samples) = &slot.samples {
            self.add(begin, samples);
        }
        for (kind, values) in
            [(MetricKind::Counter, &slot.counters), (MetricKind::Gauge, &slot.gauges)]
        {
            values.iter().for_each(|of| self.add_values_of_node(begin, kind, of));
        }
        if let Some(point) = self.point(begin) {
            slot.operations.iter().for_each(|of| point.add_time(of));
        }
        // What is expected of a node was added for the whole
        // range: a node that does not answer counts as missing.
        self.cover(begin, Coverage { received_ns: slot.covered_ns, ..Coverage::default() });
    }

    fn add_values_of_node(&mut self, begin: Wall, kind: MetricKind, values: &MetricValues) {
        let metric = MetricKey { kind, pool: Pool::Fleet(values.metric.clone()) };
        self.add_values(begin, &metric, &MetricTotals::of_node(values));
        let Some(place) = self.layout.point_of(begin) else { return };
        let none = Latest { begin_ns: begin.0, sum: 0.0, nodes: 0 };
        let latest = self.latest.entry((metric, place)).or_insert(none);
        // Slots come in any order.
        if latest.begin_ns < begin.0 {
            *latest = none;
        }
        if latest.begin_ns == begin.0 {
            latest.sum += values.last;
            latest.nodes += 1;
        }
    }

    /// This many nodes are asked for all of the range.
    pub fn expect_nodes(&mut self, nodes: usize) {
        let now = self.layout.now;
        for point in &mut self.points {
            // A point that reaches beyond now is expected only as
            // far as now: it would be incomplete until its end.
            let length = point.range.end.min(now).since(point.range.start);
            point.coverage.add(Coverage {
                received_ns: 0,
                expected_ns: node_time(length, nodes),
                observed_ns: nanos(length),
            });
        }
    }

    /// Adds what the store lacks of a pool, and of metrics.
    pub fn add_unstored(&mut self, unstored: &Unstored, pool: &Pool) {
        let Unstored { samples: SlotSamples { pools, metrics, coverage } } = unstored;
        let begin = |number| Resolution::TenSeconds.begin(number);
        for (number, samples) in pools.get(pool).into_iter().flatten() {
            if let Some(point) = self.point(begin(*number)) {
                point.samples.merge(samples);
            }
        }
        for (metric, slots) in metrics {
            for (number, values) in slots {
                self.add_values(begin(*number), metric, values);
            }
        }
        for (number, coverage) in coverage {
            self.cover(begin(*number), *coverage);
        }
    }

    fn point(&mut self, at: Wall) -> Option<&mut Point> {
        let place = self.layout.point_of(at)?;
        self.points.get_mut(place)
    }

    /// All samples by band of values in this unit and by point: at most this many bands, each of
    /// equally many whole buckets, from the smallest to the largest sample.
    pub fn bands(&self, most: usize, unit: Unit) -> (Vec<Band>, Vec<Vec<u64>>) {
        let used = self.points.iter().flat_map(|point| {
            let mut buckets = point.samples.counts().iter().map(|(index, _)| index);
            let first = buckets.next();
            first.into_iter().chain(buckets.next_back())
        });

        let (first, last) =
            used.fold((usize::MAX, 0), |(first, last), index| (first.min(index), last.max(index)));
        if first > last {
            return (Vec::new(), vec![Vec::new(); self.points.len()]);
        }
        // Whole buckets, so that no sample is divided between two bands and all counts stay exact.
        let width = (last - first + 1).div_ceil(most.max(1));

        let bands = (first..=last).step_by(width).map(|begin| Band {
            lower: unit.shown(layout::lowest(begin)),
            upper: unit.shown(layout::highest((begin + width - 1).min(last))),
        });

        let bands: Vec<Band> = bands.collect();
        let counts = self.points.iter().map(|point| {
            let mut row = vec![0; bands.len()];
            for (index, n) in point.samples.counts().iter() {
                row[(index - first) / width] += n;
            }
            row
        });

        let counts = counts.collect();
        (bands, counts)
    }

    /// The samples of the first point: of the whole range, if it was not divided.
    pub fn samples(&self) -> Option<&Histogram> {
        self.points.first().map(|point| &point.samples)
    }

    /// What was received of the nodes' time in the first point.
    pub fn received(&self) -> Option<Received> {
        let Point { range, coverage, .. } = self.points.first()?;
        let length = range.end.min(self.layout.now).since(range.start);
        Some(Received { ns: coverage.received_ns, ratio: coverage.ratio(length) })
    }

    /// The times that nodes answered in the first point.
    pub fn operations(&self) -> &OperationTimes {
        static NONE: OperationTimes = BTreeMap::new();
        self.points.first().map_or(&NONE, |point| &point.operations)
    }

    pub fn points(&self, query: &HistoryQuery) -> Vec<HistoryPoint> {
        self.points.iter().map(|point| point.row(query, self.layout.now)).collect()
    }

    /// The values of a metric in the first point, if it has any.
    pub fn totals(&self, metric: &MetricKey) -> Option<&MetricTotals> {
        self.metrics.get(metric)?.first().filter(|totals| totals.count > 0)
    }

    /// Whether a metric has a value in the range.
    pub fn has(&self, metric: &MetricKey) -> bool {
        self.metrics.contains_key(metric)
    }

    /// A metric point by point, in the time of its operation, and by the sum of some counters where
    /// any are given, of a history that began then.
    pub fn metric_points(
        &self,
        metric: &MetricKey,
        per: &[MetricKey],
        begun: Wall,
        unit: Unit,
    ) -> Vec<MetricPoint> {
        let none = MetricTotals::default();
        let at = |of: &MetricKey, place: usize| {
            self.metrics.get(of).and_then(|points| points.get(place)).unwrap_or(&none)
        };

        let point = |(place, point): (usize, &Point)| {
            let values = at(metric, place);
            let divisor = per.iter().fold(ExactSum::default(), |mut sum, of| {
                sum.add(&at(of, place).sum);
                sum
            });
            let divisor = (!per.is_empty()).then(|| divisor.value());
            let known = point.range.start.max(begun)..point.range.end.min(self.layout.now);
            let latest = self.latest.get(&(metric.clone(), place));
            let latest = latest.filter(|_| metric.kind == MetricKind::Gauge);
            MetricPoint {
                last: latest.map(|of| of.sum / of.nodes as f64),
                ..point.metric_row(metric.kind, values, divisor, &known, unit)
            }
        };
        self.points.iter().enumerate().map(point).collect()
    }
}

impl Point {
    fn add_time(&mut self, time: &OperationTime) {
        let OperationTime { operation, class, count, sum_ns, max_ns } = time;
        let of = self.operations.entry((operation.clone(), class.clone())).or_default();
        let sum_ns = u128::from(*sum_ns);
        of.merge(&ExactFigures { count: *count, sum_ns, min_ns: 0, max_ns: *max_ns });
    }

    fn metric_row(
        &self,
        kind: MetricKind,
        values: &MetricTotals,
        divisor: Option<f64>,
        known: &Range<Wall>,
        unit: Unit,
    ) -> MetricPoint {
        let sum = values.sum.value();
        // Nothing is known of what was counted before the history began, or will be.
        let passed = known.end.since(known.start);
        // Nodes answer with the time of the operation, without its samples.
        let of_nodes = self.operations.values().map(|of| of.sum_ns).sum::<u128>();
        let sum_ns = self.samples.exact().sum_ns.saturating_add(of_nodes);
        let sum_ns = if unit.is_time() { sum_ns } else { 0 };
        let operation_seconds = sum_ns as f64 / unit.raw_per_shown();
        let is_counter = kind == MetricKind::Counter;
        let has_values = values.count > 0;
        let by = |divisor: f64| (divisor > 0.0).then(|| sum / divisor);

        MetricPoint {
            from_seconds: seconds(self.range.start.0),
            to_seconds: seconds(self.range.end.0),
            count: values.count,
            sum,
            mean: values.mean().filter(|_| !is_counter),
            min: (has_values && !is_counter).then_some(values.min),
            max: (has_values && !is_counter).then_some(values.max),
            last: None,
            per_second: by(passed.as_secs_f64()).filter(|_| is_counter),
            operation_seconds: (operation_seconds > 0.0).then_some(operation_seconds),
            per_operation_second: by(operation_seconds).filter(|_| is_counter),
            ratio: divisor.and_then(by).filter(|_| is_counter),
            completeness: self.coverage.ratio(known.end.since(self.range.start)),
        }
    }

    fn row(&self, query: &HistoryQuery, now: Wall) -> HistoryPoint {
        let (samples, unit) = (&self.samples, query.unit());
        let ExactFigures { count, sum_ns, min_ns, max_ns } = samples.exact();
        let of_samples = |value: f64| (count > 0).then_some(value);

        let quantile = |quantile: &f64| {
            let found = samples.at_rank(rank(*quantile, count))?;
            Some(QuantileValue {
                quantile: *quantile,
                value: unit.shown(found.value_ns),
                lower: unit.shown(found.lower_ns),
                upper: unit.shown(found.upper_ns),
            })
        };

        let over = |limit: &u64| {
            let over = samples.over(*limit);
            OverLimit { limit: unit.shown(*limit), over: over.over, uncertain: over.uncertain }
        };

        HistoryPoint {
            from_seconds: seconds(self.range.start.0),
            to_seconds: seconds(self.range.end.0),
            count,
            mean: of_samples(sum_ns as f64 / count as f64 / unit.raw_per_shown()),
            min: of_samples(unit.shown(min_ns)),
            max: of_samples(unit.shown(max_ns)),
            approximate: samples.is_approximate(),
            quantiles: query.quantiles.iter().filter_map(quantile).collect(),
            over: query.limits_ns.iter().map(over).collect(),
            completeness: self.coverage.ratio(self.range.end.min(now).since(self.range.start)),
            distribution: query.with_distribution.then(|| {
                let counts = PackedCounts::from(samples);
                BucketCounts { unit, counts }
            }),
        }
    }
}
