//! Offsets of the versions that publish none, taken from the headers that CPython installs below
//! `include/python3.N/internal`; `tests/python` proves them on running interpreters.

use super::{CurrentFrame, EntryMark, GilPlace, Layout, Version};

/// The versions with a layout, as errors name them.
pub const SUPPORTED: &str = "3.11, 3.12 or 3.13";

pub const V3_11: Layout = Layout {
    interpreters_head: 40,
    gil: GilPlace::InRuntime(360),
    interpreter_next: 0,
    threads_head: 16,
    current_frame: CurrentFrame::ByRecord { record: 56, frame: 8 },
    native_id: 160,
    stack_chunk: 296,
    frame_code: 32,
    frame_previous: 48,
    entry: EntryMark::Flag(68),
    first_line: 72,
    instructions: 184,
    ascii_text: 48,
    other_text: 72,
};

pub const V3_12: Layout = Layout {
    interpreters_head: 40,
    gil: GilPlace::ByInterpreter(384),
    interpreter_next: 0,
    threads_head: 72,
    current_frame: CurrentFrame::ByRecord { record: 56, frame: 0 },
    native_id: 144,
    stack_chunk: 232,
    frame_code: 0,
    frame_previous: 8,
    entry: EntryMark::Owner(70),
    first_line: 68,
    instructions: 192,
    ascii_text: 40,
    other_text: 56,
};

/// The layout of a version that publishes none.
pub fn of(version: Version) -> Option<Layout> {
    match (version.major, version.minor) {
        (3, 11) => Some(V3_11),
        (3, 12) => Some(V3_12),
        _ => None,
    }
}
