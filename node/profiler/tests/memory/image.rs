//! A made-up process of CPython 3.11: one interpreter, one thread, functions that call each other.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use plimsoll_profiler::layout::table::V3_11;
use plimsoll_profiler::memory::{Address, Memory, ReadError, Span};
use plimsoll_profiler::reader::{Paths, Reader, Readings};

/// A change, and the number of the range before which it happens.
struct Due {
    range: usize,
    change: Box<dyn Fn(&Image)>,
}

/// Bytes by address; what was never written is not mapped.
#[derive(Default)]
pub(crate) struct Image {
    bytes: RefCell<BTreeMap<u64, u8>>,
    /// What happens to the bytes right before a range is read.
    changes: RefCell<Vec<Due>>,
    ranges_read: Cell<usize>,
    pub(crate) calls: Cell<usize>,
}

pub(crate) const RUNTIME: u64 = 0x10_0000;
pub(crate) const INTERPRETER: u64 = 0x20_0000;
pub(crate) const THREAD: u64 = 0x30_0000;
pub(crate) const RECORD: u64 = 0x40_0000;
pub(crate) const CHUNK: u64 = 0x50_0000;
pub(crate) const CODES: u64 = 0x60_0000;

/// A call in progress.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) function: &'a str,
    /// Byte offset of its instruction; each has 10 lines of one instruction each.
    pub(crate) offset: i64,
}

impl Image {
    /// A process whose thread has these calls, root first.
    pub(crate) fn of(calls: &[Call<'_>]) -> Self {
        let image = Self::default();
        image.word(RUNTIME + 40, INTERPRETER);
        image.fill(INTERPRETER, 860);
        image.fill(RUNTIME + 360, 32);
        image.word(INTERPRETER + 16, THREAD);
        image.fill(THREAD, 400);
        image.word(THREAD + 16, INTERPRETER);
        image.word(THREAD + 56, RECORD);
        image.word(THREAD + 160, 77);
        image.word(THREAD + 296, CHUNK);
        image.word(THREAD + 304, CHUNK + 24 + 128 * calls.len() as u64);
        image.word(THREAD + 312, CHUNK + 16_384);
        image.fill(RECORD, 24);
        image.fill(CHUNK, 16_384);
        for (depth, call) in calls.iter().enumerate() {
            image.push(depth as u64, *call, depth + 1 < calls.len());
        }
        image.word(RECORD + 8, if calls.is_empty() { 0 } else { frame(calls.len() as u64 - 1) });
        image
    }

    /// Writes the frame of a call; one that waits for its callee has saved its stack.
    pub(crate) fn push(&self, depth: u64, call: Call<'_>, waits: bool) {
        let (at, code) = (frame(depth), code(call.function));
        self.code(call.function);
        self.word(at + 32, code);
        self.word(at + 48, if depth == 0 { 0 } else { frame(depth - 1) });
        self.word(at + 56, (code + 184).wrapping_add_signed(call.offset));
        self.word(at + 64, if waits { 3 } else { 0xffff_ffff });
        // C called the first one.
        self.put(at + 68, &[u8::from(depth == 0), 0]);
    }

    fn code(&self, function: &str) {
        let at = code(function);
        self.fill(at, 184);
        self.word(at + 16, 10);
        self.word(at + 72, 100);
        for (field, place, text) in [(112, 0x400, "made.py"), (128, 0x500, function)] {
            self.word(at + field, at + place);
            self.text(at + place, text);
        }
        self.word(at + 136, at + 0x800);
        self.fill(at + 0x800, 32);
        // Each code unit is one line below the one before: form 11, one unit, two columns.
        let table = [0xd8, 0, 0].repeat(10);
        self.word(at + 0x800 + 16, table.len() as u64);
        self.put(at + 0x800 + 32, &table);
    }

    /// An ASCII string.
    pub(crate) fn text(&self, at: u64, text: &str) {
        self.fill(at, 48);
        self.word(at + 16, text.len() as u64);
        self.word(at + 32, 1 << 2 | 1 << 5 | 1 << 6);
        self.put(at + 48, text.as_bytes());
    }

    pub(crate) fn word(&self, at: u64, value: u64) {
        self.put(at, &value.to_ne_bytes());
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        let placed = (at..).zip(bytes.iter().copied());
        self.bytes.borrow_mut().extend(placed);
    }

    fn fill(&self, at: u64, bytes: usize) {
        self.put(at, &vec![0; bytes]);
    }

    pub(crate) fn unmap(&self, at: u64, bytes: u64) {
        self.bytes.borrow_mut().retain(|address, _| !(at..at + bytes).contains(address));
    }

    /// Lets `change` happen right before the range of this number is read, counted from now.
    pub(crate) fn before_range(&self, number: usize, change: impl Fn(&Self) + 'static) {
        let range = self.ranges_read.get() + number;
        self.changes.borrow_mut().push(Due { range, change: Box::new(change) });
    }

    pub(crate) fn ranges_read(&self) -> usize {
        self.ranges_read.get()
    }
}

impl Memory for &Image {
    fn read(&self, spans: &[Span], into: &mut [u8]) -> Result<(), ReadError> {
        self.calls.set(self.calls.get() + usize::from(!spans.is_empty()));
        let mut rest = into;
        for span in spans {
            let changes = std::mem::take(&mut *self.changes.borrow_mut());
            let (now, later): (Vec<_>, Vec<_>) =
                changes.into_iter().partition(|due| due.range == self.ranges_read.get());
            now.iter().for_each(|due| (due.change)(self));
            self.changes.borrow_mut().extend(later);
            self.ranges_read.set(self.ranges_read.get() + 1);

            let (here, behind) = rest.split_at_mut(span.bytes);
            rest = behind;
            let bytes = self.bytes.borrow();
            for (offset, byte) in (0..).zip(here) {
                let at = span.start.0.wrapping_add(offset);
                *byte = *bytes.get(&at).ok_or(ReadError::Unmapped)?;
            }
        }
        Ok(())
    }
}

/// Where the frame of this depth is.
pub(crate) fn frame(depth: u64) -> u64 {
    CHUNK + 24 + 128 * depth
}

/// Where the code object of a function is, by the last character of its name.
pub(crate) fn code(function: &str) -> u64 {
    CODES + 0x1000 * u64::from(*function.as_bytes().last().expect("functions have names"))
}

pub(crate) struct Session<'a>(Reader<&'a Image>);

impl<'a> Session<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        Self(Reader::new(image, V3_11, Address(RUNTIME), Paths::Full))
    }

    pub(crate) fn sample(&mut self) -> Readings {
        self.sample_if(|_| false)
    }

    /// Of the threads that by `stands` have not run, what is known.
    pub(crate) fn sample_if(&mut self, stands: impl FnMut(u64) -> bool) -> Readings {
        self.0.sample(stands).expect("the process is there")
    }

    /// Function and line of each frame, root first; `None` of a torn stack.
    pub(crate) fn stack(&mut self) -> Option<Vec<(String, u32)>> {
        let readings = self.sample();
        assert_eq!(readings.threads.len(), 1);
        let frames = readings.threads[0].stack.as_ref()?.iter();
        Some(frames.map(|frame| (frame.function.to_string(), frame.line)).collect())
    }
}
