//! Frames and stacks. A stack has its root first; what a thread waits for and code without
//! symbols are frames as any other.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::limits::FRAMES_MAX;
use crate::name::Name;

/// Root frame of stacks that a bound has shortened or replaced.
pub const TRUNCATED: &str = "[truncated]";
/// The only frame of a sample without a stack.
const UNKNOWN: &str = "[unknown]";
/// Leaf frame of a thread that waits for the interpreter's lock.
pub const WAITING_FOR_GIL: &str = "<waiting for GIL>";

/// Functions of any Python program, and what is no function.
const GENERAL_NAMES: [&str; 13] = [
    "<module>",
    "<lambda>",
    "<listcomp>",
    "<setcomp>",
    "<dictcomp>",
    "<genexpr>",
    "<GC>",
    WAITING_FOR_GIL,
    TRUNCATED,
    UNKNOWN,
    "[kernel]",
    "[off CPU]",
    "[code of no file]",
];

/// A function at a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The function's name. Code of a module, and what is no function, have a name in brackets.
    pub function: Name,
    /// Its source file; empty when unknown.
    pub file: Name,
    /// The line that runs, from 1; 0 when unknown.
    pub line: u32,
}

/// What a thread was doing, root first; at least one frame, at most [`FRAMES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stack(Arc<[Arc<Frame>]>);

impl Frame {
    /// A frame with names of its own; a sampler keeps one for each line that it has seen.
    #[must_use]
    pub fn new(function: &str, file: &str, line: u32) -> Arc<Self> {
        Arc::new(Self { function: Name::new(function), file: Name::new(file), line })
    }

    /// A frame without a source, such as [`WAITING_FOR_GIL`].
    #[must_use]
    pub fn marker(name: &str) -> Arc<Self> {
        Self::new(name, "", 0)
    }

    /// Whether its function stands for all of a file without symbols, in brackets.
    #[must_use]
    pub fn stands_for_file(&self) -> bool {
        let name = self.function.as_str().strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        !self.file.as_str().is_empty() && name == Some(self.file.as_str())
    }

    /// Whether programs of any site have a function of this name, so that it names nothing of one.
    #[must_use]
    pub fn has_general_name(&self) -> bool {
        GENERAL_NAMES.contains(&self.function.as_str())
    }

    /// Whether it is code that Python has from no file of a site.
    #[must_use]
    pub fn has_general_file(&self) -> bool {
        let file = self.file.as_str();
        file.is_empty() || file.starts_with("<frozen ") || matches!(file, "<string>" | "<stdin>")
    }

    /// Whether both are of the same function, at whichever line.
    pub(crate) fn is_same_function(&self, other: &Self) -> bool {
        self.compare_function(other) == Ordering::Equal
    }

    pub(crate) fn compare_function(&self, other: &Self) -> Ordering {
        if std::ptr::eq(self, other) {
            return Ordering::Equal;
        }
        (&self.function, &self.file).cmp(&(&other.function, &other.file))
    }
}

impl fmt::Display for Frame {
    /// `function (file:line)`; without a source the function alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.as_str().is_empty() && self.line == 0 {
            return write!(f, "{}", self.function);
        }
        write!(f, "{} ({}:{})", self.function, self.file, self.line)
    }
}

impl Stack {
    /// Of too many frames the ones next to the leaf are kept, below a root [`TRUNCATED`]: a deep
    /// recursion is recognised by its leaf.
    #[must_use]
    pub fn new(mut root_first: Vec<Arc<Frame>>) -> Self {
        if root_first.is_empty() {
            root_first.push(Frame::marker(UNKNOWN));
        }
        if root_first.len() > FRAMES_MAX {
            let excess = root_first.len() - FRAMES_MAX;
            root_first.splice(..=excess, [Frame::marker(TRUNCATED)]);
        }
        Self(root_first.into())
    }

    /// What stands for the stacks that a full profile does not keep.
    pub(crate) fn truncated() -> Self {
        Self::new(vec![Frame::marker(TRUNCATED)])
    }

    /// Root first.
    #[must_use]
    pub fn frames(&self) -> &[Arc<Frame>] {
        &self.0
    }

    /// Whether a bound has shortened or replaced it.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.0.first().is_some_and(|root| root.function.as_str() == TRUNCATED)
    }
}

impl From<Arc<[Arc<Frame>]>> for Stack {
    /// Of frames that others share, root first.
    fn from(root_first: Arc<[Arc<Frame>]>) -> Self {
        let is_within = (1..=FRAMES_MAX).contains(&root_first.len());
        if is_within { Self(root_first) } else { Self::new(root_first.to_vec()) }
    }
}

impl Ord for Stack {
    /// By their frames. A profile shares its frames, so most are equal by their address; a sampler
    /// compares ten stacks for each sample.
    fn cmp(&self, other: &Self) -> Ordering {
        let compare = |(a, b): (&Arc<Frame>, &Arc<Frame>)| match Arc::ptr_eq(a, b) {
            true => Ordering::Equal,
            false => a.cmp(b),
        };
        let mut pairs = self.0.iter().zip(other.0.iter()).map(compare);
        let first = pairs.find(|order| order.is_ne());
        first.unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for Stack {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_stack_keeps_the_frames_near_its_leaf() {
        let frames = |n: u32| (1..=n).map(|line| Frame::new("f", "a.py", line)).collect::<Vec<_>>();
        let whole = Stack::new(frames(128));
        assert!(!whole.is_truncated());
        assert_eq!(whole.frames().len(), 128);

        let cut = Stack::new(frames(130));
        assert!(cut.is_truncated());
        assert_eq!(cut.frames().len(), 128);
        assert_eq!((cut.frames()[1].line, cut.frames()[127].line), (4, 130));
        assert_eq!(Stack::new(cut.frames().to_vec()), cut);

        for depth in [0, 128, 130] {
            let shared: Arc<[Arc<Frame>]> = frames(depth).into();
            assert_eq!(Stack::from(shared), Stack::new(frames(depth)), "{depth}");
        }
    }

    #[test]
    fn a_stack_without_frames_is_unknown() {
        assert_eq!(Stack::new(Vec::new()).frames(), [Frame::marker("[unknown]")]);
    }

    #[test]
    fn a_frame_prints_its_location_if_known() {
        let table = [
            (Frame::new("load", "data.py", 7), "load (data.py:7)"),
            (Frame::marker("<GC>"), "<GC>"),
            (Frame::new("f", "", 3), "f (:3)"),
            (Frame::new("f", "a.so", 0), "f (a.so:0)"),
        ];
        for (frame, text) in table {
            assert_eq!(frame.to_string(), text);
        }
    }
}
