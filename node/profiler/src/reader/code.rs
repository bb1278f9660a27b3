//! Code objects: what their functions are called, and which line an instruction is on.
//!
//! One is read once and kept by its address. Each sample compares all that was read of it, in one
//! call for all code objects, because its memory may hold another one by now, with equal addresses
//! inside.
//!
//! DESIGN N91.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::frame::Link;
use super::lines::line_at;
use super::parts::Parts;
use crate::layout::{CodeLayout, Layout};
use crate::limits::{CODE_BYTES_MAX, CODES_MAX};
use crate::memory::{Address, Memory, ReadError, Span, half, word};
use crate::output::{Frame, FrameRef, FrameTable};

/// Code objects of one process.
#[derive(Debug, Default)]
pub(super) struct Codes {
    known: HashMap<Address, Code>,
    bytes: usize,
}

/// Counts what a reader does, so that it can state what came before what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step(pub(super) u64);

/// Where the names of a frame come from, and where they go.
pub(super) struct Names<'a> {
    pub(super) layout: &'a CodeLayout,
    pub(super) frames: &'a mut FrameTable,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    Frame(FrameRef),
    /// The table of frames is full.
    TableFull,
    /// The instruction is none of this code object: it is not the frame's.
    NotIts,
}

#[derive(Debug)]
struct Code {
    parts: Parts,
    bytes: Vec<u8>,
    function: Arc<str>,
    file: Arc<str>,
    first_line: u32,
    units: u64,
    /// By the offset of the instruction; `None` is that of an unknown one.
    frames: HashMap<Option<i64>, FrameRef>,
    read_at: Step,
    checked_at: Step,
}

impl Codes {
    /// Brings each of `codes` up to date with the target; one that cannot be read is unknown
    /// afterwards.
    ///
    /// # Errors
    /// When the process has ended, or its memory may not be read.
    pub(super) fn check(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        codes: &BTreeSet<Address>,
        now: Step,
    ) -> Result<(), ReadError> {
        if self.known.len() + codes.len() > CODES_MAX || self.bytes > CODE_BYTES_MAX {
            *self = Self::default();
        }

        let known: Vec<Address> =
            codes.iter().copied().filter(|code| self.known.contains_key(code)).collect();
        if !self.compare(memory, layout, &known, now)? {
            // One of them went, so each is read anew.
            known.iter().for_each(|code| self.forget(*code));
        }

        for &at in codes.iter().take(CODES_MAX) {
            if self.known.contains_key(&at) {
                continue;
            }
            match Code::read(memory, layout, at, now) {
                Err(ReadError::Unmapped) | Ok(None) => {}
                Ok(Some(code)) => {
                    self.bytes += code.bytes.len();
                    self.known.insert(at, code);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether `code` was read after `step` for the first time.
    pub(super) fn is_new_since(&self, code: Address, step: Step) -> bool {
        self.known.get(&code).is_some_and(|code| code.read_at > step)
    }

    /// The function of a frame, and its line if that is known.
    pub(super) fn frame(
        &mut self,
        link: &Link,
        since: Step,
        is_line_known: bool,
        names: &mut Names<'_>,
    ) -> Named {
        let Some(code) = self.known.get_mut(&link.code) else { return Named::NotIts };
        let end = i64::try_from(code.units).unwrap_or(i64::MAX).saturating_mul(2);
        // A frame that has not started stands before its first instruction.
        if code.checked_at <= since || link.offset < -2 || link.offset >= end {
            return Named::NotIts;
        }
        let offset = is_line_known.then_some(link.offset);
        if let Some(frame) = code.frames.get(&offset) {
            return Named::Frame(*frame);
        }

        let table = code.table(names.layout);
        let line = offset.and_then(|offset| line_at(table, code.first_line, offset));
        let named = names.frames.row(Frame {
            function: Arc::clone(&code.function),
            file: Arc::clone(&code.file),
            first_line: code.first_line,
            line: line.unwrap_or(0),
        });
        let Some(frame) = named else { return Named::TableFull };
        code.frames.insert(offset, frame);
        Named::Frame(frame)
    }

    /// Compares all in one call, and forgets what changed; false when something cannot be read.
    fn compare(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        codes: &[Address],
        now: Step,
    ) -> Result<bool, ReadError> {
        let known = || codes.iter().filter_map(|code| self.known.get(code));
        let spans: Vec<Span> = known().flat_map(|code| code.parts.spans()).collect();
        let mut bytes = vec![0; spans.iter().map(|span| span.bytes).sum()];
        match memory.read(&spans, &mut bytes) {
            Err(ReadError::Unmapped) => return Ok(false),
            read => read?,
        }

        let mut rest = &bytes[..];
        for at in codes {
            let Some(code) = self.known.get_mut(at) else { continue };
            let (here, behind) = rest.split_at(code.bytes.len());
            rest = behind;
            if code.parts.is_unchanged(layout, &code.bytes, here) {
                code.checked_at = now;
            } else {
                self.forget(*at);
            }
        }
        Ok(true)
    }

    fn forget(&mut self, code: Address) {
        if let Some(code) = self.known.remove(&code) {
            self.bytes -= code.bytes.len();
        }
    }
}

impl Code {
    /// Reads the object at `at`; `None` when it is none, or changes meanwhile.
    fn read(
        memory: &impl Memory,
        layout: &Layout,
        at: Address,
        now: Step,
    ) -> Result<Option<Self>, ReadError> {
        let Some(parts) = Parts::find(memory, layout, at)? else { return Ok(None) };
        let mut bytes = vec![0; parts.bytes()];
        memory.read(&parts.spans(), &mut bytes)?;

        let [fields, name, file, _] = parts.split(&bytes);
        let function = parts.name.text(&layout.text, name);
        let file = parts.file.text(&layout.text, file);
        let (Some(function), Some(file)) = (function, file) else { return Ok(None) };
        if !parts.are_of(layout, &bytes) {
            return Ok(None);
        }

        let first_line = half(fields, layout.code.first_line);
        let units = word(fields, layout.code.units);
        Ok(Some(Self {
            parts,
            bytes,
            function: function.into(),
            file: file.into(),
            first_line,
            units,
            frames: HashMap::new(),
            read_at: now,
            checked_at: now,
        }))
    }

    fn table(&self, layout: &CodeLayout) -> &[u8] {
        let [.., table] = self.parts.split(&self.bytes);
        table.get(layout.table_data.saturating_sub(layout.table_length)..).unwrap_or_default()
    }
}
