//! Collapsed stacks as text: `root (file:line);leaf (file:line) count`, one line for each stack.
//!
//! Labels, duration and facts are not in it. What the format uses itself is written as `%3B`, so
//! that any name comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::labels::{SampleLabels, ThreadState};
use crate::limits::DECODED_BYTES_MAX;
use crate::profile::{Profile, ValueType};
use crate::stack::{Frame, Stack};

/// Why a text was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FoldedError {
    /// Longer than any profile.
    #[error("{bytes} bytes of folded stacks, more than {max}", max = DECODED_BYTES_MAX)]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A line that does not end in a space and a count.
    #[error("line {0}: write `root;leaf COUNT`")]
    Line(usize),
}

/// The counts of a profile by stack, of threads in one state or of all.
#[must_use]
pub fn write(profile: &Profile, state: Option<ThreadState>) -> String {
    let mut text = String::new();
    for (stack, value) in profile.values(state) {
        let frames: Vec<String> = stack.frames().iter().map(|frame| written(frame)).collect();
        text.push_str(&format!("{} {}\n", frames.join(";"), value / profile.period()));
    }
    text
}

/// Reads what [`write`] or another tool wrote. Empty lines count for nothing.
///
/// # Errors
/// When the text is too long, or a line has no count.
pub fn read(text: &str, value_type: ValueType, period: u64) -> Result<Profile, FoldedError> {
    if text.len() > DECODED_BYTES_MAX {
        return Err(FoldedError::TooLarge { bytes: text.len() });
    }
    let mut profile = Profile::new(value_type, period);
    let mut known: BTreeMap<&str, Arc<Frame>> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty()) {
        let (stack, count) = line.rsplit_once(' ').ok_or(FoldedError::Line(number))?;
        let count = count.parse().map_err(|_| FoldedError::Line(number))?;
        let frames = stack
            .split(';')
            .map(|frame| known.entry(frame).or_insert_with(|| Arc::new(parsed(frame))).clone());
        profile.add(Stack::new(frames.collect()), SampleLabels::default(), count);
    }
    Ok(profile)
}

/// `function (file:line)`
fn written(frame: &Frame) -> String {
    let function = escaped(frame.function.as_str());
    if frame.file.as_str().is_empty() && frame.line == 0 {
        return function;
    }
    format!("{function} ({}:{})", escaped(frame.file.as_str()), frame.line)
}

fn parsed(text: &str) -> Frame {
    let located = text.strip_suffix(')').and_then(|text| {
        let (function, source) = text.rsplit_once(" (")?;
        let (file, line) = source.rsplit_once(':')?;
        Some((function, file, line.parse().ok()?))
    });
    let (function, file, line) = located.unwrap_or((text, "", 0));
    let (function, file) = (unescaped(function).into(), unescaped(file).into());
    Frame { function, file, line }
}

/// Writes as `%XX` what ends a frame, a line or a function's name.
fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        let ends_name = c == '(' && before == Some(' ');
        if ends_name || c.is_ascii_control() || "%;".contains(c) {
            written.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            written.push(c);
        }
        before = Some(c);
    }
    written
}

/// A `%` without two digits after it stands for itself: other tools escape nothing.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut read = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                read.push(char::from(code));
                read.push_str(&part[2..]);
            }
            None => {
                read.push('%');
                read.push_str(part);
            }
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generated::{profile, profiles};

    #[test]
    fn stacks_are_lines_with_their_counts() {
        let counts: [(&[&str], u64); 2] = [(&["main:3", "load:5"], 4), (&["main:3"], 2)];
        let text = write(&profile(10_000_000, 1, &counts), None);
        assert_eq!(text, "main (a.py:3) 2\nmain (a.py:3);load (a.py:5) 4\n");
    }

    #[test]
    fn what_other_tools_write_is_read() {
        let table = [
            ("main;do work;[libc.so] 7", vec!["main", "do work", "[libc.so]"]),
            ("f(int) (a.cc:12);100% 7", vec!["f(int) (a.cc:12)", "100%"]),
            ("<module> (/a b/c.py:1);é%C3 7\r", vec!["<module> (/a b/c.py:1)", "é%C3"]),
            ("a (b);c (d:e) 7", vec!["a (b)", "c (d:e)"]),
            (" 7", vec![""]),
        ];
        for (text, frames) in table {
            let profile = read(&format!("\n{text}\n"), ValueType::cpu(), 10).unwrap();
            let sample = profile.samples().next().unwrap();
            let found: Vec<String> =
                sample.stack.frames().iter().map(ToString::to_string).collect();
            assert_eq!(found, frames);
            assert_eq!((sample.count, profile.value()), (7, 70), "{text}");
        }
    }

    #[test]
    fn a_line_without_a_count_is_named() {
        for line in ["main", "main x", "main -1", "main 1.5", "main 99999999999999999999"] {
            let text = format!("a 1\n\n{line}\n");
            let error = read(&text, ValueType::cpu(), 1).unwrap_err();
            assert_eq!(error.to_string(), "line 3: write `root;leaf COUNT`", "{line}");
        }
        let bytes = DECODED_BYTES_MAX + 1;
        let large = read(&"a".repeat(bytes), ValueType::cpu(), 1);
        assert_eq!(large, Err(FoldedError::TooLarge { bytes }));
    }

    proptest! {
        #[test]
        fn stacks_come_back_from_text(profile in profiles()) {
            let text = write(&profile, None);
            let read = read(&text, profile.value_type().clone(), profile.period()).unwrap();
            prop_assert_eq!(read.values(None), profile.values(None));
            prop_assert_eq!(write(&read, None), text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[ -~é\n\r;%]{0,80}") {
            if let Ok(profile) = read(&text, ValueType::wall(), 1) {
                let again = read(&write(&profile, None), ValueType::wall(), 1);
                prop_assert_eq!(again, Ok(profile));
            }
        }
    }
}
