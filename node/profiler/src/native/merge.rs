//! One stack of native and Python frames: the interpreter's loop gives way to what it runs.
//!
//! Each call of the loop is one frame of the native stack, and runs the Python frames from one that
//! C called up to the next such one. So both are read from the leaf, and the n-th call of the loop
//! becomes the n-th run of Python frames. Native frames between them and above them stay. Those
//! that started the interpreter are left out, so that the root is that of Python alone.
//!
//! DESIGN N99.

use std::sync::Arc;

use plimsoll_profile::Frame;

use super::code::Walk;
use crate::reader::PythonStack;

const LOOP: &str = "_PyEval_EvalFrameDefault";

/// Root first; `None` when the stacks are not of one instant.
pub(super) fn merged(native: Walk, python: &PythonStack) -> Option<Walk> {
    let calls = native.root_first.iter().filter(|frame| is_loop(frame)).count();
    let (runs, is_python_cut) = match python {
        PythonStack::Whole { runs, is_cut } => (&runs[..], *is_cut),
        PythonStack::Absent | PythonStack::Torn if calls == 0 => return Some(native),
        PythonStack::Absent | PythonStack::Torn => return None,
    };
    if (calls > runs.len() && !is_python_cut) || (calls < runs.len() && !native.is_cut) {
        return None;
    }

    // What one of them lacks next to the root is that of the other.
    let (above, paired) = runs.split_at(runs.len().saturating_sub(calls));
    let mut root_first: Vec<Arc<Frame>> = above.iter().flatten().cloned().collect();
    let mut is_started = !above.is_empty();
    let mut unpaired = calls.saturating_sub(runs.len());
    let mut paired = paired.iter();
    for frame in native.root_first {
        if !is_loop(&frame) {
            root_first.extend(is_started.then_some(frame));
        } else if unpaired > 0 {
            unpaired -= 1;
        } else {
            is_started = true;
            root_first.extend(paired.next().into_iter().flatten().cloned());
        }
    }
    if runs.is_empty() {
        return None;
    }
    Some(Walk { root_first, is_cut: is_python_cut })
}

/// Its rare parts are functions of their own, such as `_PyEval_EvalFrameDefault.cold`.
fn is_loop(frame: &Frame) -> bool {
    let rest = frame.function.as_str().strip_prefix(LOOP);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Frames of a text such as `main L call L read`, in which `L` is the loop.
    fn frames(text: &str) -> Vec<Arc<Frame>> {
        let name = |word: &str| if word == "L" { LOOP.to_owned() } else { word.to_owned() };
        text.split_whitespace().map(|word| Frame::new(&name(word), "", 0)).collect()
    }

    fn joined(native: &str, is_native_cut: bool, python: &str, is_python_cut: bool) -> String {
        let walk = Walk { root_first: frames(native), is_cut: is_native_cut };
        let runs = python.split('|').map(frames).filter(|run| !run.is_empty()).collect();
        let stack = PythonStack::Whole { runs, is_cut: is_python_cut };
        let Some(merged) = merged(walk, &stack) else { return "torn".to_owned() };
        let names: Vec<_> = merged.root_first.iter().map(|f| f.function.to_string()).collect();
        names.join(" ")
    }

    #[test]
    fn each_call_of_the_loop_becomes_its_python_frames() {
        let cold = "main _PyEval_EvalFrameDefault.cold read";
        let table = [
            ("main L read", false, "a b", false, "a b read"),
            ("main L sort L hash", false, "a b|c d", false, "a b sort c d hash"),
            (cold, false, "a", false, "a read"),
            ("start L", false, "a", false, "a"),
            // One more or less than there are: not of one instant.
            ("main L sort L", false, "a", false, "torn"),
            ("main L", false, "a|b", false, "torn"),
            ("main L", false, "", false, "torn"),
            ("main", false, "a", false, "torn"),
            // The root of the native stack is absent: Python's is known.
            ("sort L hash", true, "a|b", false, "a sort b hash"),
            ("hash", true, "a|b", false, "a b hash"),
            // The root of Python's is absent.
            ("main L x L y L hash", false, "b|c", true, "b y c hash"),
        ];
        for (native, is_native_cut, python, is_python_cut, expected) in table {
            let found = joined(native, is_native_cut, python, is_python_cut);
            assert_eq!(found, expected, "{native} with {python}");
        }
    }

    #[test]
    fn a_thread_without_python_keeps_its_native_frames() {
        for python in [PythonStack::Absent, PythonStack::Torn] {
            let walk = |text| Walk { root_first: frames(text), is_cut: true };
            let kept = merged(walk("clone work"), &python).unwrap();
            assert_eq!((kept.root_first, kept.is_cut), (frames("clone work"), true));
            assert!(merged(walk("clone L work"), &python).is_none());
        }
    }

    proptest! {
        #[test]
        fn python_frames_stay_in_their_order(
            native in "( [xyL]){0,12}", python in "([ab ]|[|]){0,12}", is_cut: bool,
        ) {
            let text = joined(&native, is_cut, &python, !is_cut);
            let order = |text: &str| text.replace(|c| !matches!(c, 'a' | 'b'), "");
            prop_assert!(text == "torn" || order(&text) == order(&python));
        }
    }
}
