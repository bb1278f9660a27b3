//! One data point of each kind of metric, read from its bytes. Lists of counts and bounds go
//! into buffers that are used again, so that a point allocates nothing.

use crate::limits::POINT_BUCKETS_MAX;
use plimsoll_schemas::time::Wall;

use super::attributes::Attributes;
use super::protobuf::{Wire, fields, messages, take_varint, zigzag};
use super::stats::MetricKind;
use crate::core::intake::lines::ValueUnit;
use crate::core::intake::points::{Buckets, Latencies, Value};
use crate::core::intake::reject::Reject;

/// The bit of a point's flags that marks it as without a value.
const NO_RECORDED_VALUE: u64 = 1;

/// What all data points have.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) attributes: Attributes<'a>,
    /// Since when it counts; zero when the producer sends no start.
    pub(super) start: Wall,
    pub(super) time: Wall,
    /// False when the producer marks the point as without a value.
    pub(super) has_value: bool,
}

/// What a summary holds beside its quantiles.
#[derive(Clone, Copy, Default)]
pub(super) struct Summary {
    pub(super) count: u64,
    pub(super) sum: f64,
}

/// Where lists are read to.
#[derive(Default)]
pub(super) struct ListBuffers {
    counts: Vec<u64>,
    bounds: Vec<f64>,
}

/// Reads what all kinds have, each under numbers of its own.
pub(super) fn head(kind: MetricKind, point: &[u8]) -> Head<'_> {
    let (attributes, flags) = match kind {
        MetricKind::Gauge | MetricKind::Sum | MetricKind::Summary => (7, 8),
        MetricKind::Histogram => (9, 10),
        MetricKind::Exponential => (1, 10),
    };

    let attributes = Attributes::new(point, attributes);
    let mut head = Head { attributes, start: Wall(0), time: Wall(0), has_value: true };

    for field in fields(point) {
        match field {
            (2, Wire::Fixed64(nanos)) => head.start = Wall(nanos),
            (3, Wire::Fixed64(nanos)) => head.time = Wall(nanos),
            (number, Wire::Varint(bits)) if number == flags => {
                head.has_value = bits & NO_RECORDED_VALUE == 0;
            }
            _ => {}
        }
    }

    head
}

/// The number of a gauge or a sum.
///
/// # Errors
/// When there is none.
pub(super) fn number(point: &[u8]) -> Result<f64, Reject> {
    let mut value = None;
    for field in fields(point) {
        #[expect(clippy::cast_precision_loss, reason = "figures are floats here")]
        match field {
            (4, Wire::Fixed64(bits)) => value = Some(f64::from_bits(bits)),
            (6, Wire::Fixed64(bits)) => value = Some(bits.cast_signed() as f64),
            _ => {}
        }
    }
    value.ok_or(Reject::Number)
}

/// The count and the sum of a summary.
pub(super) fn summary(point: &[u8]) -> Summary {
    let mut summary = Summary::default();
    for field in fields(point) {
        match field {
            (4, Wire::Fixed64(count)) => summary.count = count,
            (5, Wire::Fixed64(bits)) => summary.sum = f64::from_bits(bits),
            _ => {}
        }
    }
    summary
}

/// The quantiles of a summary, each with its value.
pub(super) fn quantiles(point: &[u8]) -> impl Iterator<Item = (f64, f64)> {
    messages(point, 6).map(|quantile| {
        fields(quantile).fold((0.0, 0.0), |(quantile, value), field| match field {
            (1, Wire::Fixed64(bits)) => (f64::from_bits(bits), value),
            (2, Wire::Fixed64(bits)) => (quantile, f64::from_bits(bits)),
            _ => (quantile, value),
        })
    })
}

impl ListBuffers {
    /// The distribution of a histogram.
    ///
    /// # Errors
    /// When it has too many buckets.
    pub(super) fn histogram(&mut self, point: &[u8], unit: ValueUnit) -> Result<Value<'_>, Reject> {
        self.counts.clear();
        self.bounds.clear();
        let mut latencies = without_buckets(unit);

        for field in fields(point) {
            match field {
                (4, Wire::Fixed64(count)) => latencies.count = count,
                (5, Wire::Fixed64(bits)) => latencies.sum = Some(f64::from_bits(bits)),
                (6, wire) => push_fixed(&mut self.counts, wire, |bits| bits)?,
                (7, wire) => push_fixed(&mut self.bounds, wire, f64::from_bits)?,
                (11, Wire::Fixed64(bits)) => latencies.min = Some(f64::from_bits(bits)),
                (12, Wire::Fixed64(bits)) => latencies.max = Some(f64::from_bits(bits)),
                _ => {}
            }
        }

        let buckets = Buckets::Explicit { bounds: &self.bounds, counts: &self.counts };
        Ok(Value::Latencies(Latencies { buckets, ..latencies }))
    }

    /// The distribution of an exponential histogram.
    ///
    /// # Errors
    /// When it has too many buckets.
    pub(super) fn exponential(
        &mut self,
        point: &[u8],
        unit: ValueUnit,
    ) -> Result<Value<'_>, Reject> {
        self.counts.clear();
        let mut latencies = without_buckets(unit);
        let (mut scale, mut zero, mut zero_threshold, mut offset) = (0, 0, 0.0, 0);
        let mut negative: u64 = 0;

        for field in fields(point) {
            match field {
                (4, Wire::Fixed64(count)) => latencies.count = count,
                (5, Wire::Fixed64(bits)) => latencies.sum = Some(f64::from_bits(bits)),
                (6, Wire::Varint(number)) => scale = zigzag(number),
                (7, Wire::Fixed64(count)) => zero = count,
                (8, Wire::Bytes(buckets)) => offset = self.powers(buckets)?,
                (9, Wire::Bytes(buckets)) => negative = sum(buckets),
                (12, Wire::Fixed64(bits)) => latencies.min = Some(f64::from_bits(bits)),
                (13, Wire::Fixed64(bits)) => latencies.max = Some(f64::from_bits(bits)),
                (14, Wire::Fixed64(bits)) => zero_threshold = f64::from_bits(bits),
                _ => {}
            }
        }

        let positive = &self.counts;
        let buckets =
            Buckets::Exponential { scale, zero, zero_threshold, offset, positive, negative };
        Ok(Value::Latencies(Latencies { buckets, ..latencies }))
    }

    /// Reads the counts of buckets over zero, and returns the index of the first.
    fn powers(&mut self, buckets: &[u8]) -> Result<i32, Reject> {
        let mut offset = 0;
        for field in fields(buckets) {
            match field {
                (1, Wire::Varint(number)) => offset = zigzag(number),
                (2, Wire::Bytes(packed)) => push_varints(&mut self.counts, packed)?,
                (2, wire) => counts_of(wire).try_for_each(|count| push(&mut self.counts, count))?,
                _ => {}
            }
        }
        Ok(offset)
    }
}

fn without_buckets(unit: ValueUnit) -> Latencies<'static> {
    let buckets = Buckets::Explicit { bounds: &[], counts: &[] };
    Latencies { unit, count: 0, sum: None, min: None, max: None, buckets }
}

fn push<T>(list: &mut Vec<T>, value: T) -> Result<(), Reject> {
    if list.len() >= POINT_BUCKETS_MAX {
        return Err(Reject::Bounds);
    }
    list.push(value);
    Ok(())
}

/// Appends numbers of eight bytes, be they one field each or all in one.
fn push_fixed<T>(list: &mut Vec<T>, wire: Wire<'_>, read: fn(u64) -> T) -> Result<(), Reject> {
    match wire {
        Wire::Fixed64(bits) => push(list, read(bits)),
        Wire::Bytes(packed) => {
            let (numbers, _) = packed.as_chunks();
            // Before the list grows: a body of 4 MiB may state half a million buckets.
            if list.len() + numbers.len() > POINT_BUCKETS_MAX {
                return Err(Reject::Bounds);
            }
            list.extend(numbers.iter().map(|bytes| read(u64::from_le_bytes(*bytes))));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Appends numbers of few bytes that are all in one field. A list of up to as many bytes as there
/// may be buckets needs no check of its length.
fn push_varints(list: &mut Vec<u64>, mut packed: &[u8]) -> Result<(), Reject> {
    if list.len() + packed.len() > POINT_BUCKETS_MAX {
        return counts_of(Wire::Bytes(packed)).try_for_each(|count| push(list, count));
    }
    list.reserve(packed.len());
    while let Ok(count) = take_varint(&mut packed) {
        list.push(count);
    }
    Ok(())
}

/// Numbers of few bytes, be they one field each or all in one.
fn counts_of(wire: Wire<'_>) -> impl Iterator<Item = u64> {
    let (one, mut packed) = match wire {
        Wire::Varint(count) => (Some(count), &[][..]),
        Wire::Bytes(packed) => (None, packed),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(std::iter::from_fn(move || {
        (!packed.is_empty()).then(|| take_varint(&mut packed).ok()).flatten()
    }))
}

fn sum(buckets: &[u8]) -> u64 {
    let counts = fields(buckets).filter(|(number, _)| *number == 2);
    counts.flat_map(|(_, wire)| counts_of(wire)).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
