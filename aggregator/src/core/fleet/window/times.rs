//! The times by which samples are added to windows.

use plimsoll_schemas::time::Wall;

/// When samples were taken, and as of when they are added.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Windows that end before this are never shown again; the present, or, while catching up,
    /// what has been judged of the past.
    pub shown: Wall,
    /// When the samples arrived.
    pub now: Wall,
    /// When they were taken, no later than `now`.
    pub taken: Wall,
}
