//! The MessagePack form of a snapshot, and the only way between it and [`Snapshot`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use rmp_serde::decode::Error;
use serde::{Deserialize, Serialize};

use super::error::{SCHEMA, WireError};
use super::event::Events;
use super::latency::LatencyBody;
use super::messagepack::read;
use super::shard::ShardBody;
use super::snapshot::{Body, Bus, Hardware, Header, Interval, NotedIncarnation, Snapshot, Totals};
use crate::hardware::SensorState;
use crate::histogram::{Distribution, Packed};
use crate::ids::{Incarnation, Labels, LossReason, NodeName, Seq};
use crate::limits::wire::{
    COUNT_MAX, ENDED_OPERATIONS_MAX, FORMER_INCARNATIONS_MAX, INTERVAL_NS_MAX, LOSS_REASONS_MAX,
    MESSAGE_BYTES_MAX, SERIES_MAX, SHARD_BYTES_MAX, VERSION_BYTES_MAX,
};
use crate::subject::{SnapshotKind, SnapshotSubject};
use crate::time::Wall;

/// The header's fields and the body, as encoded in the message.
#[derive(Serialize, Deserialize)]
struct Envelope<'a, B> {
    schema: u16,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    node: Cow<'a, str>,
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
    successor: Option<u64>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    labels: Labels,
    body: B,
}

/// The bodies of an interval by their kinds; a later version may add some.
#[derive(Deserialize)]
struct IntervalBody<'a> {
    #[serde(default, borrow)]
    latency: Option<LatencyBody<'a>>,
    #[serde(default)]
    hardware: Option<Hardware>,
    #[serde(default)]
    bus: Option<Bus>,
    #[serde(default)]
    event: Option<Events>,
}

impl IntervalBody<'_> {
    fn check<H: Distribution>(self) -> Result<Body<H>, WireError> {
        Ok(Body::Interval(Interval {
            latency: self.latency.map(LatencyBody::check).transpose()?,
            hardware: self.hardware.map(check_hardware).transpose()?,
            bus: self.bus.map(check_bus).transpose()?,
            event: self.event.map(Events::check).transpose()?,
        }))
    }
}

/// Just enough to distinguish a later version from garbage.
#[derive(Deserialize)]
struct Version {
    schema: u16,
}

/// The bytes of one snapshot.
#[must_use]
pub fn encode(snapshot: &Snapshot) -> Vec<u8> {
    encode_around(&snapshot.header, snapshot.body.kind(), &encode_body(&snapshot.body))
}

/// The bytes of a body alone, as small as the message that will carry it; see [`encode_around`].
#[must_use]
pub fn encode_body(body: &Body) -> Vec<u8> {
    match body {
        Body::Latency(latency) => named(&LatencyBody::of(latency)),
        Body::Hardware(hardware) => named(hardware),
        Body::Bus(bus) => named(bus),
        Body::Event(events) => named(events),
        Body::Shard(report) => named(&ShardBody::of(report)),
        Body::Interval(Interval { latency, hardware, bus, event }) => {
            let latency = latency.as_ref().map(|latency| named(&LatencyBody::of(latency)));
            let parts = [
                (SnapshotKind::Latency, latency),
                (SnapshotKind::Hardware, hardware.as_ref().map(named)),
                (SnapshotKind::Bus, bus.as_ref().map(named)),
                (SnapshotKind::Event, event.as_ref().map(named)),
            ];

            let parts = parts.iter().filter_map(|(kind, body)| {
                Some(EncodedBody { kind: *kind, bytes: body.as_ref()? })
            });
            combine_bodies(&parts.collect::<Vec<_>>())
        }
    }
}

fn named<T: Serialize>(body: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(body)
        // Cannot fail: MessagePack expresses maps, numbers and text.
        .expect("a body holds only maps, numbers and text, which MessagePack can express")
}

/// A body as [`encode_body`] wrote it.
#[derive(Clone, Copy, Debug)]
pub struct EncodedBody<'a> {
    /// Its kind.
    pub kind: SnapshotKind,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The body of an interval from encoded bodies, each of another kind.
#[must_use]
pub fn combine_bodies(parts: &[EncodedBody<'_>]) -> Vec<u8> {
    let entry = |part: &EncodedBody<'_>| 1 + part.kind.as_str().len() + part.bytes.len();
    let mut combined = Vec::with_capacity(1 + parts.iter().map(entry).sum::<usize>());
    combined.push(fixed(FIXMAP, parts.len()));

    // Written by hand: an encoder would have to decode each body, to encode it once more.
    for EncodedBody { kind, bytes } in parts {
        combined.push(fixed(FIXSTR, kind.as_str().len()));
        combined.extend_from_slice(kind.as_str().as_bytes());
        combined.extend_from_slice(bytes);
    }
    combined
}

/// First bytes of short maps and texts in MessagePack; their lengths are in the low bits.
const FIXMAP: u8 = 0x80;
const FIXSTR: u8 = 0xa0;

fn fixed(marker: u8, length: usize) -> u8 {
    // Cannot fail: there are six kinds, and their names are short.
    marker | u8::try_from(length).expect("kinds are few and their names short")
}

/// The bytes of the snapshot with this header and an encoded body of this kind.
#[must_use]
pub fn encode_around(header: &Header, kind: SnapshotKind, body: &[u8]) -> Vec<u8> {
    let Header { node, incarnation, seq, start, length_ns, totals, last, successor, labels } =
        header;
    let lost = totals.lost.iter().map(|(reason, n)| (reason.to_string(), *n)).collect();

    let mut bytes = rmp_serde::to_vec_named(&Envelope {
        schema: SCHEMA,
        kind: kind.as_str().into(),
        node: node.as_str().into(),
        incarnation: incarnation.0,
        seq: seq.0,
        start_ns: start.0,
        length_ns: *length_ns,
        recorded: totals.recorded,
        lost,
        last: *last,
        successor: successor.map(|successor| successor.0),
        labels: labels.clone(),
        body: (),
    })
    // Cannot fail: MessagePack expresses maps, numbers and text.
    .expect("a header holds only maps, numbers and text, which MessagePack can express");
    // The body is the last field, and nothing is one byte.
    bytes.pop();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads a body of `kind` that [`encode_body`] wrote.
///
/// # Errors
/// On anything that is not exactly one well-formed body of this kind.
pub fn decode_body(kind: SnapshotKind, bytes: &[u8]) -> Result<Body, WireError> {
    match kind {
        SnapshotKind::Latency => Ok(Body::Latency(whole::<LatencyBody<'_>>(bytes)?.check()?)),
        SnapshotKind::Hardware => Ok(Body::Hardware(check_hardware(whole(bytes)?)?)),
        SnapshotKind::Bus => Ok(Body::Bus(check_bus(whole(bytes)?)?)),
        SnapshotKind::Event => Ok(Body::Event(Events::check(whole(bytes)?)?)),
        SnapshotKind::Interval => whole::<IntervalBody<'_>>(bytes)?.check(),
        SnapshotKind::Shard => Ok(Body::Shard(whole::<ShardBody<'_>>(bytes)?.check()?)),
    }
}

/// The one value that `bytes` hold.
fn whole<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    let mut rest = bytes;
    let value = read(&mut rest).map_err(|error| WireError::Shape(error.to_string()))?;
    if rest.is_empty() { Ok(value) } else { Err(WireError::Trailing(rest.len())) }
}

/// Reads the message that arrived under `subject`.
///
/// # Errors
/// On anything that is not exactly one well-formed snapshot of the node and kind that the
/// subject names; see [`WireError`].
pub fn decode(subject: &SnapshotSubject, bytes: &[u8]) -> Result<Snapshot, WireError> {
    decode_as(subject, bytes)
}

/// Reads the message that arrived under `subject` for a reader that merges its distributions: they
/// stay as small as in the message.
///
/// # Errors
/// As [`decode`].
pub fn decode_packed(
    subject: &SnapshotSubject,
    bytes: &[u8],
) -> Result<Snapshot<Packed>, WireError> {
    decode_as(subject, bytes)
}

fn decode_as<H: Distribution>(
    subject: &SnapshotSubject,
    bytes: &[u8],
) -> Result<Snapshot<H>, WireError> {
    let max = match subject.kind {
        SnapshotKind::Shard => SHARD_BYTES_MAX,
        _ => MESSAGE_BYTES_MAX,
    };

    // Before anything is parsed, which takes time and memory by the length.
    if bytes.len() > max {
        return Err(WireError::TooLarge { bytes: bytes.len(), max });
    }

    match subject.kind {
        SnapshotKind::Latency => {
            open(subject, bytes, |body| Ok(Body::Latency(LatencyBody::check(body)?)))
        }
        SnapshotKind::Hardware => {
            open(subject, bytes, |body| Ok(Body::Hardware(check_hardware(body)?)))
        }
        SnapshotKind::Bus => open(subject, bytes, |body| Ok(Body::Bus(check_bus(body)?))),
        SnapshotKind::Event => open(subject, bytes, |body| Ok(Body::Event(Events::check(body)?))),
        SnapshotKind::Interval => open(subject, bytes, IntervalBody::check),
        SnapshotKind::Shard => {
            open(subject, bytes, |body| Ok(Body::Shard(ShardBody::check(body)?)))
        }
    }
}

fn open<'a, B: Deserialize<'a>, H: Distribution>(
    subject: &SnapshotSubject,
    bytes: &'a [u8],
    check_body: impl FnOnce(B) -> Result<Body<H>, WireError>,
) -> Result<Snapshot<H>, WireError> {
    let mut rest = bytes;
    let envelope: Envelope<'a, B> = read(&mut rest).map_err(|error| explain(bytes, &error))?;

    // Before anything else is judged: a later version may have other bounds.
    if envelope.schema != SCHEMA {
        return Err(WireError::Schema(envelope.schema));
    }
    if !rest.is_empty() {
        return Err(WireError::Trailing(rest.len()));
    }
    let (header, body) = check_header(subject, envelope)?;
    let snapshot = Snapshot { header, body: check_body(body)? };
    // A message cannot carry more than its node has recorded: the ledger would show a surplus for
    // ever.
    if snapshot.body.samples() > snapshot.header.totals.recorded {
        return Err(WireError::Bounds { field: "recorded" });
    }
    Ok(snapshot)
}

/// A message of another version may well have another shape; then the version is the reason.
fn explain(bytes: &[u8], error: &Error) -> WireError {
    match read(&mut &*bytes) {
        Ok(Version { schema }) if schema != SCHEMA => WireError::Schema(schema),
        _ => WireError::Shape(error.to_string()),
    }
}

fn check_header<B>(
    subject: &SnapshotSubject,
    envelope: Envelope<'_, B>,
) -> Result<(Header, B), WireError> {
    // The broker permits subjects: a payload must not speak for another node than may publish it.
    if envelope.node != subject.node.as_str() {
        let subject = subject.node.to_string();
        return Err(WireError::Node { payload: envelope.node.into_owned(), subject });
    }

    if envelope.kind != subject.kind.as_str() {
        let subject = subject.kind.as_str();
        return Err(WireError::Kind { payload: envelope.kind.into_owned(), subject });
    }

    let bounds = [
        ("incarnation", envelope.incarnation > 0),
        (
            "successor",
            envelope.successor.is_none_or(|successor| {
                envelope.last && successor > 0 && successor != envelope.incarnation
            }),
        ),
        ("seq", (1..=COUNT_MAX).contains(&envelope.seq)),
        // Half of the range leaves room for the length of the interval and the offset of a clock.
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
        successor: envelope.successor.map(Incarnation),
        labels: envelope.labels,
    };

    Ok((header, envelope.body))
}

fn check_hardware(hardware: Hardware) -> Result<Hardware, WireError> {
    if hardware.readings.len() > SERIES_MAX {
        return Err(WireError::Bounds { field: "readings" });
    }
    let is_sound = |(place, value): &(u32, f64)| {
        usize::try_from(*place).is_ok_and(|place| place < SERIES_MAX) && value.is_finite()
    };
    let may_change = hardware.changed.is_empty() || hardware.is_change();
    if hardware.changed.len() > SERIES_MAX || !hardware.changed.iter().all(is_sound) || !may_change
    {
        return Err(WireError::Bounds { field: "changed" });
    }

    for reading in &hardware.readings {
        LossReason::check(&reading.sensor)?;
        if reading.value.is_some_and(|value| !value.is_finite()) {
            return Err(WireError::NotFinite { field: "reading" });
        }
        // A value beside a reason for its absence would be shown by one reader and not by another
        // (S11).
        if reading.value.is_some() != (reading.state == SensorState::Ok) {
            return Err(WireError::Bounds { field: "reading" });
        }
        reading.reason.as_deref().map_or(Ok(()), LossReason::check)?;
    }

    Ok(hardware)
}

fn check_bus(bus: Bus) -> Result<Bus, WireError> {
    if bus.rejected.len() > LOSS_REASONS_MAX {
        return Err(WireError::Bounds { field: "rejected" });
    }
    if bus.confirmations_refused.len() > LOSS_REASONS_MAX {
        return Err(WireError::Bounds { field: "confirmations_refused" });
    }
    let is_sound =
        |former: &NotedIncarnation| former.incarnation.0 > 0 && former.recorded <= COUNT_MAX;
    if bus.former.len() > FORMER_INCARNATIONS_MAX || !bus.former.iter().all(is_sound) {
        return Err(WireError::Bounds { field: "former" });
    }
    if bus.ended_operations.len() > ENDED_OPERATIONS_MAX {
        return Err(WireError::Bounds { field: "ended_operations" });
    }
    let is_plain = bus.version.bytes().all(|byte| byte.is_ascii_graphic());
    if bus.version.len() > VERSION_BYTES_MAX || !is_plain {
        return Err(WireError::Bounds { field: "version" });
    }
    Ok(bus)
}
