//! Where the fields of CPython's structures lie, as data: one value of [`Layout`] for each version.
//!
//! [`table`] has the versions that publish nothing, [`published`] reads what later ones publish
//! about themselves. Offsets hold for every 64-bit Linux: no structure before them depends on the
//! processor.
//!
//! DESIGN N92.

pub mod published;
pub mod table;

use std::fmt;

/// Offsets that a stack needs, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In the runtime: the newest interpreter.
    pub interpreters_head: usize,
    pub gil: GilPlace,
    pub interpreter: InterpreterLayout,
    pub thread: ThreadLayout,
    pub frame: FrameLayout,
    pub code: CodeLayout,
    pub text: TextLayout,
}

/// Where the global interpreter lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GilPlace {
    /// One for all interpreters, part of the runtime.
    InRuntime(usize),
    /// Each interpreter points to its own.
    ByInterpreter(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterpreterLayout {
    pub next: usize,
    pub threads_head: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadLayout {
    pub previous: usize,
    pub next: usize,
    pub interpreter: usize,
    pub current_frame: CurrentFrame,
    pub native_id: usize,
    /// The chunk of stack in use; its top and its limit are the next two words.
    pub stack_chunk: usize,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    pub bytes: usize,
    pub code: usize,
    pub previous: usize,
    pub instruction: usize,
    pub stack_pointer: StackPointer,
    pub owner: usize,
    pub entry: EntryMark,
}

/// The `int` that shows whether a frame has saved its stack pointer: it is -1 while the frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackPointer(pub usize);

/// What shows that C called a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryMark {
    /// A flag of the frame.
    Flag(usize),
    /// A frame in between that belongs to the C stack: `owner` is this or more.
    Owner(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLayout {
    /// Code units of 2 bytes.
    pub units: usize,
    pub file: usize,
    pub name: usize,
    pub line_table: usize,
    pub first_line: usize,
    /// Where the instructions start; nothing of a code object behind it is read.
    pub instructions: usize,
    /// Of the object that holds the table of lines.
    pub table_length: usize,
    pub table_data: usize,
}

/// Strings: their length and kind, and where their characters start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLayout {
    pub length: usize,
    pub state: usize,
    pub ascii_data: usize,
    pub other_data: usize,
}

impl ThreadLayout {
    /// How much of a thread's state is read: up to its last field of interest.
    pub fn bytes(&self) -> usize {
        let frame = match self.current_frame {
            CurrentFrame::InThread(offset) | CurrentFrame::ByRecord { record: offset, .. } => {
                offset
            }
        };
        let last = [self.previous, self.next, self.interpreter, frame, self.native_id];
        last.into_iter().fold(self.stack_chunk + 16, usize::max) + 8
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
