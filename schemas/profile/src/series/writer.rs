//! Profiles into records. The tables of one segment, whose entries each have a number.

use std::collections::HashMap;
use std::hash::Hash;

use prost::encoding::encode_varint;
use thiserror::Error;

use super::limits::{FRAMES_MAX, LABELS_MAX, STACKS_MAX, STRINGS_MAX};
use super::record::{RecordHead, append};
use crate::labels::SampleLabels;
use crate::name::Name;
use crate::profile::{Profile, ValueType};
use crate::stack::Stack;

/// Why a profile has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriterError {
    /// The segment has no room for it, and the writer is of no more use: start a new segment. One
    /// that does not fit into an empty segment is too large.
    #[error("the tables of the segment are full")]
    Full,
    /// It measures something else than wall time.
    #[error("the profile is not one of wall time")]
    OtherType,
}

/// Makes the records of one segment.
#[derive(Debug)]
pub struct Writer {
    strings: Table<Name>,
    /// Function, file, line.
    frames: Table<[u32; 3]>,
    /// The number of the stack without its leaf, plus one, or 0; and the leaf.
    stacks: Table<[u32; 2]>,
    /// Thread, state, node, rank, process.
    labels: Table<[u32; 5]>,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            strings: Table::new(STRINGS_MAX),
            frames: Table::new(FRAMES_MAX),
            stacks: Table::new(STACKS_MAX),
            labels: Table::new(LABELS_MAX),
        }
    }
}

impl Writer {
    /// Appends the record of a profile to a segment. Comments are not kept, and `process` becomes a
    /// label of each sample unless it is empty.
    ///
    /// # Errors
    /// When it has no record; then the segment is as it was.
    pub fn append(
        &mut self,
        pid: u32,
        process: &Name,
        profile: &Profile,
        segment: &mut Vec<u8>,
    ) -> Result<(), WriterError> {
        if *profile.value_type() != ValueType::wall() {
            return Err(WriterError::OtherType);
        }

        let mut samples = Vec::new();
        let mut written = 0_u64;
        for sample in profile.samples() {
            let (labels, stack) = (self.labels(sample.labels, process)?, self.stack(sample.stack)?);
            for number in [labels.into(), stack.into(), sample.count] {
                encode_varint(number, &mut samples);
            }
            written += 1;
        }

        let (from, duration_ns) = (profile.started_at, profile.duration_ns);
        let mut covered = Vec::new();
        RecordHead { from, duration_ns, period: profile.period(), pid }.append_to(&mut covered);
        self.strings.take_new(&mut covered);
        self.frames.take_new(&mut covered);
        self.stacks.take_new(&mut covered);
        self.labels.take_new(&mut covered);
        encode_varint(written, &mut covered);
        covered.append(&mut samples);
        if append(segment, &covered) { Ok(()) } else { Err(WriterError::Full) }
    }

    fn labels(&mut self, of: &SampleLabels, process: &Name) -> Result<u32, WriterError> {
        let process = if process.as_str().is_empty() { &of.process } else { process };
        let texts = [&of.thread, &of.node, &of.rank, process];
        let [thread, node, rank, process] = texts.map(|name| self.string(name));
        let state = of.state.map_or(0, |state| state as u32 + 1);
        self.labels.number_of([thread?, state, node?, rank?, process?], numbers)
    }

    fn stack(&mut self, stack: &Stack) -> Result<u32, WriterError> {
        let mut outer = 0;
        for frame in stack.frames() {
            let (function, file) = (self.string(&frame.function)?, self.string(&frame.file)?);
            let frame = self.frames.number_of([function, file, frame.line], numbers)?;
            outer = self.stacks.number_of([outer, frame], numbers)? + 1;
        }
        // A stack has one frame at least.
        Ok(outer.saturating_sub(1))
    }

    fn string(&mut self, name: &Name) -> Result<u32, WriterError> {
        self.strings.number_of(name.clone(), |name, bytes| {
            encode_varint(name.as_str().len() as u64, bytes);
            bytes.extend_from_slice(name.as_str().as_bytes());
        })
    }
}

fn numbers<const N: usize>(entry: &[u32; N], bytes: &mut Vec<u8>) {
    entry.iter().for_each(|number| encode_varint(u64::from(*number), bytes));
}

/// Entries by their number, which is their place; and those that no record has yet, as bytes.
#[derive(Debug)]
struct Table<K> {
    known: HashMap<K, u32>,
    max: usize,
    new: u64,
    bytes: Vec<u8>,
}

impl<K: Eq + Hash> Table<K> {
    fn new(max: usize) -> Self {
        Self { known: HashMap::new(), max, new: 0, bytes: Vec::new() }
    }

    fn number_of(
        &mut self,
        entry: K,
        encode: impl Fn(&K, &mut Vec<u8>),
    ) -> Result<u32, WriterError> {
        if let Some(number) = self.known.get(&entry) {
            return Ok(*number);
        }
        let number = u32::try_from(self.known.len()).map_err(|_| WriterError::Full)?;
        if self.known.len() == self.max {
            return Err(WriterError::Full);
        }
        encode(&entry, &mut self.bytes);
        self.new += 1;
        self.known.insert(entry, number);
        Ok(number)
    }

    fn take_new(&mut self, record: &mut Vec<u8>) {
        encode_varint(std::mem::take(&mut self.new), record);
        record.append(&mut self.bytes);
    }
}
