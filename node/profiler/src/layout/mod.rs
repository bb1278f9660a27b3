//! Where the fields of CPython's structures lie, as data: one value of [`Layout`] for each version.
//!
//! [`table`] has the versions that publish nothing, [`published`] reads what later ones publish
//! about themselves. Constants are what no version of them changed. Offsets hold for every 64-bit
//! Linux: no structure before them depends on the processor.
//!
//! DESIGN N92.

pub mod published;
pub mod table;

use std::fmt;

/// Offsets that a stack needs and that versions differ in, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In the runtime: the newest interpreter.
    pub interpreters_head: usize,
    pub gil: GilPlace,
    pub interpreter_next: usize,
    pub threads_head: usize,
    /// In an interpreter: not 0 while the garbage collector runs.
    pub collecting: usize,
    pub current_frame: CurrentFrame,
    pub thread_number: ThreadNumber,
    pub frame_code: usize,
    pub frame_previous: usize,
    pub frames: Frames,
    pub code: CodePlaces,
    pub first_line: usize,
    pub instructions: Instructions,
    /// Where the characters of a string start.
    pub ascii_text: usize,
    pub other_text: usize,
}

/// Where the global interpreter lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GilPlace {
    /// One for all interpreters, part of the runtime.
    InRuntime(usize),
    /// Each interpreter points to its own.
    ByInterpreter(usize),
}

/// Where a thread refers to its running frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentFrame {
    InThread(usize),
    /// The thread points to a record on the C stack, which points to the frame.
    ByRecord {
        record: usize,
        frame: usize,
    },
}

/// Where a thread's number in the kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadNumber {
    InThread(usize),
    /// The thread points to the C library's record, which has it at an offset that the library
    /// chooses: it is found in the record of the main thread, to which the runtime points.
    ByHandle {
        handle: usize,
        main: usize,
        number: usize,
    },
}

/// Where frames are, and what shows which of them run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Objects of their own; the byte at `state` has the value `runs` as long as the function runs,
    /// whatever it calls. The instruction is an `int` that counts units of some bytes.
    Objects { state: usize, runs: u8, instruction: usize, unit: i64 },
    /// On the thread's stack, whose chunk in use is at `chunk`; its top and its limit are the next
    /// two words. The `int` with a frame's depth of stack is -1 while the frame runs.
    ByDepth { chunk: usize, entry: EntryMark },
    /// On such a stack. A frame's stack pointer is saved and stays; a frame that waits left the
    /// function that it called right there, or a generator right below, which has its frame at
    /// `generator`.
    ByPointer { chunk: usize, owner: usize, generator: usize },
}

/// What shows that C called a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryMark {
    /// A flag of the frame.
    Flag(usize),
    /// A frame in between that belongs to the C stack: its owner, at this offset, is
    /// [`SHIM_OWNER`] or more.
    Owner(usize),
}

/// Where the parts of a code object are, and how its table of lines is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePlaces {
    pub file: usize,
    pub name: usize,
    /// The last field that is read.
    pub lines: usize,
    pub table: LineTable,
}

/// How a table of lines is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineTable {
    /// 3.9: steps of address and line.
    Steps,
    /// 3.10: lengths of ranges, each with its step to the line.
    Ranges,
    /// 3.11 and later: entries of some bytes each.
    Locations,
}

/// Where the instructions of a code object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// In the object, from this offset on; their number in units of 2 bytes is its length.
    Inside(usize),
    /// In the object of bytes to which this field points.
    Bytes(usize),
}

/// From this owner on, a frame belongs to the interpreter and is no function's.
pub const SHIM_OWNER: u8 = 3;

/// Of a thread's state.
pub const THREAD_PREVIOUS: usize = 0;
pub const THREAD_NEXT: usize = 8;
pub const THREAD_INTERPRETER: usize = 16;

/// Of a frame on a thread's stack. At the depth 3.14 has the stack pointer.
pub const FRAME_FUNCTION: usize = 16;
pub const FRAME_INSTRUCTION: usize = 56;
pub const FRAME_DEPTH: usize = 64;

/// Of the lock: the thread that holds it or was the last to, whether it is held, and how often its
/// holder changed.
pub const GIL_HOLDER: usize = 8;
pub const GIL_LOCKED: usize = 16;
pub const GIL_SWITCHES: usize = 24;
pub const GIL_BYTES: usize = 32;

/// Of a code object since 3.11.
pub const CODE_PLACES: CodePlaces =
    CodePlaces { file: 112, name: 128, lines: 136, table: LineTable::Locations };

/// The length of an object of variable size: bytes, a string, or code in units of 2 bytes.
pub const LENGTH: usize = 16;
/// What bytes hold, and the state of a string, lie this far behind their length.
pub const BYTES_BEHIND_LENGTH: usize = 16;
pub const STATE_BEHIND_LENGTH: usize = 16;

impl Layout {
    /// Where a thread's state leads to its running frame.
    pub fn current_in_thread(&self) -> usize {
        let (CurrentFrame::InThread(offset) | CurrentFrame::ByRecord { record: offset, .. }) =
            self.current_frame;
        offset
    }

    /// The field that has a thread's number or leads to it.
    pub fn thread_number_field(&self) -> usize {
        let (ThreadNumber::InThread(field) | ThreadNumber::ByHandle { handle: field, .. }) =
            self.thread_number;
        field
    }

    /// Where a thread's state has its stack, if frames are on one.
    pub fn stack_chunk(&self) -> Option<usize> {
        match self.frames {
            Frames::Objects { .. } => None,
            Frames::ByDepth { chunk, .. } | Frames::ByPointer { chunk, .. } => Some(chunk),
        }
    }

    /// How much of a thread's state is read: up to its last field of interest.
    pub fn thread_bytes(&self) -> usize {
        let stack = self.stack_chunk().map_or(0, |chunk| chunk + 16);
        self.current_in_thread().max(self.thread_number_field()).max(stack) + 8
    }

    /// How much of a frame is read.
    pub fn frame_bytes(&self) -> usize {
        match self.frames {
            Frames::Objects { state, .. } => state + 1,
            Frames::ByDepth { .. } => FRAME_DEPTH + 8,
            Frames::ByPointer { .. } => FRAME_DEPTH + 16,
        }
    }
}

/// A version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
    /// `None` when only the name of a file states the version.
    pub micro: Option<u8>,
}

impl Version {
    /// From `PY_VERSION_HEX`: a byte each, the last one is the release level.
    pub fn from_hex(hex: u64) -> Self {
        let [_, micro, minor, major, ..] = hex.to_le_bytes();
        Self { major, minor, micro: Some(micro) }
    }

    /// From a file's name, such as `libpython3.10.so.1.0` or `python3.9`.
    pub fn of_file(name: &str) -> Option<Self> {
        let (_, after) = name.rsplit_once("python")?;
        let (major, rest) = after.split_once('.')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(Self { major: major.parse().ok()?, minor: rest[..digits].parse().ok()?, micro: None })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.micro.map_or(Ok(()), |micro| write!(f, ".{micro}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_number_and_name() {
        assert_eq!(Version::from_hex(0x030b_07f0).to_string(), "3.11.7");
        let table = [
            ("libpython3.10.so.1.0", Some("3.10")),
            ("libpython3.6m.so.1.0", Some("3.6")),
            ("python3.9", Some("3.9")),
            ("python2.7-dbg", Some("2.7")),
            ("python3", None),
            ("bash", None),
            ("python.", None),
            ("python999.1", None),
        ];
        for (name, expected) in table {
            let found = Version::of_file(name).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }
}
