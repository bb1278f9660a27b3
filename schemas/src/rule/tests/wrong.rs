//! What is refused, in which words.

use super::*;
use crate::limits::rules::{FILE_BYTES_MAX, FILES_MAX, INCLUDE_DEPTH_MAX};

/// Text of a file, and what is said of it after the file's name.
fn told(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let error = read(&[("a.toml", text)]).unwrap_err();
        assert_eq!(error, format!("a.toml: {expected}"), "{text}");
    }
}

/// The same of one key of a shipped budget.
fn told_of_key(kind: &str, name: &str, cases: &[(&str, &str)]) {
    for (line, problem) in cases {
        let key = line.split([' ', '.', '=']).next().unwrap();
        let text = format!("[[{kind}]]\nname = \"{name}\"\n{line}\n");
        let error = read(&[("a.toml", &text)]).unwrap_err();
        let place = format!("a.toml: line 3, column 1: {kind} \"{name}\": {key}: ");
        assert_eq!(error, format!("{place}{problem}"), "{line}");
    }
}
