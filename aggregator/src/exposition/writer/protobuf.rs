//! `io.prometheus.client` messages, encoded by hand: they are few, label sets are shared as bytes,
//! and no intermediate message is allocated. Tests decode them with `prost`.

use plimsoll_schemas::unit::Unit;

use super::value::Value;
use crate::core::fleet::Buckets;

/// A field's number and wire type, as one key.
#[derive(Clone, Copy)]
pub(super) struct Field(u64);

const VARINT: u64 = 0;
const DOUBLE: u64 = 1;
const BYTES: u64 = 2;

impl Field {
    pub(super) const FAMILY_NAME: Self = Self(1 << 3 | BYTES);
    pub(super) const FAMILY_HELP: Self = Self(2 << 3 | BYTES);
    pub(super) const FAMILY_TYPE: Self = Self(3 << 3 | VARINT);
    pub(super) const METRIC: Self = Self(4 << 3 | BYTES);
    pub(super) const FAMILY_UNIT: Self = Self(5 << 3 | BYTES);
    const LABEL: Self = Self(1 << 3 | BYTES);
    const LABEL_NAME: Self = Self(1 << 3 | BYTES);
    const LABEL_VALUE: Self = Self(2 << 3 | BYTES);
    pub(super) const GAUGE: Self = Self(2 << 3 | BYTES);
    pub(super) const COUNTER: Self = Self(3 << 3 | BYTES);
    pub(super) const UNTYPED: Self = Self(5 << 3 | BYTES);
    const NUMBER: Self = Self(1 << 3 | DOUBLE);
    const HISTOGRAM: Self = Self(7 << 3 | BYTES);
    const SAMPLE_COUNT: Self = Self(1 << 3 | VARINT);
    const SAMPLE_SUM: Self = Self(2 << 3 | DOUBLE);
    const BUCKET: Self = Self(3 << 3 | BYTES);
    const BUCKET_COUNT: Self = Self(1 << 3 | VARINT);
    const BUCKET_LIMIT: Self = Self(2 << 3 | DOUBLE);
    const SCHEMA: Self = Self(5 << 3 | VARINT);
    const ZERO_THRESHOLD: Self = Self(6 << 3 | DOUBLE);
    const ZERO_COUNT: Self = Self(7 << 3 | VARINT);
    const POSITIVE_SPAN: Self = Self(12 << 3 | BYTES);
    const POSITIVE_DELTA: Self = Self(13 << 3 | BYTES);
    const SPAN_OFFSET: Self = Self(1 << 3 | VARINT);
    const SPAN_LENGTH: Self = Self(2 << 3 | VARINT);
}

pub(super) fn push_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

/// Bytes that [`push_varint`] writes.
pub(super) fn varint_len(n: u64) -> usize {
    (u64::BITS - (n | 1).leading_zeros()).div_ceil(7) as usize
}

/// A signed number as an unsigned one that is small when it is near zero.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

pub(super) fn push_uint(out: &mut Vec<u8>, Field(key): Field, n: u64) {
    push_varint(out, key);
    push_varint(out, n);
}

fn push_double(out: &mut Vec<u8>, Field(key): Field, value: f64) {
    push_varint(out, key);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn push_bytes(out: &mut Vec<u8>, Field(key): Field, bytes: &[u8]) {
    push_varint(out, key);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn push_text(out: &mut Vec<u8>, field: Field, text: &str) {
    push_bytes(out, field, text.as_bytes());
}

pub(super) fn push_label(out: &mut Vec<u8>, key: &str, value: &str) {
    let mut label = Vec::with_capacity(key.len() + value.len() + 6);
    push_text(&mut label, Field::LABEL_NAME, key);
    push_text(&mut label, Field::LABEL_VALUE, value);
    push_bytes(out, Field::LABEL, &label);
}

pub(super) fn push_number(out: &mut Vec<u8>, kind: Field, value: Value) {
    let mut number = Vec::with_capacity(9);
    push_double(&mut number, Field::NUMBER, as_float(value));
    push_bytes(out, kind, &number);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn as_float(value: Value) -> f64 {
    match value {
        Value::Count(n) => n as f64,
        Value::Nanos(ns) => ns as f64 / 1e9,
        Value::Float(value) => value,
    }
}

pub(super) fn push_histogram(out: &mut Vec<u8>, buckets: &Buckets, unit: Unit) {
    let mut histogram = Vec::new();
    push_uint(&mut histogram, Field::SAMPLE_COUNT, buckets.count);
    push_double(&mut histogram, Field::SAMPLE_SUM, as_float(Value::of(unit, buckets.sum_ns)));
    // A histogram that is native only has no classic buckets, not
    // even the last: readers take one for a classic histogram.
    let infinite = (!buckets.classic.is_empty()).then_some((f64::INFINITY, buckets.count));
    let limits =
        buckets.classic.iter().map(|(ns, n)| (as_float(Value::of(unit, u128::from(*ns))), *n));

    for (limit, n) in limits.chain(infinite) {
        let mut bucket = Vec::new();
        push_uint(&mut bucket, Field::BUCKET_COUNT, n);
        push_double(&mut bucket, Field::BUCKET_LIMIT, limit);
        push_bytes(&mut histogram, Field::BUCKET, &bucket);
    }

    if let Some(native) = &buckets.native {
        push_uint(&mut histogram, Field::SCHEMA, zigzag(native.schema.into()));
        push_double(&mut histogram, Field::ZERO_THRESHOLD, native.zero_threshold());
        push_uint(&mut histogram, Field::ZERO_COUNT, native.zero_count);

        for (offset, length) in native.spans() {
            let mut span = Vec::new();
            push_uint(&mut span, Field::SPAN_OFFSET, zigzag(offset.into()));
            push_uint(&mut span, Field::SPAN_LENGTH, length);
            push_bytes(&mut histogram, Field::POSITIVE_SPAN, &span);
        }

        let mut deltas = Vec::new();
        native.deltas().for_each(|delta| push_varint(&mut deltas, zigzag(delta)));
        push_bytes(&mut histogram, Field::POSITIVE_DELTA, &deltas);
    }

    push_bytes(out, Field::HISTOGRAM, &histogram);
}
