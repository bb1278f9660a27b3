//! The stack of one thread alone, right after the kernel has sampled it, and where C called into
//! it.

use std::sync::Arc;

use plimsoll_profile::Frame;

use crate::limits::FRAMES_MAX;

/// Frames that were there at one instant, root first; none of a thread that runs no Python
/// function. Of a stack that is too deep there is one frame more than a profile keeps.
pub type WholeStack = Arc<[Arc<Frame>]>;

/// What Python runs on a thread.
#[derive(Debug, PartialEq, Eq)]
pub enum PythonStack {
    /// It was no thread of the interpreter at the last sample of all.
    Absent,
    Torn,
    /// Root first, a part for each call by C.
    Whole {
        runs: Vec<Vec<Arc<Frame>>>,
        /// Of a stack that is too deep the frames next to the root are absent.
        is_cut: bool,
    },
}

impl PythonStack {
    /// Of frames with whether C called each, root first.
    pub(super) fn whole(frames: impl Iterator<Item = (Arc<Frame>, bool)>) -> Self {
        let (mut runs, mut depth): (Vec<Vec<Arc<Frame>>>, usize) = (Vec::new(), 0);
        for (frame, is_called_by_c) in frames {
            depth += 1;
            match runs.last_mut().filter(|_| !is_called_by_c) {
                Some(run) => run.push(frame),
                None => runs.push(vec![frame]),
            }
        }
        Self::Whole { runs, is_cut: depth >= FRAMES_MAX }
    }
}
