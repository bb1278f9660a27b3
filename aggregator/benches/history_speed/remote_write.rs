//! The same samples as a native histogram of Prometheus, one sample a minute: the bodies of remote
//! write, each after its length (four bytes, little-endian). `prompb/types.proto` of Prometheus has
//! the numbers and types of the fields.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use prost::Message;

use crate::past::SLOT_SECONDS;
use crate::samples::Shapes;

const MINUTE: u64 = 60;
/// Samples in one body.
const BODY_MINUTES: u64 = 30;

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<NativeHistogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct NativeHistogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(double, tag = "5")]
    zero_threshold: f64,
    #[prost(uint64, optional, tag = "6")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "11")]
    positive_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "12")]
    positive_deltas: Vec<i64>,
    #[prost(int64, tag = "15")]
    timestamp_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// A counter of latencies in the buckets of one schema.
struct Counter {
    schema: i32,
    /// The index of the first bucket of all shapes: none is inserted later.
    first: i32,
    /// What each shape adds: samples by bucket from the first on, their number and their sum.
    shapes: Vec<(Vec<u64>, u64, f64)>,
    buckets: Vec<u64>,
    count: u64,
    sum_seconds: f64,
}

/// Writes the samples of these seconds.
pub(crate) fn write(path: &Path, schema: i32, shapes: &Shapes, seconds: Range<u64>) -> Result<()> {
    let mut counter = Counter::new(schema, shapes);
    let mut file = BufWriter::new(File::create(path)?);
    // An increase needs a sample from before the first latency.
    let mut histograms = vec![counter.sample(seconds.start)?];
    for minute in seconds.start / MINUTE..seconds.end / MINUTE {
        let first = minute * MINUTE / SLOT_SECONDS;
        for number in first..first + MINUTE / SLOT_SECONDS {
            counter.add(shapes.place(number));
        }
        histograms.push(counter.sample((minute + 1) * MINUTE)?);
        if minute.is_multiple_of(BODY_MINUTES) || (minute + 1) * MINUTE == seconds.end {
            send(&mut file, std::mem::take(&mut histograms))?;
        }
    }
    Ok(file.flush()?)
}

fn send(file: &mut impl Write, histograms: Vec<NativeHistogram>) -> Result<()> {
    let name = Label { name: "__name__".to_owned(), value: "latency_seconds".to_owned() };
    let timeseries = vec![TimeSeries { labels: vec![name], histograms }];
    let body = snappy(&WriteRequest { timeseries }.encode_to_vec())?;
    file.write_all(&u32::try_from(body.len())?.to_le_bytes())?;
    Ok(file.write_all(&body)?)
}

/// Snappy's block format allows bytes as they are: their number, and one literal of 32-bit length.
fn snappy(bytes: &[u8]) -> Result<Vec<u8>> {
    const LITERAL: u8 = 63 << 2;
    let mut body = Vec::with_capacity(bytes.len() + 16);
    prost::encoding::encode_varint(bytes.len() as u64, &mut body);
    body.push(LITERAL);
    body.extend(u32::try_from(bytes.len() - 1)?.to_le_bytes());
    body.extend(bytes);
    Ok(body)
}

impl Counter {
    fn new(schema: i32, shapes: &Shapes) -> Self {
        let values = shapes.all().iter().flat_map(|drawn| &drawn.values_ns);
        let (low, high) =
            values.fold((u64::MAX, 0), |(low, high), value| (low.min(*value), high.max(*value)));
        let first = index(low, schema);
        let place =
            |value_ns: u64| usize::try_from(index(value_ns, schema) - first).unwrap_or_default();
        let length = place(high) + 1;
        let of_shape = |values_ns: &Vec<u64>| {
            let mut buckets = vec![0; length];
            values_ns.iter().for_each(|value| buckets[place(*value)] += 1);
            let sum_ns: u64 = values_ns.iter().sum();
            (buckets, values_ns.len() as u64, sum_ns as f64 / 1e9)
        };
        let shapes = shapes.all().iter().map(|drawn| of_shape(&drawn.values_ns)).collect();
        Self { schema, first, shapes, buckets: vec![0; length], count: 0, sum_seconds: 0.0 }
    }

    fn add(&mut self, shape: usize) {
        let (buckets, count, sum_seconds) = &self.shapes[shape];
        self.buckets.iter_mut().zip(buckets).for_each(|(bucket, n)| *bucket += n);
        self.count += count;
        self.sum_seconds += sum_seconds;
    }

    fn sample(&self, seconds: u64) -> Result<NativeHistogram> {
        let length = u32::try_from(self.buckets.len())?;
        let buckets = self.buckets.iter().map(|bucket| i64::try_from(*bucket));
        let buckets: Vec<i64> = buckets.collect::<Result<_, _>>()?;
        let before = std::iter::once(&0).chain(&buckets);
        Ok(NativeHistogram {
            count: Some(self.count),
            sum: self.sum_seconds,
            schema: self.schema,
            zero_threshold: 1e-128,
            zero_count: Some(0),
            positive_spans: vec![Span { offset: self.first, length }],
            positive_deltas: buckets.iter().zip(before).map(|(now, before)| now - before).collect(),
            timestamp_ms: i64::try_from(seconds * 1_000)?,
        })
    }
}

/// The bucket whose upper end is 2^(index / 2^schema) seconds.
#[expect(clippy::cast_possible_truncation, reason = "logarithms of latencies are small")]
fn index(value_ns: u64, schema: i32) -> i32 {
    ((value_ns as f64 / 1e9).log2() * 2_f64.powi(schema)).ceil() as i32
}
