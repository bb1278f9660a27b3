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
    pub current_frame: CurrentFrame,
    pub native_id: usize,
    /// The chunk of stack in use; its top and its limit are the next two words.
    pub stack_chunk: usize,
    pub frame_code: usize,
    pub frame_previous: usize,
    pub entry: EntryMark,
    pub first_line: usize,
    /// Where the instructions start; nothing of a code object behind it is read.
    pub instructions: usize,
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

/// What shows that C called a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryMark {
    /// A flag of the frame.
    Flag(usize),
    /// A frame in between that belongs to the C stack: its owner, at this offset, is
    /// [`SHIM_OWNER`] or more.
    Owner(usize),
}

/// From this owner on, a frame belongs to the interpreter and is no function's.
pub const SHIM_OWNER: u8 = 3;

/// Of a thread's state.
pub const THREAD_PREVIOUS: usize = 0;
pub const THREAD_NEXT: usize = 8;
pub const THREAD_INTERPRETER: usize = 16;

/// Of a frame. The `int` that has its depth of stack is -1 while the frame runs.
pub const FRAME_BYTES: usize = 72;
pub const FRAME_INSTRUCTION: usize = 56;
pub const FRAME_DEPTH: usize = 64;

/// Of a code object.
pub const CODE_FILE: usize = 112;
pub const CODE_NAME: usize = 128;
pub const CODE_LINE_TABLE: usize = 136;

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

    /// How much of a thread's state is read: up to its last field of interest.
    pub fn thread_bytes(&self) -> usize {
        self.current_in_thread().max(self.native_id).max(self.stack_chunk + 16) + 8
    }
}

/// A version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
    pub micro: u8,
}

impl Version {
    /// From `PY_VERSION_HEX`: a byte each, the last one is the release level.
    pub fn from_hex(hex: u64) -> Self {
        let [_, micro, minor, major, ..] = hex.to_le_bytes();
        Self { major, minor, micro }
    }

    /// From a file's name, such as `libpython3.10.so.1.0` or `python3.9`; the micro version is 0.
    pub fn of_file(name: &str) -> Option<Self> {
        let (_, after) = name.rsplit_once("python")?;
        let (major, rest) = after.split_once('.')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(Self { major: major.parse().ok()?, minor: rest[..digits].parse().ok()?, micro: 0 })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_number_and_name() {
        assert_eq!(Version::from_hex(0x030b_07f0).to_string(), "3.11.7");
        let table = [
            ("libpython3.10.so.1.0", Some("3.10.0")),
            ("libpython3.6m.so.1.0", Some("3.6.0")),
            ("python3.9", Some("3.9.0")),
            ("python2.7-dbg", Some("2.7.0")),
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
