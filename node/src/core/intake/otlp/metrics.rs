//! Reads an `ExportMetricsServiceRequest` as points: one for each gauge, sum and histogram, several
//! for a summary, whose quantiles cannot be merged and become gauges. Exemplars are ignored.

use std::cell::Cell;

use crate::limits::{OTLP_NAME_BYTES_MAX, OTLP_QUANTILES_MAX};
use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::time::Now;

use super::attributes::{AttributeList, Attributes, Pairs, hash, join};
use super::context::Context;
use super::data_point::{self, Head, ListBuffers};
use super::names::to_operation;
use super::protobuf::{Wire, fields, messages};
use super::rejection_text;
use super::report::OtlpReport;
use super::stats::MetricKind;
use crate::core::intake::lines::{TimeUnit, Unit, ValueUnit};
use crate::core::intake::points::{Point, Temporality, Value};
use crate::core::intake::recorder::Recorder;
use crate::core::intake::reject::Reject;
use crate::core::intake::series::LineLabelStats;

/// The label of a summary's quantiles.
const QUANTILE: &str = "quantile";

/// One metric of one scope of one producer.
struct Metric<'a> {
    name: &'a str,
    unit: &'a str,
    kind: MetricKind,
    /// The message of its type.
    data: &'a [u8],
    /// `None` if the producer does not state it.
    temporality: Option<Temporality>,
    monotonic: bool,
    resource: &'a AttributeList<'a>,
    /// Hash of what all its streams have in common.
    hash: u64,
}

/// The part of a point that becomes a point here: all of it, or one value of a summary.
#[derive(Clone, Copy, Default)]
struct Part<'a> {
    /// Appended to the metric's name.
    suffix: &'static str,
    quantile: Option<&'a str>,
}

/// The reader of metrics; its buffers are reused.
#[derive(Default)]
pub(super) struct MetricReader {
    lists: ListBuffers,
}

/// What every point of one request is read with.
struct Request<'r> {
    context: &'r Context,
    recorder: &'r mut Recorder,
    now: Now,
    report: &'r mut OtlpReport,
}

impl MetricReader {
    /// Records a body that was checked.
    pub(super) fn on_metrics(
        &mut self,
        context: &Context,
        recorder: &mut Recorder,
        now: Now,
        body: &[u8],
        report: &mut OtlpReport,
    ) {
        let mut request = Request { context, recorder, now, report };
        for resource_metrics in messages(body, 1) {
            // Of a field that is there twice the last one counts, as Protocol Buffers define it.
            let resource = messages(resource_metrics, 1).last().unwrap_or_default();
            let resource = Attributes::new(resource, 1);

            let (producer, resource) = (resource.hash(&context.state), resource.list());

            for scope_metrics in messages(resource_metrics, 2) {
                let scope = join(&context.state, &[producer, scope_hash(context, scope_metrics)]);
                for metric in messages(scope_metrics, 2) {
                    let Some(metric) = Metric::read(context, metric, &resource, scope) else {
                        continue;
                    };
                    for point in messages(metric.data, 1) {
                        request.on_data_point(&metric, point, &mut self.lists);
                    }
                }
            }
        }
    }
}

impl<'a> Metric<'a> {
    /// `None` if it has no points of a supported type.
    fn read(
        context: &Context,
        metric: &'a [u8],
        resource: &'a AttributeList<'a>,
        scope: u64,
    ) -> Option<Self> {
        let text = |number| messages(metric, number).last().unwrap_or_default();

        let kinds = fields(metric).filter_map(|(number, wire)| match (number, wire) {
            (5, Wire::Bytes(data)) => Some((MetricKind::Gauge, data)),
            (7, Wire::Bytes(data)) => Some((MetricKind::Sum, data)),
            (9, Wire::Bytes(data)) => Some((MetricKind::Histogram, data)),
            (10, Wire::Bytes(data)) => Some((MetricKind::Exponential, data)),
            (11, Wire::Bytes(data)) => Some((MetricKind::Summary, data)),
            _ => None,
        });

        let (kind, data) = kinds.last()?;
        let (temporality, monotonic) = temporality(kind, data);
        // A metric that changes how it counts is another stream: its counts cannot be subtracted.
        let counts_as = [kind as u8, temporality.map_or(0, |t| t as u8 + 1), monotonic.into()];
        let parts = [text(1), text(3), &counts_as].map(|part| hash(&context.state, part));

        Some(Self {
            name: str::from_utf8(text(1)).unwrap_or_default(),
            unit: str::from_utf8(text(3)).unwrap_or_default(),
            kind,
            data,
            temporality,
            monotonic,
            resource,
            hash: join(&context.state, &[scope, parts[0], parts[1], parts[2]]),
        })
    }

    /// The unit of its values.
    fn value_unit(&self, context: &Context) -> Result<ValueUnit, Reject> {
        // What UCUM calls an annotation is a thing that is counted, but some write `{s}`.
        let annotation = self.unit.strip_prefix('{').and_then(|unit| unit.strip_suffix('}'));
        let time = TimeUnit::spelled(annotation.unwrap_or(self.unit)).map(ValueUnit::Time);

        let unit = match self.unit {
            "" => context.units.named(self.name).unwrap_or(context.otlp.unit),
            "By" => Unit(Some(ValueUnit::Bytes)),
            "1" => Unit(Some(ValueUnit::Count)),
            _ => Unit(time.or_else(|| annotation.map(|_| ValueUnit::Count))),
        };
        context.units.recorded(self.name, unit)
    }

    /// The value of a point and since when it counts; no value for a summary, which has several.
    fn value<'l>(
        &self,
        context: &Context,
        point: &[u8],
        lists: &'l mut ListBuffers,
    ) -> Result<(Temporality, Option<Value<'l>>), Reject> {
        // Everything below is done for each point and takes time proportional to the name.
        if self.name.len() > OTLP_NAME_BYTES_MAX {
            return Err(Reject::TooLong);
        }

        // Without it a running total looks the same as what was counted since the last point.
        let temporality = self.temporality.ok_or(Reject::Temporality)?;
        let value = match self.kind {
            MetricKind::Gauge => Value::Gauge(data_point::number(point)?),
            MetricKind::Sum => {
                let monotonic = self.monotonic;
                Value::Sum { value: data_point::number(point)?, monotonic }
            }
            MetricKind::Histogram => lists.histogram(point, self.value_unit(context)?)?,
            MetricKind::Exponential => lists.exponential(point, self.value_unit(context)?)?,
            MetricKind::Summary => return Ok((temporality, None)),
        };

        Ok((temporality, Some(value)))
    }

    /// Name and labels of a stream, and which of its attributes they leave out.
    fn series(
        &self,
        context: &Context,
        attributes: Attributes<'_>,
        part: Part<'_>,
    ) -> Result<(Series, (LineLabelStats, u64, u64)), Reject> {
        let operation = self.operation(context, part.suffix)?;
        let mut pairs = Pairs::default();
        if let Some(quantile) = part.quantile {
            pairs.add(QUANTILE, quantile);
        }
        // Before the point's own, so that no attribute of a point takes the name of its service.
        pairs.add_named(&context.otlp.resource_labels, |key| self.resource.get(key));
        pairs.add_all(attributes);
        let (labels, stats) = context.labels.keep(pairs.iter());
        let left_out = (stats.unwrap_or_default(), pairs.nested, pairs.beyond);
        Ok((Series { operation, labels }, left_out))
    }

    fn operation(&self, context: &Context, suffix: &str) -> Result<Operation, Reject> {
        let renamed = context.otlp.operations.get(self.name);
        if let MetricKind::Histogram | MetricKind::Exponential = self.kind {
            let name = renamed.cloned().map_or_else(|| to_operation(self.name), Ok)?;
            return self.value_unit(context)?.operation(name.as_str());
        }
        match (renamed, suffix) {
            (Some(operation), "") => Ok(operation.clone()),
            (renamed, suffix) => {
                let name = renamed.map_or(self.name, Operation::as_str);
                to_operation(&[name, suffix].concat())
            }
        }
    }
}

impl Request<'_> {
    fn on_data_point(&mut self, metric: &Metric<'_>, point: &[u8], lists: &mut ListBuffers) {
        let head = data_point::head(metric.kind, point);
        if !head.has_value {
            self.report.stats.without_value += 1;
            return;
        }

        let recorded = match metric.value(self.context, point, lists) {
            Err(reason) => {
                self.recorder.reject(reason);
                Err(reason)
            }
            Ok((temporality, Some(value))) => {
                self.on_value(metric, &head, temporality, value, Part::default())
            }
            Ok((_, None)) => self.on_summary(metric, &head, point),
        };

        match recorded {
            Ok(()) => self.report.stats.points[metric.kind as usize] += 1,
            Err(reason) => {
                self.report.stats.points_rejected += 1;
                self.report.on_rejected(reason, |reason| {
                    rejection_text::of_point(reason, metric.name, metric.kind, metric.unit)
                });
            }
        }
    }

    /// Records the quantiles as gauges, count and sum as counters; returns the first rejection.
    fn on_summary(
        &mut self,
        metric: &Metric<'_>,
        head: &Head<'_>,
        point: &[u8],
    ) -> Result<(), Reject> {
        let summary = data_point::summary(point);
        let mut recorded = Ok(());

        #[expect(clippy::cast_precision_loss, reason = "counters are floats here")]
        for (suffix, value) in [("_count", summary.count as f64), ("_sum", summary.sum)] {
            let value = Value::Sum { value, monotonic: true };
            let part = Part { suffix, quantile: None };
            let added = self.on_value(metric, head, Temporality::Cumulative, value, part);
            recorded = recorded.and(added);
        }

        // Without the label all quantiles would be one gauge.
        if !self.context.labels.keeps(QUANTILE) {
            return recorded;
        }

        for (quantile, value) in data_point::quantiles(point).take(OTLP_QUANTILES_MAX) {
            let quantile = quantile.to_string();
            let part = Part { suffix: "", quantile: Some(&quantile) };
            let value = Value::Gauge(value);
            let set = self.on_value(metric, head, Temporality::Cumulative, value, part);
            recorded = recorded.and(set);
        }

        recorded
    }

    fn on_value(
        &mut self,
        metric: &Metric<'_>,
        head: &Head<'_>,
        temporality: Temporality,
        value: Value<'_>,
        part: Part<'_>,
    ) -> Result<(), Reject> {
        let context = self.context;
        let own = head.attributes.hash(&context.state);
        let of = |text: &str| hash(&context.state, text.as_bytes());
        let part_hash = of(part.suffix) ^ part.quantile.map_or(0, of);
        // The recorder asks for the series only if the stream has no slot, and only then are there
        // labels to count.
        let left_out = Cell::new(None);

        let series = || {
            let (series, stats) = metric.series(context, head.attributes, part)?;
            left_out.set(Some(stats));
            Ok(series)
        };

        let stream = join(&context.state, &[metric.hash, own, part_hash]);
        let Head { start, time, .. } = *head;
        let point = Point { stream, series: &series, start, time, temporality, value };
        let recorded = self.recorder.on_point(self.now, &point);

        if let Some((labels, nested, beyond)) = left_out.take() {
            let stats = &mut self.report.stats;
            stats.labels.add(labels, 1);
            stats.labels.too_many += beyond;
            stats.nested += nested;
        }

        recorded
    }
}

/// The hash of a scope: its name, its version, its attributes.
fn scope_hash(context: &Context, scope_metrics: &[u8]) -> u64 {
    let scope = messages(scope_metrics, 1).last().unwrap_or_default();
    let text = |number| hash(&context.state, messages(scope, number).last().unwrap_or_default());
    join(&context.state, &[text(1), text(2), Attributes::new(scope, 3).hash(&context.state)])
}

/// The temporality of the points of a metric, and whether they are monotonic.
fn temporality(kind: MetricKind, data: &[u8]) -> (Option<Temporality>, bool) {
    // A gauge and a summary have a fixed temporality.
    let is_plain = matches!(kind, MetricKind::Gauge | MetricKind::Summary);
    let mut found = (is_plain.then_some(Temporality::Cumulative), false);

    for field in fields(data) {
        match field {
            _ if is_plain => {}
            (2, Wire::Varint(1)) => found.0 = Some(Temporality::Delta),
            (2, Wire::Varint(2)) => found.0 = Some(Temporality::Cumulative),
            (2, Wire::Varint(_)) => found.0 = None,
            (3, Wire::Varint(truth)) => found.1 = kind == MetricKind::Sum && truth != 0,
            _ => {}
        }
    }

    found
}
