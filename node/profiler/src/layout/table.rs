//! Offsets of the versions that publish none, taken from the headers that CPython installs below
//! `include/python3.N/internal`; `tests/layouts.rs` proves them on running interpreters.

use super::{
    CodeLayout, CurrentFrame, EntryMark, FrameLayout, GilPlace, InterpreterLayout, Layout,
    StackPointer, TextLayout, ThreadLayout, Version,
};

/// The versions with a layout, as errors name them.
pub const SUPPORTED: &str = "3.11, 3.12 or 3.13";

pub const V3_11: Layout = Layout {
    interpreters_head: 40,
    gil: GilPlace::InRuntime(360),
    interpreter: InterpreterLayout { next: 0, threads_head: 16 },
    thread: ThreadLayout {
        previous: 0,
        next: 8,
        interpreter: 16,
        current_frame: CurrentFrame::ByRecord { record: 56, frame: 8 },
        native_id: 160,
        stack_chunk: 296,
    },
    frame: FrameLayout {
        bytes: 72,
        code: 32,
        previous: 48,
        instruction: 56,
        stack_pointer: StackPointer(64),
        owner: 69,
        entry: EntryMark::Flag(68),
    },
    code: CodeLayout {
        units: 16,
        file: 112,
        name: 128,
        line_table: 136,
        first_line: 72,
        instructions: 184,
        table_length: 16,
        table_data: 32,
    },
    text: TextLayout { length: 16, state: 32, ascii_data: 48, other_data: 72 },
};

pub const V3_12: Layout = Layout {
    interpreters_head: 40,
    gil: GilPlace::ByInterpreter(384),
    interpreter: InterpreterLayout { next: 0, threads_head: 72 },
    thread: ThreadLayout {
        previous: 0,
        next: 8,
        interpreter: 16,
        current_frame: CurrentFrame::ByRecord { record: 56, frame: 0 },
        native_id: 144,
        stack_chunk: 232,
    },
    frame: FrameLayout {
        bytes: 72,
        code: 0,
        previous: 8,
        instruction: 56,
        stack_pointer: StackPointer(64),
        owner: 70,
        entry: EntryMark::Owner(3),
    },
    code: CodeLayout {
        units: 16,
        file: 112,
        name: 128,
        line_table: 136,
        first_line: 68,
        instructions: 192,
        table_length: 16,
        table_data: 32,
    },
    text: TextLayout { length: 16, state: 32, ascii_data: 40, other_data: 56 },
};

/// The layout of a version that publishes none.
pub fn of(version: Version) -> Option<Layout> {
    match (version.major, version.minor) {
        (3, 11) => Some(V3_11),
        (3, 12) => Some(V3_12),
        _ => None,
    }
}
