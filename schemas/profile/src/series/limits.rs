//! Bounds of a segment. A writer starts a new one at a bound; a reader takes more for damage.

/// Entries of each table: a week of a large training job has some 30 000 stacks as a tree.
pub(super) const STRINGS_MAX: usize = 65_536;
/// See [`STRINGS_MAX`].
pub(super) const FRAMES_MAX: usize = 65_536;
/// See [`STRINGS_MAX`].
pub(super) const STACKS_MAX: usize = 262_144;
/// Labels: threads of 16 processes, in three states each.
pub(super) const LABELS_MAX: usize = 16_384;
/// Bytes of a record: one of 10 s has less than 1 KiB, and the first of a segment some 20.
pub(super) const RECORD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest range that is added up: what a node keeps by default, and a day.
pub(super) const RANGE_SECONDS_MAX: u64 = 31 * 86_400;
