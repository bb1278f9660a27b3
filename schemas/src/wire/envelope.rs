//! The MessagePack form of a snapshot, and the only way between it and [`Snapshot`].

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Body, Bus, Hardware, Header, Latency, SCHEMA, Snapshot, Totals, WireError, is_zero};
use crate::hardware::SensorState;
use crate::histogram::codec::{self, Encoder};
use crate::histogram::{ExactFigures, Histogram};
use crate::ids::{Incarnation, Labels, LossReason, NodeName, Operation, Seq, Series};
use crate::limits::wire::{
    COUNT_MAX, DEPTH_MAX, INTERVAL_NS_MAX, LOSS_REASONS_MAX, MESSAGE_BYTES_MAX, SERIES_MAX,
};
use crate::subject::{Kind, SnapshotSubject};
use crate::time::Wall;

/// The header's fields and the body, as they stand in the message.
#[derive(Serialize, Deserialize)]
struct Envelope<B> {
    schema: u16,
    kind: String,
    node: String,
    incarnation: u64,
    seq: u64,
    start_ns: u64,
    length_ns: u64,
    recorded: u64,
    #[serde(default)]
    lost: BTreeMap<String, u64>,
    #[serde(default)]
    last: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heir: Option<u64>,
    body: B,
}

/// Just enough to tell a later version from garbage.
#[derive(Deserialize)]
struct Version {
    schema: u16,
}

#[derive(Serialize, Deserialize)]
struct LatencyBody {
    #[serde(default)]
    histograms: Vec<HistogramEntry>,
    #[serde(default)]
    counters: Vec<NumberEntry>,
    #[serde(default)]
    gauges: Vec<NumberEntry>,
}

#[derive(Serialize, Deserialize)]
struct HistogramEntry {
    operation: String,
    #[serde(default)]
    labels: Labels,
    unit: String,
    count: u64,
    sum_ns: u64,
    /// Multiples of 2^64 in the sum; zero short of 214 days of latency in one interval.
    #[serde(default, skip_serializing_if = "is_zero")]
    sum_carry: u64,
    min_ns: u64,
    max_ns: u64,
    #[serde(with = "serde_bytes")]
    hdr: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct NumberEntry {
    operation: String,
    #[serde(default)]
    labels: Labels,
    value: f64,
}

/// The upper and the lower 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
fn halves(sum: u128) -> (u64, u64) {
    ((sum >> 64) as u64, sum as u64)
}

const UNIT: &str = "ns";

/// The bytes of one snapshot.
#[must_use]
pub fn encode(snapshot: &Snapshot, encoder: &mut Encoder) -> Vec<u8> {
    match &snapshot.body {
        Body::Latency(latency) => pack(snapshot, latency_body(latency, encoder)),
        Body::Hardware(hardware) => pack(snapshot, hardware),
        Body::Bus(bus) => pack(snapshot, bus),
    }
}

fn pack<B: Serialize>(snapshot: &Snapshot, body: B) -> Vec<u8> {
    let Header { node, incarnation, seq, start, length_ns, totals, last, heir } = &snapshot.header;
    let lost = totals.lost.iter().map(|(reason, n)| (reason.to_string(), *n)).collect();
    rmp_serde::to_vec_named(&Envelope {
        schema: SCHEMA,
        kind: snapshot.body.kind().as_str().to_owned(),
        node: node.to_string(),
        incarnation: incarnation.0,
        seq: seq.0,
        start_ns: start.0,
        length_ns: *length_ns,
        recorded: totals.recorded,
        lost,
        last: *last,
        heir: heir.map(|heir| heir.0),
        body,
    })
    .expect("a snapshot holds only maps, numbers and text, which MessagePack can express")
}

fn latency_body(latency: &Latency, encoder: &mut Encoder) -> LatencyBody {
    let histogram = |(series, histogram): &(Series, Histogram)| {
        let (sum_carry, sum_ns) = halves(histogram.sum_ns());
        HistogramEntry {
            operation: series.operation.to_string(),
            labels: series.labels.clone(),
            unit: UNIT.to_owned(),
            count: histogram.count(),
            sum_ns,
            sum_carry,
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns(),
            hdr: encoder.encode(histogram.counts()),
        }
    };
    let number = |(series, value): &(Series, f64)| NumberEntry {
        operation: series.operation.to_string(),
        labels: series.labels.clone(),
        value: *value,
    };
    LatencyBody {
        histograms: latency.histograms.iter().map(histogram).collect(),
        counters: latency.counters.iter().map(number).collect(),
        gauges: latency.gauges.iter().map(number).collect(),
    }
}

/// Reads the message that arrived under `subject`.
///
/// # Errors
/// On anything that is not exactly one well-formed snapshot of the node and kind that the
/// subject names; see [`WireError`].
pub fn decode(subject: &SnapshotSubject, bytes: &[u8]) -> Result<Snapshot, WireError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(WireError::TooLarge { bytes: bytes.len(), max: MESSAGE_BYTES_MAX });
    }
    match subject.kind {
        Kind::Latency => open(subject, bytes, |body| Ok(Body::Latency(check_latency(body)?))),
        Kind::Hardware => open(subject, bytes, |body| Ok(Body::Hardware(check_hardware(body)?))),
        Kind::Bus => open(subject, bytes, |body| Ok(Body::Bus(check_bus(body)?))),
    }
}

fn open<B: DeserializeOwned>(
    subject: &SnapshotSubject,
    bytes: &[u8],
    check_body: impl FnOnce(B) -> Result<Body, WireError>,
) -> Result<Snapshot, WireError> {
    let mut rest = bytes;
    let envelope: Envelope<B> = read(&mut rest).map_err(|error| explain(bytes, &error))?;
    if envelope.schema != SCHEMA {
        return Err(WireError::Schema(envelope.schema));
    }
    if !rest.is_empty() {
        return Err(WireError::Trailing(rest.len()));
    }
    let (header, body) = check_header(subject, envelope)?;
    let snapshot = Snapshot { header, body: check_body(body)? };
    if snapshot.body.samples() > snapshot.header.totals.recorded {
        return Err(WireError::Bounds { field: "recorded" });
    }
    Ok(snapshot)
}

/// Reads one value from the front of `bytes`. Nesting is bounded: every level of it, in fields
/// that are skipped too, takes its part of the stack.
pub(super) fn read<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::new(bytes);
    reader.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut reader)
}

/// A message of another version may well have another shape; then the version is the reason.
fn explain(bytes: &[u8], error: &rmp_serde::decode::Error) -> WireError {
    match read(&mut &*bytes) {
        Ok(Version { schema }) if schema != SCHEMA => WireError::Schema(schema),
        _ => WireError::Shape(error.to_string()),
    }
}

fn check_header<B>(
    subject: &SnapshotSubject,
    envelope: Envelope<B>,
) -> Result<(Header, B), WireError> {
    if envelope.node != subject.node.as_str() {
        let subject = subject.node.to_string();
        return Err(WireError::Node { payload: envelope.node, subject });
    }
    if envelope.kind != subject.kind.as_str() {
        let subject = subject.kind.as_str();
        return Err(WireError::Kind { payload: envelope.kind, subject });
    }
    let bounds = [
        ("incarnation", envelope.incarnation > 0),
        ("heir", envelope.heir.is_none_or(|heir| heir > 0 && heir != envelope.incarnation)),
        ("seq", (1..=COUNT_MAX).contains(&envelope.seq)),
        ("start_ns", envelope.start_ns < u64::MAX / 2),
        ("length_ns", (1..=INTERVAL_NS_MAX).contains(&envelope.length_ns)),
        ("recorded", envelope.recorded <= COUNT_MAX),
        ("lost", envelope.lost.len() <= LOSS_REASONS_MAX),
    ];
    if let Some((field, _)) = bounds.into_iter().find(|(_, right)| !right) {
        return Err(WireError::Bounds { field });
    }
    let lost: BTreeMap<LossReason, u64> = envelope
        .lost
        .into_iter()
        .map(|(reason, n)| Ok((LossReason::new(reason)?, n)))
        .collect::<Result<_, WireError>>()?;
    let totals = Totals { recorded: envelope.recorded, lost };
    if totals.lost_sum() > totals.recorded {
        return Err(WireError::Bounds { field: "lost" });
    }
    let header = Header {
        node: NodeName::new(envelope.node)?,
        incarnation: Incarnation(envelope.incarnation),
        seq: Seq(envelope.seq),
        start: Wall(envelope.start_ns),
        length_ns: envelope.length_ns,
        totals,
        last: envelope.last,
        heir: envelope.heir.map(Incarnation),
    };
    Ok((header, envelope.body))
}

fn check_latency(body: LatencyBody) -> Result<Latency, WireError> {
    let series = body.histograms.len() + body.counters.len() + body.gauges.len();
    if series > SERIES_MAX {
        return Err(WireError::Bounds { field: "series" });
    }
    let latency = Latency {
        histograms: body.histograms.into_iter().map(check_histogram).collect::<Result<_, _>>()?,
        counters: check_numbers(body.counters, "counter")?,
        gauges: check_numbers(body.gauges, "gauge")?,
    };
    check_distinct(latency.histograms.iter().map(|(series, _)| series))?;
    check_distinct(latency.counters.iter().map(|(series, _)| series))?;
    check_distinct(latency.gauges.iter().map(|(series, _)| series))?;
    Ok(latency)
}

fn check_distinct<'a>(series: impl Iterator<Item = &'a Series>) -> Result<(), WireError> {
    let mut sorted: Vec<&Series> = series.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(WireError::DuplicateSeries(pair[0].to_string())),
        None => Ok(()),
    }
}

fn check_histogram(entry: HistogramEntry) -> Result<(Series, Histogram), WireError> {
    let series = Series { operation: Operation::new(entry.operation)?, labels: entry.labels };
    if entry.unit != UNIT {
        return Err(WireError::Bounds { field: "unit" });
    }
    let (counts, total) = codec::decode(&entry.hdr)
        .map_err(|source| WireError::Histogram { series: series.to_string(), source })?;
    let exact = ExactFigures {
        count: entry.count,
        sum_ns: (u128::from(entry.sum_carry) << 64) | u128::from(entry.sum_ns),
        min_ns: entry.min_ns,
        max_ns: entry.max_ns,
    };
    match Histogram::try_from_parts(exact, counts, total) {
        Ok(histogram) => Ok((series, histogram)),
        Err(figure) => Err(WireError::Contradiction { series: series.to_string(), figure }),
    }
}

fn check_numbers(
    entries: Vec<NumberEntry>,
    field: &'static str,
) -> Result<Vec<(Series, f64)>, WireError> {
    let check = |entry: NumberEntry| {
        if !entry.value.is_finite() {
            return Err(WireError::NotFinite { field });
        }
        let operation = Operation::new(entry.operation)?;
        Ok((Series { operation, labels: entry.labels }, entry.value))
    };
    entries.into_iter().map(check).collect()
}

fn check_hardware(hardware: Hardware) -> Result<Hardware, WireError> {
    if hardware.readings.len() > SERIES_MAX {
        return Err(WireError::Bounds { field: "readings" });
    }
    for reading in &hardware.readings {
        LossReason::check(&reading.sensor)?;
        if reading.value.is_some_and(|value| !value.is_finite()) {
            return Err(WireError::NotFinite { field: "reading" });
        }
        if reading.value.is_some() != (reading.state == SensorState::Ok) {
            return Err(WireError::Bounds { field: "reading" });
        }
    }
    Ok(hardware)
}

fn check_bus(bus: Bus) -> Result<Bus, WireError> {
    if bus.rejected.len() > LOSS_REASONS_MAX {
        return Err(WireError::Bounds { field: "rejected" });
    }
    Ok(bus)
}
