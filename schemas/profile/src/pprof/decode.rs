//! Reads a pprof file of any tool, as hostile: in two passes over its fields, so that samples are
//! added one by one and never held together.

use std::io::Read;

use flate2::read::GzDecoder;
use plimsoll_schemas::time::Wall;

use super::fields::{DecodeError, Field, Fields};
use super::messages::{Label, NODE, RANK, STATE, SampleMessage, THREAD};
use super::tables::{Tables, message, within};
use crate::facts::CaptureFacts;
use crate::labels::{SampleLabels, ThreadState};
use crate::limits::{DECODED_BYTES_MAX, ENCODED_BYTES_MAX, FRAMES_MAX};
use crate::name::Name;
use crate::profile::{Profile, ValueType};
use crate::stack::Stack;

/// The bytes that gzip starts with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A profile of the file's preferred value, compressed or not. Its counts are the file's if
/// each value is a multiple of the period; else a count is one unit.
///
/// # Errors
/// When the file is malformed or too large.
pub fn decode(bytes: &[u8]) -> Result<Profile, DecodeError> {
    within("bytes", bytes.len(), ENCODED_BYTES_MAX)?;
    let inflated;
    let message = if bytes.starts_with(&GZIP) {
        inflated = inflate(bytes)?;
        &inflated
    } else {
        bytes
    };

    let mut tables = Tables::read(message)?;
    let value_at = preferred(&tables)?;
    let value_type = tables.sample_types[value_at];
    let value_type =
        ValueType { kind: tables.name(value_type.kind)?, unit: tables.name(value_type.unit)? };

    let mut profile = Profile::new(value_type, 1);
    for field in Fields::new(message) {
        if let (2, Field::Bytes(bytes)) = field? {
            add_sample(&mut profile, &mut tables, value_at, bytes)?;
        }
    }

    profile = profile.in_periods(unsigned(tables.period));
    profile.started_at = Wall(unsigned(tables.time_nanos));
    profile.duration_ns = unsigned(tables.duration_nanos);
    let comments: Result<_, _> = tables.comments.iter().map(|index| tables.text(*index)).collect();
    let mut comments: Vec<String> = comments?;
    profile.facts = CaptureFacts::take(&mut comments);
    comments.iter().for_each(|comment| profile.add_comment(Name::new(comment)));
    Ok(profile)
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut message = Vec::new();
    // One byte more shows that there are more.
    let mut gzip = GzDecoder::new(bytes).take(DECODED_BYTES_MAX as u64 + 1);
    gzip.read_to_end(&mut message).map_err(|error| DecodeError::Gzip(error.to_string()))?;
    within("bytes once inflated", message.len(), DECODED_BYTES_MAX)?;
    Ok(message)
}

/// Which value of each sample is read: the one that the file prefers, or the last as in pprof.
fn preferred(tables: &Tables<'_>) -> Result<usize, DecodeError> {
    let last = tables.sample_types.len().checked_sub(1);
    let last = last.ok_or_else(|| DecodeError::Malformed("no sample type".to_owned()))?;
    let wanted = tables.text(tables.default_sample_type)?;
    for (at, value_type) in tables.sample_types.iter().enumerate().rev() {
        // Of two that have the name, ours is the last.
        if !wanted.is_empty() && tables.text(value_type.kind)? == wanted {
            return Ok(at);
        }
    }
    Ok(last)
}

fn add_sample(
    profile: &mut Profile,
    tables: &mut Tables<'_>,
    value_at: usize,
    bytes: &[u8],
) -> Result<(), DecodeError> {
    let sample: SampleMessage = message("a sample", bytes)?;
    let (values, types) = (sample.value.len(), tables.sample_types.len());
    if values != types {
        let text = format!("a sample has {values} values of {types} sample types");
        return Err(DecodeError::Malformed(text));
    }
    let value = sample.value[value_at];
    let value = u64::try_from(value).map_err(|_| DecodeError::Negative(value))?;
    if i64::try_from(profile.value() + value).is_err() {
        return Err(DecodeError::Malformed("the sum of all values exceeds 2^63".to_owned()));
    }

    let mut frames = Vec::new();
    for id in &sample.location_id {
        frames.extend_from_slice(tables.location(*id)?);
        if frames.len() > FRAMES_MAX {
            break;
        }
    }
    frames.reverse();
    profile.add(Stack::new(frames), labels(tables, &sample.label)?, value);
    Ok(())
}

/// Our labels among those of a sample.
fn labels(tables: &mut Tables<'_>, all: &[Label]) -> Result<SampleLabels, DecodeError> {
    let mut labels = SampleLabels::default();
    for label in all {
        let (key, text) = (tables.name(label.key)?, tables.name(label.str)?);
        match key.as_str() {
            THREAD => labels.thread = text,
            STATE => labels.state = ThreadState::parse(text.as_str()),
            NODE => labels.node = text,
            RANK => labels.rank = text,
            _ => {}
        }
    }
    Ok(labels)
}

/// A number that must not be below zero, where a file states none.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
