//! Code objects: what their functions are called, and which line an instruction is on.
//!
//! One is read once and kept by its address. Each sample compares all that was read of it, in one
//! call for all code objects, because its memory may hold another one by now, with equal addresses
//! inside.
//!
//! DESIGN N91.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_profile::{Frame, Name};

use super::frame::Link;
use super::lines::line_at;
use super::parts::{Parts, first_field};
use crate::layout::{BYTES_BEHIND_LENGTH, Instructions, Layout, LineTable};
use crate::limits::{CODE_BYTES_MAX, CODES_MAX, FRAMES_KEPT_MAX};
use crate::memory::{Address, Memory, ReadError, Span, half, mapped, word};

/// Code objects of one process.
#[derive(Debug, Default)]
pub(super) struct Codes {
    known: BTreeMap<Address, Code>,
    bytes: usize,
    /// Of all that are known.
    frames: usize,
    paths: Paths,
}

/// How much of a source file's path a frame has. A whole path may name a person or a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// The file and the folder that it is in.
    #[default]
    Short,
    Full,
}

/// Counts what a reader does, so that it can state what came before what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step(pub(super) u64);

#[derive(Debug)]
struct Code {
    parts: Parts,
    bytes: Vec<u8>,
    function: Name,
    file: Name,
    first_line: u32,
    lines: LineTable,
    /// Of its instructions, in bytes.
    end: i64,
    /// By the offset of the instruction; `None` is that of an unknown one.
    frames: BTreeMap<Option<i64>, Arc<Frame>>,
    read_at: Step,
    checked_at: Step,
}

impl Codes {
    pub(super) fn new(paths: Paths) -> Self {
        Self { paths, ..Self::default() }
    }

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
        let is_full = self.bytes > CODE_BYTES_MAX || self.frames >= FRAMES_KEPT_MAX;
        if is_full || self.known.len() + codes.len() > CODES_MAX {
            *self = Self::new(self.paths);
        }

        let known: Vec<Address> =
            codes.iter().copied().filter(|code| self.known.contains_key(code)).collect();
        if !self.compare(memory, &known, now)? {
            // One of them went, so each is read anew.
            known.iter().for_each(|code| self.forget(*code));
        }

        for &at in codes.iter().take(CODES_MAX) {
            if self.known.contains_key(&at) {
                continue;
            }
            if let Some(code) = mapped(Code::read(memory, layout, at, self.paths, now))?.flatten() {
                self.bytes += code.bytes.len();
                self.known.insert(at, code);
            }
        }
        Ok(())
    }

    /// Whether `code` was read after `step` for the first time.
    pub(super) fn is_new_since(&self, code: Address, step: Step) -> bool {
        self.known.get(&code).is_some_and(|code| code.read_at > step)
    }

    /// The function of a frame, and its line if that is known; `None` when the instruction is none
    /// of this code object: it is not the frame's.
    pub(super) fn frame(
        &mut self,
        link: &Link,
        since: Step,
        is_line_known: bool,
    ) -> Option<Arc<Frame>> {
        let code = self.known.get_mut(&link.code)?;
        // A frame that has not started stands before its first instruction.
        if code.checked_at <= since || link.offset < -2 || link.offset >= code.end {
            return None;
        }
        let offset = is_line_known.then_some(link.offset);
        if let Some(frame) = code.frames.get(&offset) {
            return Some(frame.clone());
        }

        let [.., table] = code.parts.split(&code.bytes);
        let table = table.get(BYTES_BEHIND_LENGTH..).unwrap_or_default();
        let line = offset.and_then(|offset| line_at(code.lines, table, code.first_line, offset));
        let (function, file) = (code.function.clone(), code.file.clone());
        let frame = Arc::new(Frame { function, file, line: line.unwrap_or(0) });
        if self.frames < FRAMES_KEPT_MAX {
            self.frames += 1;
            code.frames.insert(offset, frame.clone());
        }
        Some(frame)
    }

    /// Compares all in one call, and forgets what changed; false when something cannot be read.
    fn compare(
        &mut self,
        memory: &impl Memory,
        codes: &[Address],
        now: Step,
    ) -> Result<bool, ReadError> {
        let known = || codes.iter().filter_map(|code| self.known.get(code));
        let spans: Vec<Span> = known().flat_map(|code| code.parts.spans).collect();
        let mut bytes = vec![0; spans.iter().map(|span| span.bytes).sum()];
        if mapped(memory.read(&spans, &mut bytes))?.is_none() {
            return Ok(false);
        }

        let mut rest = &bytes[..];
        for at in codes {
            let Some(code) = self.known.get_mut(at) else { continue };
            let (here, behind) = rest.split_at(code.bytes.len());
            rest = behind;
            if code.bytes == here {
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
            self.frames -= code.frames.len();
        }
    }
}

impl Code {
    /// Reads the object at `at`; `None` when it is none, or changes meanwhile.
    fn read(
        memory: &impl Memory,
        layout: &Layout,
        at: Address,
        paths: Paths,
        now: Step,
    ) -> Result<Option<Self>, ReadError> {
        let Some(parts) = Parts::find(memory, layout, at)? else { return Ok(None) };
        let mut bytes = vec![0; parts.spans.iter().map(|span| span.bytes).sum()];
        memory.read(&parts.spans, &mut bytes)?;

        let [units, fields, name, file, _] = parts.split(&bytes);
        let function = parts.name.text(name);
        let file = parts.file.text(file);
        let (Some(function), Some(file)) = (function, file) else { return Ok(None) };
        if !parts.are_of(layout, &bytes) {
            return Ok(None);
        }

        let unit_bytes = match layout.instructions {
            Instructions::Inside(_) => 2,
            Instructions::Bytes(_) => 1,
        };
        let end = i64::try_from(word(units, 0)).unwrap_or(i64::MAX).saturating_mul(unit_bytes);
        let first_line = half(fields, layout.first_line - first_field(layout));
        Ok(Some(Self {
            parts,
            bytes,
            function: function.into(),
            file: shown(&file, paths).into(),
            first_line,
            lines: layout.code.table,
            end,
            frames: BTreeMap::new(),
            read_at: now,
            checked_at: now,
        }))
    }
}

fn shown(path: &str, paths: Paths) -> &str {
    /// Parts of a path that remain of it.
    const PATH_PARTS: usize = 2;
    match path.rmatch_indices('/').nth(PATH_PARTS - 1) {
        Some((at, _)) if paths == Paths::Short => &path[at + 1..],
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_to_its_last_two_parts_unless_all_is_wanted() {
        for (path, short) in [
            ("/data/ann/train/main.py", "train/main.py"),
            ("train/main.py", "train/main.py"),
            ("/main.py", "/main.py"),
            ("main.py", "main.py"),
            ("<string>", "<string>"),
            ("", ""),
            ("/ü/ö/ä.py", "ö/ä.py"),
        ] {
            assert_eq!(shown(path, Paths::Short), short);
            assert_eq!(shown(path, Paths::Full), path);
        }
    }
}
