//! The code of one process: which file an address belongs to, what is below a frame, and names.
//!
//! A file is read when the first stack has it, since most libraries of a process are in none. What
//! is kept is bounded: beyond it a file has frames by frame pointers, and one name.

use std::collections::HashMap;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use framehop::{CacheNative, Error, MayAllocateDuringUnwind, Module, Unwinder, UnwinderNative};
use plimsoll_clock::Deadline;
use plimsoll_profile::{Frame, Name};

use super::registers::Start;
use super::symbols::Symbols;
use super::tables::{self, Tables};
use crate::limits::{
    CODE_TABLES_BYTES_MAX, FRAMES_KEPT_MAX, NATIVE_FRAMES_MAX, STACK_DUMP_BYTES, VDSO_BYTES_MAX,
};
use crate::memory::process::ProcessMemory;
use crate::memory::{Memory, Span};
use crate::order::ProcessId;
use crate::target::file::opened;
use crate::target::interpreter::is_what_runs;
use crate::target::maps::{MappedFile, mapped_code};

/// All code that a process has mapped, and what is known of it.
pub(super) struct Code {
    pid: ProcessId,
    /// The path of the program's own file.
    program: String,
    memory: ProcessMemory,
    mapped: Vec<MappedFile>,
    mapped_until: Deadline,
    /// By the start of the mapping.
    images: HashMap<u64, Image>,
    images_bytes: usize,
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    rules: CacheNative<MayAllocateDuringUnwind>,
    frames: HashMap<u64, Arc<Frame>>,
}

/// One mapping whose file was read.
struct Image {
    name: Name,
    /// From an address in the file to one in memory.
    shift: u64,
    symbols: Symbols,
    /// What its tables take of memory.
    bytes: usize,
}

/// The frames of one sample.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) root_first: Vec<Arc<Frame>>,
    /// Frames next to the root are absent: they lie deeper than what was copied of the stack.
    pub(super) is_cut: bool,
}

/// Addresses of one sample, leaf first.
struct Addresses {
    leaf_first: Vec<u64>,
    is_cut: bool,
}

/// Time for which the list of mappings is not read again.
const MAPPED_FOR: Duration = Duration::from_secs(1);
const VDSO: &str = "[vdso]";

impl Code {
    pub(super) fn new(pid: ProcessId) -> Self {
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        Self {
            pid,
            program: program.to_string_lossy().into_owned(),
            memory: ProcessMemory::new(pid),
            mapped: Vec::new(),
            mapped_until: Deadline::within(Duration::ZERO),
            images: HashMap::new(),
            images_bytes: 0,
            unwinder: UnwinderNative::new(),
            rules: CacheNative::new(),
            frames: HashMap::new(),
        }
    }

    /// The stack of a sample. Each file that it leads into is read first.
    pub(super) fn walk(&mut self, start: &Start, stack: &[u8]) -> Walk {
        loop {
            // The tables are the process's, and may state anything: a sum that has no room is one
            // stack without callers, not the end of the capture.
            let unwound = catch_unwind(AssertUnwindSafe(|| self.addresses(start, stack)));
            let leaf = || Addresses { leaf_first: vec![start.pc], is_cut: false };
            let Addresses { leaf_first, is_cut } = unwound.unwrap_or_else(|_| leaf());
            // Only the leaf-most: without its tables what follows may be no frames at all.
            let unread = leaf_first.iter().find_map(|at| {
                let mapped = self.mapping(*at)?;
                (!self.images.contains_key(&mapped.start.0)).then(|| mapped.clone())
            });
            match unread {
                Some(mapped) => self.read(&mapped),
                None => {
                    let root_first = leaf_first.iter().rev().map(|at| self.frame(*at)).collect();
                    return Walk { root_first, is_cut };
                }
            }
        }
    }

    fn addresses(&mut self, start: &Start, stack: &[u8]) -> Addresses {
        let end = start.stack_top.saturating_add(stack.len() as u64);
        let is_full = stack.len() == STACK_DUMP_BYTES as usize;
        let mut word = |at: u64| {
            let offset = at.checked_sub(start.stack_top).and_then(|n| usize::try_from(n).ok());
            let bytes = offset.and_then(|offset| stack.get(offset..)?.first_chunk());
            bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or(())
        };

        let Self { unwinder, rules, .. } = self;
        let mut frames = unwinder.iter_frames(start.pc, start.registers, rules, &mut word);
        let mut leaf_first = Vec::new();
        let is_cut = loop {
            if leaf_first.len() == NATIVE_FRAMES_MAX {
                break true;
            }
            match frames.next() {
                Ok(Some(frame)) => leaf_first.push(frame.address_for_lookup()),
                Ok(None) => break false,
                Err(Error::CouldNotReadStack(at)) => break is_full && at > end.saturating_sub(8),
                Err(_) => break false,
            }
        };
        Addresses { leaf_first, is_cut }
    }

    fn frame(&mut self, at: u64) -> Arc<Frame> {
        if let Some(frame) = self.frames.get(&at) {
            return frame.clone();
        }
        let frame = self.named(at);
        if self.frames.len() >= FRAMES_KEPT_MAX {
            self.frames.clear();
        }
        self.frames.insert(at, frame.clone());
        frame
    }

    fn named(&self, at: u64) -> Arc<Frame> {
        let Some(mapped) = self.mapping(at) else { return Frame::marker("[unknown]") };
        let Some(image) = self.images.get(&mapped.start.0) else {
            return Frame::marker("[unknown]");
        };
        let file = image.name.as_str();
        match image.symbols.name(at.wrapping_sub(image.shift)) {
            Some(function) => Frame::new(&function, file, 0),
            None if file.is_empty() => Frame::marker("[code of no file]"),
            None => Frame::new(&format!("[{file}]"), file, 0),
        }
    }

    fn mapping(&self, at: u64) -> Option<&MappedFile> {
        let after = self.mapped.partition_point(|mapped| mapped.start.0 <= at);
        self.mapped[..after].last().filter(|mapped| at < mapped.end.0)
    }

    /// Reads the list of mappings again if it is not new; what is mapped no more is forgotten.
    pub(super) fn refresh(&mut self) {
        if !self.mapped_until.has_passed() {
            return;
        }
        self.mapped_until = Deadline::within(MAPPED_FOR);
        let Ok(maps) = File::open(format!("/proc/{}/maps", self.pid)) else { return };
        let now = mapped_code(maps);
        if now == self.mapped {
            return;
        }

        self.frames.clear();
        let before = std::mem::replace(&mut self.mapped, now);
        for gone in before.iter().filter(|mapped| !self.mapped.contains(mapped)) {
            if let Some(image) = self.images.remove(&gone.start.0) {
                self.images_bytes -= image.bytes;
                self.unwinder.remove_module(gone.start.0);
            }
        }
    }

    fn read(&mut self, mapped: &MappedFile) {
        let tables = self.tables(mapped).unwrap_or_default();
        let is_room = self.images_bytes + tables.bytes() <= CODE_TABLES_BYTES_MAX;
        let tables = if is_room { tables } else { Tables::default() };
        let bytes = tables.bytes();
        self.images_bytes += bytes;

        // Tables that place the code above where it is are damaged.
        let shift = mapped.start.0.checked_sub(tables.address);
        let unwind = if shift.is_some() { tables.unwind } else { Default::default() };
        let (range, shift) = (mapped.start.0..mapped.end.0, shift.unwrap_or(0));
        self.unwinder.add_module(Module::new(mapped.name().to_owned(), range, shift, unwind));
        let (name, symbols) = (Name::new(mapped.name()), tables.symbols);
        self.images.insert(mapped.start.0, Image { name, shift, symbols, bytes });
    }

    /// `None` of a file that may not be opened, is not what runs, or is no program.
    fn tables(&self, mapped: &MappedFile) -> Option<Tables> {
        if mapped.path == VDSO {
            let bytes = mapped.end.since(mapped.start)?.min(VDSO_BYTES_MAX);
            let image = self.memory.read_span(Span { start: mapped.start, bytes }).ok()?;
            return Tables::read(&image[..], 0).ok();
        }
        if !mapped.path.starts_with('/') {
            return None;
        }
        let file = opened(self.pid, mapped, mapped.path == self.program).ok()?;
        if !is_what_runs(&file, mapped, &self.memory) {
            return None;
        }
        tables::of_file(self.pid, mapped.plain_path(), file, mapped.offset).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;
    use crate::native::registers::{self, MASK};

    #[test]
    fn any_registers_and_stack_have_bounded_frames() {
        let own = ProcessId(std::process::id().cast_signed());
        let code = RefCell::new(Code::new(own));
        code.borrow_mut().refresh();
        let of_code = code.borrow().mapped.iter().map(|mapped| mapped.start.0).collect::<Vec<_>>();
        let word = || {
            let near = (prop::sample::select(of_code.clone()), 0_u64..100_000);
            prop_oneof![near.prop_map(|(start, offset)| start + offset), 0_u64..64, any::<u64>()]
        };

        let registers = prop::collection::vec(word(), MASK.count_ones() as usize);
        proptest!(|(values in registers, stack in prop::collection::vec(word(), 0..64))| {
            let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
            let start = registers::start(&values).unwrap();
            let walk = code.borrow_mut().walk(&start, &stack);
            prop_assert!((1..=NATIVE_FRAMES_MAX).contains(&walk.root_first.len()));
            prop_assert!(!walk.is_cut || walk.root_first.len() == NATIVE_FRAMES_MAX);
        });
    }
}
