//! Bounds of a profile, of its files and of its picture.
//!
//! DESIGN S89.

/// Frames of one stack. Python stacks of training jobs have 30 to 90; py-spy and perf stop at 127.
pub const FRAMES_MAX: usize = 128;
/// Bytes of a name: a function, a file, a thread, a comment.
pub const NAME_BYTES_MAX: usize = 256;
/// Distinct stacks with their labels in one profile: 64 nodes with 256 each.
pub const STACKS_MAX: usize = 16_384;
/// Distinct frames in one profile, which bounds its strings to twice as many: 8 MiB of names.
pub const FRAME_TABLE_MAX: usize = 16_384;
/// Comments of one profile.
pub const COMMENTS_MAX: usize = 32;

/// Bytes of a compressed pprof file. One of 10 s at 100 Hz has 20 to 100 KiB.
pub const ENCODED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a file once it is inflated: a profile whose names, stacks and labels are all at
/// their bounds has 20 MiB.
pub const DECODED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of one sample, and of all sample types or comments: a sample of 128 frames has 600.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Strings of a file: those of the frames, and three labels for each sample.
pub const STRINGS_MAX: usize = 131_072;
/// Functions of a file, and locations of a file: four times as many frames as we keep, since a
/// large Go program has more addresses than lines.
pub const LOCATIONS_MAX: usize = 65_536;
/// Bytes of all locations of a file: one of one line has some 20.
pub const LOCATIONS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Entries with comments: all are in one, unless they are written one by one.
pub const COMMENT_ENTRIES_MAX: usize = 2 * COMMENTS_MAX;
/// Lines of all locations of a file, inlined ones included.
pub const LINES_MAX: usize = 131_072;
/// Samples of a file: other tools write one for each value of their own labels.
pub const SAMPLES_MAX: usize = 262_144;
/// Kinds of values in a file: a heap profile has four.
pub const SAMPLE_TYPES_MAX: usize = 16;

/// Share of the whole below which a node of a flame graph is part of `(other)`: about one
/// pixel of a wide screen.
pub const FLAME_SHARE_MIN: f64 = 0.001;
/// Nodes of a flame graph, without `(other)`: 1.5 MiB of SVG.
pub const FLAME_NODES_MAX: usize = 5_000;
/// Nodes of a tree for what zooms in: 2.5 MiB of data, drawn in some 10 ms.
pub const FLAME_WHOLE_NODES_MAX: usize = 50_000;
/// Functions in the table of a page.
pub const PAGE_FUNCTIONS_MAX: usize = 200;
