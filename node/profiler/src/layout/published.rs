//! The offsets that CPython 3.13 and later publish about themselves at the head of their runtime.
//!
//! They come from the target's memory, so each is checked before it is used.

use super::{
    CodeLayout, CurrentFrame, EntryMark, FrameLayout, GilPlace, InterpreterLayout, Layout,
    StackPointer, TextLayout, ThreadLayout, Version,
};
use crate::limits::OFFSET_MAX;
use crate::memory::word;

/// What the record starts with.
pub const COOKIE: [u8; 8] = *b"xdebugpy";
/// Bytes that hold all groups of interest in every version.
pub const RECORD_BYTES: usize = 100 * 8;
/// From this owner on, a frame belongs to the interpreter and is no function's.
const SHIM_OWNER: u8 = 3;
/// Behind the fields of an ASCII string, others have the length of their UTF-8 form and its
/// address.
const UTF8_FIELDS_BYTES: usize = 16;

/// Where groups of offsets start in the record of 3.13, in words.
mod group {
    pub(super) const RUNTIME: usize = 3;
    pub(super) const INTERPRETER: usize = 6;
    pub(super) const THREAD: usize = 19;
    pub(super) const FRAME: usize = 28;
    pub(super) const CODE: usize = 34;
    pub(super) const BYTES: usize = 64;
    pub(super) const TEXT: usize = 67;
}

/// The header of the record.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub version: Version,
    pub is_free_threaded: bool,
}

/// `None` when there is no such record.
pub fn head(record: &[u8]) -> Option<Head> {
    record.starts_with(&COOKIE).then(|| Head {
        version: Version::from_hex(word(record, 8)),
        is_free_threaded: word(record, 16) != 0,
    })
}

/// The layout of a version with a record; `None` when an offset is no offset, or the version is
/// new.
pub fn layout(record: &[u8], version: Version) -> Option<Layout> {
    if (version.major, version.minor) != (3, 13) {
        return None;
    }
    let offset = |group: usize, field: usize| {
        let value = word(record, (group + field) * 8);
        (value <= OFFSET_MAX).then(|| usize::try_from(value).ok()).flatten()
    };

    let instruction = offset(group::FRAME, 3)?;
    let owner = offset(group::FRAME, 5)?;
    let table_length = offset(group::BYTES, 1)?;
    let ascii_data = offset(group::TEXT, 3)?;
    let layout = Layout {
        interpreters_head: offset(group::RUNTIME, 2)?,
        gil: GilPlace::ByInterpreter(offset(group::INTERPRETER, 8)?),
        interpreter: InterpreterLayout {
            next: offset(group::INTERPRETER, 2)?,
            threads_head: offset(group::INTERPRETER, 3)?,
        },
        thread: ThreadLayout {
            previous: offset(group::THREAD, 1)?,
            next: offset(group::THREAD, 2)?,
            interpreter: offset(group::THREAD, 3)?,
            current_frame: CurrentFrame::InThread(offset(group::THREAD, 4)?),
            native_id: offset(group::THREAD, 6)?,
            stack_chunk: offset(group::THREAD, 7)?,
        },
        frame: FrameLayout {
            bytes: offset(group::FRAME, 4)?,
            code: offset(group::FRAME, 2)?,
            previous: offset(group::FRAME, 1)?,
            instruction,
            // It is not published; it follows the instruction.
            stack_pointer: StackPointer(instruction + 8),
            owner,
            entry: EntryMark::Owner(SHIM_OWNER),
        },
        code: CodeLayout {
            // The length of any object of variable size.
            units: table_length,
            file: offset(group::CODE, 1)?,
            name: offset(group::CODE, 3)?,
            line_table: offset(group::CODE, 4)?,
            first_line: offset(group::CODE, 5)?,
            instructions: offset(group::CODE, 9)?,
            table_length,
            table_data: offset(group::BYTES, 2)?,
        },
        text: TextLayout {
            length: offset(group::TEXT, 2)?,
            state: offset(group::TEXT, 1)?,
            ascii_data,
            other_data: ascii_data + UTF8_FIELDS_BYTES,
        },
    };
    is_sound(&layout).then_some(layout)
}

/// Structures that are read at once stay small, and a frame has all of its fields.
fn is_sound(layout: &Layout) -> bool {
    const STRUCTURE_BYTES_MAX: usize = 4_096;
    let sizes = [
        layout.thread.bytes(),
        layout.frame.bytes,
        layout.code.instructions,
        layout.code.table_data,
        layout.text.other_data,
    ];
    let frame = &layout.frame;
    let fields = [frame.code + 8, frame.previous + 8, frame.instruction + 12, frame.owner + 1];
    sizes.into_iter().all(|size| size <= STRUCTURE_BYTES_MAX)
        && fields.into_iter().all(|end| end <= frame.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record whose every word is its own number, but for the head and the size of a frame.
    fn record(version: u64) -> Vec<u8> {
        let mut words: Vec<u64> = (0..100).collect();
        words[0] = u64::from_ne_bytes(COOKIE);
        words[1] = version;
        words[2] = 0;
        words[32] = 72;
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn the_head_has_cookie_version_and_build() {
        let head = head(&record(0x030d_00f0)).expect("the cookie is there");
        assert_eq!((head.version.to_string().as_str(), head.is_free_threaded), ("3.13.0", false));
        assert_eq!(super::head(&[0; 16]), None);
    }

    #[test]
    fn an_offset_that_is_none_is_refused() {
        let version = Version { major: 3, minor: 13, micro: 0 };
        assert!(layout(&record(0), version).is_some());
        for damaged in [OFFSET_MAX + 1, u64::MAX] {
            let mut record = record(0);
            record[23 * 8..24 * 8].copy_from_slice(&damaged.to_ne_bytes());
            assert_eq!(layout(&record, version), None);
        }
        assert_eq!(layout(&record(0), Version { minor: 15, ..version }), None);
        assert_eq!(layout(&[], version), None);
    }

    #[test]
    fn each_field_comes_from_its_place_in_the_record() {
        let version = Version { major: 3, minor: 13, micro: 0 };
        let found = layout(&record(0), version).expect("all are small");
        assert_eq!((found.interpreters_head, found.gil), (5, GilPlace::ByInterpreter(14)));
        assert_eq!(found.thread.current_frame, CurrentFrame::InThread(23));
        assert_eq!((found.frame.code, found.frame.bytes), (30, 72));
        assert_eq!((found.code.name, found.code.table_data), (37, 66));
        assert_eq!((found.text.state, found.text.other_data), (68, 86));
    }
}
