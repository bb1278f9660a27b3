//! Writes a profile as a pprof file. Tables are numbered in the order of their first use, so a
//! profile has the same bytes on every machine.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::error::{PprofError, within};
use super::messages::{
    COUNT, DIFF_BASE, Function, Label, Line, Location, Mapping, NODE, PROCESS, ProfileMessage,
    RANK, SAMPLES, STATE, SampleMessage, THREAD, ValueTypeMessage,
};
use crate::difference::Difference;
use crate::labels::{SampleLabels, ThreadState};
use crate::limits::{DECODED_BYTES_MAX, ENCODED_BYTES_MAX};
use crate::profile::Profile;
use crate::stack::Frame;

/// The only mapping, which states that functions, files and lines are known: without it a viewer
/// looks for a program to find them in.
const MAPPING: Mapping =
    Mapping { id: 1, has_functions: true, has_filenames: true, has_line_numbers: true };

/// A pprof file of two values: `samples/count`, and what the profile measures.
///
/// # Errors
/// When the profile has more bytes than a file may have.
pub fn encode(profile: &Profile) -> Result<Vec<u8>, PprofError> {
    compressed(&message(profile))
}

/// The same of a difference, as `go tool pprof -diff_base` makes it: units per second, below zero
/// and labelled where they are the peer's, so that viewers state shares of the peer.
///
/// # Errors
/// When it has more bytes than a file may have.
pub fn encode_difference(difference: &Difference) -> Result<Vec<u8>, PprofError> {
    let mut tables = Tables::default();
    tables.text("");
    let value_type = &difference.value_type;
    let values = tables.value_type(value_type.kind.as_str(), value_type.unit.as_str());
    let of_peer = Label { key: tables.text(DIFF_BASE), str: tables.text("true") };

    let mut sample = Vec::new();
    for (stack, sides) in &difference.stacks {
        let frames = stack.frames().iter().rev();
        let location_id: Vec<u64> = frames.map(|frame| tables.location(frame)).collect();
        for (value, label) in [(sides.culprit, vec![]), (-sides.peer, vec![of_peer])] {
            #[expect(clippy::cast_possible_truncation, reason = "what is beyond is the largest")]
            let value = vec![value.round() as i64];
            sample.push(SampleMessage { location_id: location_id.clone(), value, label });
        }
    }
    sample.retain(|sample| sample.value != [0]);
    let second = ProfileMessage { duration_nanos: 1_000_000_000, period: 1, ..tables.file(values) };
    compressed(&ProfileMessage { sample_type: vec![values], sample, ..second })
}

fn compressed(message: &ProfileMessage) -> Result<Vec<u8>, PprofError> {
    let message = message.encode_to_vec();
    within("bytes of a profile", message.len(), DECODED_BYTES_MAX)?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let bytes = gzip.write_all(&message).and_then(|()| gzip.finish());
    let bytes = bytes.map_err(|error| PprofError::Gzip(error.to_string()))?;
    within("bytes of a profile, compressed", bytes.len(), ENCODED_BYTES_MAX)?;
    Ok(bytes)
}

pub(super) fn message(profile: &Profile) -> ProfileMessage {
    let mut tables = Tables::default();
    // The empty text has index 0 in every file.
    tables.text("");

    let counts = tables.value_type(SAMPLES, COUNT);
    let value_type = profile.value_type();
    let values = tables.value_type(value_type.kind.as_str(), value_type.unit.as_str());
    let comments = profile.comments().map(|comment| tables.text(comment.as_str())).collect();

    let mut samples = Vec::new();
    for sample in profile.samples() {
        let frames = sample.stack.frames().iter().rev();
        samples.push(SampleMessage {
            location_id: frames.map(|frame| tables.location(frame)).collect(),
            value: vec![signed(sample.count), signed(sample.count * profile.period())],
            label: tables.labels(sample.labels),
        });
    }

    ProfileMessage {
        sample_type: vec![counts, values],
        sample: samples,
        time_nanos: signed(profile.started_at.0),
        duration_nanos: signed(profile.duration_ns),
        period: signed(profile.period()),
        comment: comments,
        ..tables.file(values)
    }
}

/// The largest value of a file stands for all above it: 292 years.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Default)]
struct Tables<'a> {
    texts: Vec<Vec<u8>>,
    text_indexes: BTreeMap<String, i64>,
    functions: Vec<Function>,
    function_ids: BTreeMap<(i64, i64), u64>,
    locations: Vec<Location>,
    location_ids: BTreeMap<&'a Frame, u64>,
}

impl<'a> Tables<'a> {
    /// A file of what is in them, which measures this.
    fn file(self, values: ValueTypeMessage) -> ProfileMessage {
        ProfileMessage {
            mapping: vec![MAPPING],
            location: self.locations,
            function: self.functions,
            string_table: self.texts,
            period_type: Some(values),
            default_sample_type: values.kind,
            ..ProfileMessage::default()
        }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(index) = self.text_indexes.get(text) {
            return *index;
        }
        let index = signed(self.texts.len() as u64);
        self.texts.push(text.as_bytes().to_vec());
        self.text_indexes.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueTypeMessage {
        ValueTypeMessage { kind: self.text(kind), unit: self.text(unit) }
    }

    fn location(&mut self, frame: &'a Frame) -> u64 {
        if let Some(id) = self.location_ids.get(frame) {
            return *id;
        }
        let line = Line { function_id: self.function(frame), line: frame.line.into() };
        let id = self.locations.len() as u64 + 1;
        self.locations.push(Location { id, mapping_id: MAPPING.id, address: 0, line: vec![line] });
        self.location_ids.insert(frame, id);
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let name = self.text(frame.function.as_str());
        let filename = self.text(frame.file.as_str());
        let functions = &mut self.functions;
        *self.function_ids.entry((name, filename)).or_insert_with(|| {
            let id = functions.len() as u64 + 1;
            // With a system name that is the same, `go tool pprof` takes names for C++ and
            // removes what is in brackets: `<module>` would be unknown.
            functions.push(Function { id, name, system_name: 0, filename });
            id
        })
    }

    /// What is unknown has no label.
    fn labels(&mut self, labels: &SampleLabels) -> Vec<Label> {
        let texts = [
            (THREAD, labels.thread.as_str()),
            (STATE, labels.state.map_or("", ThreadState::as_str)),
            (NODE, labels.node.as_str()),
            (RANK, labels.rank.as_str()),
            (PROCESS, labels.process.as_str()),
        ];
        let known = texts.into_iter().filter(|(_, text)| !text.is_empty());
        known.map(|(key, text)| Label { key: self.text(key), str: self.text(text) }).collect()
    }
}
