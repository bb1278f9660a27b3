//! What a capture returns: counted stacks and the facts about how they came about.
//!
//! The crate's own small vocabulary; one place maps it onto the profile that travels.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::FRAME_TABLE_MAX;

/// Stacks of one process over one time.
#[derive(Clone, Debug)]
pub struct Capture {
    pub facts: Facts,
    pub threads: Vec<Thread>,
    /// [`FrameRef`] is the index.
    pub frames: Vec<Frame>,
    pub stacks: Vec<CountedStack>,
}

/// A function at a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its qualified name.
    pub function: Arc<str>,
    pub file: Arc<str>,
    /// Where the function starts.
    pub first_line: u32,
    /// 0 when it is unknown: the instruction has none, or a caller moved on while it was read.
    pub line: u32,
}

/// A row of [`Capture::frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameRef(pub u32);

/// A thread by its number in this machine's `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub id: ThreadId,
    /// As the kernel has it.
    pub name: String,
}

/// What a thread did when its stack was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadActivity {
    /// On a processor, or ready for one.
    Running,
    /// Blocked, and not on the global interpreter lock.
    Waiting,
    /// Blocked on the global interpreter lock.
    Gil,
}

/// One thread at one instant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackSample {
    pub thread: ThreadId,
    pub activity: ThreadActivity,
    /// Root first.
    pub frames: Vec<FrameRef>,
    /// Frames nearest to the root are absent.
    pub is_truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedStack {
    pub stack: StackSample,
    pub count: u64,
}

/// How the capture went. Every reading of a thread is in exactly one of `whole`, `torn`,
/// `overflowed` and `empty`; every tick is in exactly one of `taken` and `missed`, but for the last
/// of a process that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub pid: i32,
    pub python: String,
    /// When the capture started, in seconds since 1970.
    pub started_unix_seconds: f64,
    pub seconds: f64,
    pub rate_hz: u32,
    /// Samples taken a second.
    pub reached_hz: f64,
    pub ended: End,
    pub ticks: Ticks,
    pub readings: ReadingCounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time was over.
    Complete,
    Cancelled,
    /// The process ended.
    Exited,
    /// The process executes another program.
    Replaced,
    /// The memory could no longer be read.
    Denied,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    pub taken: u64,
    /// Over before a sample could be taken.
    pub missed: u64,
    /// Taken while threads started or ended, so that some may be absent.
    pub torn_lists: u64,
}

/// Readings of threads, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingCounts {
    /// In the stacks.
    pub whole: u64,
    /// Changed while they were read.
    pub torn: u64,
    /// Whole, but there was no room for another distinct stack, frame or thread.
    pub overflowed: u64,
    /// Of threads that ran no Python function.
    pub empty: u64,
    /// Of the whole ones: without the frames nearest to the root.
    pub truncated: u64,
}

/// Distinct frames, in the order in which they appeared.
#[derive(Debug, Default)]
pub struct FrameTable {
    rows: Vec<Frame>,
    known: HashMap<Frame, FrameRef>,
}

impl FrameTable {
    /// The row of a frame; `None` when there is no room for another one.
    pub fn row(&mut self, frame: Frame) -> Option<FrameRef> {
        if let Some(row) = self.known.get(&frame) {
            return Some(*row);
        }
        if self.rows.len() == FRAME_TABLE_MAX {
            return None;
        }
        let row = FrameRef(u32::try_from(self.rows.len()).ok()?);
        self.rows.push(frame.clone());
        self.known.insert(frame, row);
        Some(row)
    }

    pub fn into_rows(self) -> Vec<Frame> {
        self.rows
    }
}
