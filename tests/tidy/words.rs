//! Words that have no place in a file, whatever the file is about.

use crate::source::{Source, holds, words};
use crate::tree::Violation;

const NAMES: [&str; 8] =
    ["utils", "util", "helpers", "helper", "common", "types", "manager", "misc"];

/// True for files that hold nothing but tests and benchmarks.
fn is_test_file(path: &str) -> bool {
    let mut folders = path.split('/');
    let file = folders.next_back().unwrap_or_default();
    let by_name = file == "tests.rs" || file.ends_with("_tests.rs");
    by_name || folders.any(|folder| folder == "tests" || folder == "benches")
}

/// Code lines under test (`wanted`) or in production (`!wanted`).
fn lines_where(path: &str, text: &str, wanted: bool, broken: impl Fn(&str) -> bool) -> Vec<usize> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let source = Source::new(text);
    let regions = source.test_regions();
    let tested = |line| is_test_file(path) || regions.iter().any(|region| region.contains(&line));
    let found = source.code().filter(|(line, code)| broken(code) && tested(*line) == wanted);
    found.map(|(line, _)| line).collect()
}

/// No test is skipped, and no file allows a lint: clippy rejects `#[allow]`, not `#![allow]`.
pub(crate) fn silenced(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let source = Source::new(text);
    let is_silenced = |code: &str| {
        let skips = ["#[ignore", ", ignore)"].iter().any(|skip| code.contains(skip));
        skips || code.trim_start().starts_with("#![allow(")
    };
    let found = source.code().filter(|(_, code)| is_silenced(code));
    let fix = "fix the test or delete it; meet the lint, or `expect` it with a reason";
    found.map(|(line, _)| Violation::new(path, line, fix)).collect()
}

/// Production code does not panic for want of an answer.
pub(crate) fn unwrapped(path: &str, text: &str) -> Vec<Violation> {
    let found = lines_where(path, text, false, |code| code.contains(".unwrap()"));
    let fix = "handle the error, or `expect` why it cannot happen";
    found.into_iter().map(|line| Violation::new(path, line, fix)).collect()
}

/// Tests wait for something, never for some time.
pub(crate) fn slept(path: &str, text: &str) -> Vec<Violation> {
    let source = Source::new(text);
    let polls = |line: &usize| {
        let mut around = source.functions().into_iter().filter(|f| f.lines.contains(line));
        around.any(|f| f.name.contains("poll") || f.name.contains("deadline"))
    };
    let found = lines_where(path, text, true, |code| holds(code, "sleep("));
    let fix = "poll with a bound: `clock::Deadline::pause`, or a function named `poll_..`";
    found
        .into_iter()
        .filter(|line| !polls(line))
        .map(|line| Violation::new(path, line, fix))
        .collect()
}

/// No test fails because its machine was slow: a time is asserted from below alone.
pub(crate) fn timed(path: &str, text: &str) -> Vec<Violation> {
    let found = lines_where(path, text, true, |code| {
        code.contains("assert!(") && code.contains(".elapsed() < Duration")
    });
    let fix = "wait for what shall happen, with a deadline that only a hang can reach";
    found.into_iter().map(|line| Violation::new(path, line, fix)).collect()
}

/// Files, folders and modules are named after an idea.
pub(crate) fn idle_name(path: &str, text: &str) -> Vec<Violation> {
    let stem = |part: &str| part.split('.').next().is_some_and(|stem| NAMES.contains(&stem));
    let fix = "name it after what it holds, not after its kind";
    let mut broken = Vec::new();
    if path.split('/').any(stem) {
        broken.push(Violation::new(path, 1, fix));
    }
    if path.ends_with(".rs") {
        let source = Source::new(text);
        let named = source.code().filter(|(_, code)| {
            let declared = code.split_once("mod ").and_then(|(_, name)| words(name).next());
            declared.is_some_and(|name| NAMES.contains(&name))
        });
        broken.extend(named.map(|(line, _)| Violation::new(path, line, fix)));
    }
    broken
}

/// A file begins with what it is for, in more than a word or two.
pub(crate) fn undocumented(path: &str, text: &str) -> Vec<Violation> {
    let purpose = text.lines().next().and_then(|first| first.strip_prefix("//! "));
    let enough = purpose.is_some_and(|purpose| purpose.split_whitespace().count() > 2);
    if !path.ends_with(".rs") || enough {
        return Vec::new();
    }
    let fix = "begin with `//! ` and a sentence on what the file is for and what it refuses to do";
    vec![Violation::new(path, 1, fix)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{NOWHERE, lines};

    #[test]
    fn skipped_tests_and_files_that_allow_lints_are_found() {
        let table = [
            ("#[ignore]", vec![1]),
            ("\n#[ignore = \"slow\"]", vec![2]),
            ("#[cfg_attr(miri, ignore)]", vec![1]),
            ("#![allow(dead_code)]", vec![1]),
            ("#[expect(\n    dead_code,\n    reason = \"x\"\n)]", vec![]),
            ("let s = \"#![allow(x)] #[ignore]\";", vec![]),
        ];
        for (text, expected) in table {
            assert_eq!(lines(silenced, "a.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn unwrap_is_found_outside_tests_alone() {
        let text =
            "fn a() {\n    b().unwrap();\n}\n#[cfg(test)]\nmod tests {\n    x.unwrap();\n}\n";
        assert_eq!(lines(unwrapped, "a/src/b.rs", text), [2]);
        for path in ["a/tests/b.rs", "a/benches/b.rs", "tests/b.rs", "a/src/b/tests.rs"] {
            assert_eq!(lines(unwrapped, path, text), NOWHERE, "{path}");
        }
        assert_eq!(lines(unwrapped, "a/src/b.rs", "x.unwrap_or(1); // .unwrap()\n"), NOWHERE);
    }

    #[test]
    fn sleep_is_found_in_tests_unless_a_poll_holds_it() {
        let text = "fn a() {\n    sleep(x);\n}\nasync fn poll_until() {\n    time::sleep(x);\n}\n";
        assert_eq!(lines(slept, "a/tests/b.rs", text), [2]);
        assert_eq!(lines(slept, "a/src/b.rs", text), NOWHERE);
        let inner = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(lines(slept, "a/src/b.rs", &inner), [4]);
    }

    #[test]
    fn a_time_asserted_from_above_is_found() {
        let text = "assert!(a.elapsed() < Duration::from_secs(1));\n\
                    assert!(a.elapsed() >= Duration::from_secs(1));\n";
        assert_eq!(lines(timed, "a/tests/b.rs", text), [1]);
    }

    #[test]
    fn meaningless_names_are_found() {
        for path in ["a/src/utils.rs", "a/src/common/b.rs", "a/helpers/b.py"] {
            assert_eq!(lines(idle_name, path, ""), [1], "{path}");
        }
        assert_eq!(lines(idle_name, "a/src/b.rs", "\npub(crate) mod misc;\n"), [2]);
        assert_eq!(lines(idle_name, "a/src/commons.rs", "mod window; // mod util\n"), NOWHERE);
    }

    #[test]
    fn a_file_without_a_sentence_at_its_head_is_found() {
        for text in ["", "fn a() {}\n", "// Not a doc comment.\n", "//! placeholder\n"] {
            assert_eq!(lines(undocumented, "a.rs", text), [1], "{text}");
        }
        assert_eq!(lines(undocumented, "a.rs", "//! Counts what was lost.\n"), NOWHERE);
    }
}
