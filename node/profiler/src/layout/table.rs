//! Offsets of the versions that publish none, taken from the headers that CPython installs below
//! `include/python3.N/internal`; `tests/python` proves them on running interpreters.

use super::{
    CODE_PLACES, CodePlaces, CurrentFrame, EntryMark, Frames, GilPlace, Instructions, Layout,
    LineTable, ThreadNumber, Version,
};

/// The versions with a layout, as errors name them.
pub const SUPPORTED: &str = "3.9 to 3.14";

pub const V3_9: Layout = Layout {
    interpreters_head: 32,
    gil: GilPlace::InRuntime(352),
    interpreter_next: 0,
    threads_head: 8,
    collecting: 816,
    current_frame: CurrentFrame::InThread(24),
    thread_number: ThreadNumber::ByHandle { handle: 176, main: 72, number: 0 },
    frame_code: 32,
    frame_previous: 24,
    frames: Frames::Objects { state: 116, runs: 1, instruction: 104, unit: 1 },
    code: CodePlaces { file: 104, name: 112, lines: 120, table: LineTable::Steps },
    first_line: 40,
    instructions: Instructions::Bytes(48),
    ascii_text: 48,
    other_text: 72,
};

pub const V3_10: Layout = Layout {
    frames: Frames::Objects { state: 108, runs: 0, instruction: 96, unit: 2 },
    code: CodePlaces { table: LineTable::Ranges, ..V3_9.code },
    ..V3_9
};

pub const V3_11: Layout = Layout {
    interpreters_head: 40,
    gil: GilPlace::InRuntime(360),
    interpreter_next: 0,
    threads_head: 16,
    collecting: 848,
    current_frame: CurrentFrame::ByRecord { record: 56, frame: 8 },
    thread_number: ThreadNumber::InThread(160),
    frame_code: 32,
    frame_previous: 48,
    frames: Frames::ByDepth { chunk: 296, entry: EntryMark::Flag(68) },
    code: CODE_PLACES,
    first_line: 72,
    instructions: Instructions::Inside(184),
    ascii_text: 48,
    other_text: 72,
};

pub const V3_12: Layout = Layout {
    interpreters_head: 40,
    gil: GilPlace::ByInterpreter(384),
    interpreter_next: 0,
    threads_head: 72,
    collecting: 312,
    current_frame: CurrentFrame::ByRecord { record: 56, frame: 0 },
    thread_number: ThreadNumber::InThread(144),
    frame_code: 0,
    frame_previous: 8,
    frames: Frames::ByDepth { chunk: 232, entry: EntryMark::Owner(70) },
    code: CODE_PLACES,
    first_line: 68,
    instructions: Instructions::Inside(192),
    ascii_text: 40,
    other_text: 56,
};

/// The layout of a version that publishes none.
pub fn of(version: Version) -> Option<Layout> {
    match (version.major, version.minor) {
        (3, 9) => Some(V3_9),
        (3, 10) => Some(V3_10),
        (3, 11) => Some(V3_11),
        (3, 12) => Some(V3_12),
        _ => None,
    }
}
