//! `ExportMetricsServiceRequest` as points: one for each gauge, sum and histogram, several for a
//! summary, whose quantiles cannot be merged and so become gauges. Decides nothing about what a
//! point adds; says why one cannot be one. Exemplars are passed over.

use std::cell::Cell;

use crate::limits::{OTLP_NAME_BYTES_MAX, OTLP_QUANTILES_MAX};
use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::time::Now;

use super::attributes::{Attributes, Listed, Pairs, hash, join};
use super::data_point::{self, Head, Lists};
use super::figures::Kind;
use super::protobuf::{Wire, fields, messages};
use super::{Otlp, Outcome, fit_operation, words};
use crate::core::intake::Intake;
use crate::core::intake::labels::LineFigures;
use crate::core::intake::point::{Point, Temporality, Value};
use crate::core::intake::reject::Reject;
use crate::core::intake::units::TimeUnit;

/// The label of a summary's quantiles.
const QUANTILE: &str = "quantile";

/// One metric of one scope of one producer.
struct Metric<'a> {
    name: &'a str,
    unit: &'a str,
    kind: Kind,
    /// The message of that kind.
    data: &'a [u8],
    /// `None` where the producer does not say.
    temporality: Option<Temporality>,
    monotonic: bool,
    resource: &'a Listed<'a>,
    /// Of all that its streams have in common.
    hash: u64,
}

/// What of a point becomes a point here: all of it, or a figure of a summary.
#[derive(Clone, Copy, Default)]
struct Part<'a> {
    /// Behind the metric's name.
    suffix: &'static str,
    quantile: Option<&'a str>,
}

impl Otlp {
    /// Takes a body that was checked.
    pub(super) fn on_metrics(&mut self, intake: &mut Intake, now: Now, body: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        let mut lists = std::mem::take(&mut self.lists);
        for resource_metrics in messages(body, 1) {
            let resource = messages(resource_metrics, 1).last().unwrap_or_default();
            let resource = Attributes::new(resource, 1);
            let (producer, resource) = (resource.hash(&self.state), resource.list());
            for scope_metrics in messages(resource_metrics, 2) {
                let scope = join(&self.state, &[producer, self.scope(scope_metrics)]);
                for metric in messages(scope_metrics, 2) {
                    let Some(metric) = self.metric(metric, &resource, scope) else { continue };
                    for point in messages(metric.data, 1) {
                        let taken = self.on_data_point(intake, now, &metric, point, &mut lists);
                        self.on_item(&mut outcome, taken, |reason| {
                            words::of_point(reason, metric.name, metric.kind, metric.unit)
                        });
                    }
                }
            }
        }
        self.lists = lists;
        outcome
    }

    /// One number for a scope: its name, its version, its attributes.
    fn scope(&self, scope_metrics: &[u8]) -> u64 {
        let scope = messages(scope_metrics, 1).last().unwrap_or_default();
        let text = |number| hash(&self.state, messages(scope, number).last().unwrap_or_default());
        join(&self.state, &[text(1), text(2), Attributes::new(scope, 3).hash(&self.state)])
    }

    /// `None` where it has no points of a kind that is known here.
    fn metric<'a>(
        &self,
        metric: &'a [u8],
        resource: &'a Listed<'a>,
        scope: u64,
    ) -> Option<Metric<'a>> {
        let text = |number| messages(metric, number).last().unwrap_or_default();
        let kinds = fields(metric).filter_map(|(number, wire)| match (number, wire) {
            (5, Wire::Bytes(data)) => Some((Kind::Gauge, data)),
            (7, Wire::Bytes(data)) => Some((Kind::Sum, data)),
            (9, Wire::Bytes(data)) => Some((Kind::Histogram, data)),
            (10, Wire::Bytes(data)) => Some((Kind::Exponential, data)),
            (11, Wire::Bytes(data)) => Some((Kind::Summary, data)),
            _ => None,
        });
        let (kind, data) = kinds.last()?;
        let (temporality, monotonic) = sense(kind, data);
        let sense = [kind as u8, temporality.map_or(0, |t| t as u8 + 1), monotonic.into()];
        let parts = [text(1), text(3), &sense].map(|part| hash(&self.state, part));
        Some(Metric {
            name: str::from_utf8(text(1)).unwrap_or_default(),
            unit: str::from_utf8(text(3)).unwrap_or_default(),
            kind,
            data,
            temporality,
            monotonic,
            resource,
            hash: join(&self.state, &[scope, parts[0], parts[1], parts[2]]),
        })
    }

    fn on_data_point(
        &mut self,
        intake: &mut Intake,
        now: Now,
        metric: &Metric<'_>,
        point: &[u8],
        lists: &mut Lists,
    ) -> Result<(), Reject> {
        let head = data_point::head(metric.kind, point);
        if !head.has_value {
            self.figures.without_value += 1;
            return Ok(());
        }
        let taken = match self.told(metric, point, lists) {
            Err(reason) => {
                intake.reject(reason);
                Err(reason)
            }
            Ok((temporality, Some(value))) => {
                let whole = Part::default();
                self.on_value(intake, now, metric, &head, (temporality, value), whole)
            }
            Ok((_, None)) => self.on_summary(intake, now, metric, &head, point),
        };
        match taken {
            Ok(()) => self.figures.points[metric.kind as usize] += 1,
            Err(_) => self.figures.points_refused += 1,
        }
        taken
    }

    /// What a point says and since when; no value for a summary, which says several.
    fn told<'l>(
        &self,
        metric: &Metric<'_>,
        point: &[u8],
        lists: &'l mut Lists,
    ) -> Result<(Temporality, Option<Value<'l>>), Reject> {
        // All that follows is done for each point, and takes as long as the name.
        if metric.name.len() > OTLP_NAME_BYTES_MAX {
            return Err(Reject::TooLong);
        }
        let temporality = metric.temporality.ok_or(Reject::Temporality)?;
        Ok((temporality, self.value(metric, point, lists)?))
    }

    fn value<'l>(
        &self,
        metric: &Metric<'_>,
        point: &[u8],
        lists: &'l mut Lists,
    ) -> Result<Option<Value<'l>>, Reject> {
        Ok(Some(match metric.kind {
            Kind::Gauge => Value::Gauge(data_point::number(point)?),
            Kind::Sum => {
                let monotonic = metric.monotonic;
                Value::Sum { value: data_point::number(point)?, monotonic }
            }
            Kind::Histogram => lists.histogram(point, self.unit(metric)?)?,
            Kind::Exponential => lists.exponential(point, self.unit(metric)?)?,
            Kind::Summary => return Ok(None),
        }))
    }

    /// In which unit of time its values stand.
    fn unit(&self, metric: &Metric<'_>) -> Result<TimeUnit, Reject> {
        match metric.unit {
            "s" => Ok(TimeUnit::Seconds),
            "ms" => Ok(TimeUnit::Milliseconds),
            "us" => Ok(TimeUnit::Microseconds),
            "ns" => Ok(TimeUnit::Nanoseconds),
            "" => {
                let named = self.rules.units.named(metric.name);
                named.unwrap_or(self.rules.otlp.unit).0.ok_or(Reject::Unit)
            }
            _ => Err(Reject::Unit),
        }
    }

    /// Its quantiles as gauges, its count and its sum as counters; the first refusal is told.
    fn on_summary(
        &mut self,
        intake: &mut Intake,
        now: Now,
        metric: &Metric<'_>,
        head: &Head<'_>,
        point: &[u8],
    ) -> Result<(), Reject> {
        let told = data_point::summary(point);
        let mut taken = Ok(());
        #[expect(clippy::cast_precision_loss, reason = "counters are floats here")]
        for (suffix, value) in [("_count", told.count as f64), ("_sum", told.sum)] {
            let value = (Temporality::Cumulative, Value::Sum { value, monotonic: true });
            let part = Part { suffix, quantile: None };
            taken = taken.and(self.on_value(intake, now, metric, head, value, part));
        }
        if !self.rules.labels.keeps(QUANTILE) {
            return taken;
        }
        for (quantile, value) in data_point::quantiles(point).take(OTLP_QUANTILES_MAX) {
            let quantile = quantile.to_string();
            let part = Part { suffix: "", quantile: Some(&quantile) };
            let value = (Temporality::Cumulative, Value::Gauge(value));
            taken = taken.and(self.on_value(intake, now, metric, head, value, part));
        }
        taken
    }

    fn on_value(
        &mut self,
        intake: &mut Intake,
        now: Now,
        metric: &Metric<'_>,
        head: &Head<'_>,
        (temporality, value): (Temporality, Value<'_>),
        part: Part<'_>,
    ) -> Result<(), Reject> {
        let own = head.attributes.hash(&self.state);
        let of = |text: &str| hash(&self.state, text.as_bytes());
        let part_hash = of(part.suffix) ^ part.quantile.map_or(0, of);
        let left_out = Cell::new(None);
        let series = || {
            let (series, figures) = self.series(metric, head.attributes, part)?;
            left_out.set(Some(figures));
            Ok(series)
        };
        let stream = join(&self.state, &[metric.hash, own, part_hash]);
        let Head { start, time, .. } = *head;
        let taken = intake
            .on_point(now, &Point { stream, series: &series, start, time, temporality, value });
        if let Some((labels, nested, beyond)) = left_out.take() {
            self.figures.labels.add(labels, 1);
            self.figures.labels.too_many += beyond;
            self.figures.nested += nested;
        }
        taken
    }

    /// Name and labels of a stream, and what of its attributes they leave out.
    fn series(
        &self,
        metric: &Metric<'_>,
        attributes: Attributes<'_>,
        part: Part<'_>,
    ) -> Result<(Series, (LineFigures, u64, u64)), Reject> {
        let operation = self.operation(metric.name, part.suffix)?;
        let mut pairs = Pairs::default();
        if let Some(quantile) = part.quantile {
            pairs.add(QUANTILE, quantile);
        }
        pairs.add_named(&self.rules.otlp.resource_labels, |key| metric.resource.get(key));
        pairs.add_all(attributes);
        let (labels, figures) = self.rules.labels.keep(pairs.iter());
        let left_out = (figures.unwrap_or_default(), pairs.nested, pairs.beyond);
        Ok((Series { operation, labels }, left_out))
    }

    fn operation(&self, name: &str, suffix: &str) -> Result<Operation, Reject> {
        let renamed = self.rules.otlp.operations.get(name);
        match (renamed, suffix) {
            (Some(operation), "") => Ok(operation.clone()),
            (renamed, suffix) => {
                let name = renamed.map_or(name, Operation::as_str);
                fit_operation(&[name, suffix].concat())
            }
        }
    }
}

/// Whether its points count since the one before or since a start, and whether they only grow.
fn sense(kind: Kind, data: &[u8]) -> (Option<Temporality>, bool) {
    // Of a gauge and a summary there is one sense only.
    let is_plain = matches!(kind, Kind::Gauge | Kind::Summary);
    let mut sense = (is_plain.then_some(Temporality::Cumulative), false);
    for field in fields(data) {
        match field {
            _ if is_plain => {}
            (2, Wire::Varint(1)) => sense.0 = Some(Temporality::Delta),
            (2, Wire::Varint(2)) => sense.0 = Some(Temporality::Cumulative),
            (2, Wire::Varint(_)) => sense.0 = None,
            (3, Wire::Varint(truth)) => sense.1 = kind == Kind::Sum && truth != 0,
            _ => {}
        }
    }
    sense
}
