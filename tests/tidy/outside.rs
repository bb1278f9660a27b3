//! Files that read bytes from outside do not call what panics.

use crate::source::{Source, holds};
use crate::tree::Violation;

/// Where bytes from outside are read. Everything below these paths is held to the rule.
const READERS: [&str; 14] = [
    "schemas/src/wire/",
    "schemas/src/histogram/decode",
    "schemas/src/subject",
    "schemas/profile/src/pprof/",
    "schemas/profile/src/folded",
    "node/src/core/intake/",
    "node/src/io/",
    "node/profiler/src/layout/",
    "node/profiler/src/memory/",
    "node/profiler/src/native/",
    "node/profiler/src/reader/",
    "node/profiler/src/target/",
    "aggregator/src/core/ingest/",
    "aggregator/src/io/http/",
];
const PANICS: [&str; 6] =
    [".unwrap()", ".expect(", "panic!(", "unreachable!(", "todo!(", "unimplemented!("];

/// No panicking call where bytes from outside are read. A call that cannot fail stands in a line
/// whose comment above says why: `// Cannot fail: ..`.
pub(crate) fn panics_on_outside_bytes(path: &str, text: &str) -> Vec<Violation> {
    let reads = READERS.iter().any(|reader| path.starts_with(reader));
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
    if !reads || is_test || !path.ends_with(".rs") {
        return Vec::new();
    }
    let source = Source::new(text);
    let tests = source.test_regions();
    let lines: Vec<&str> = text.lines().collect();
    let excused = |line: usize| {
        let above = lines[..line - 1].iter().rev().take(3);
        above.clone().any(|line| line.trim_start().starts_with("// Cannot fail: "))
    };
    let calls = |code: &str| PANICS.iter().any(|call| holds(code, call) || code.contains(call));
    let found = source.code().filter(|(line, code)| {
        calls(code) && !tests.iter().any(|region| region.contains(line)) && !excused(*line)
    });
    let fix = "bytes from outside reach this: return an error, or state above why it cannot fail";
    found.map(|(line, _)| Violation::new(path, line, fix)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{NOWHERE, lines};

    #[test]
    fn panicking_calls_are_found_where_outside_bytes_are_read() {
        let text = "fn a() {\n    b().expect(\"c\");\n    unreachable!();\n}\n";
        assert_eq!(lines(panics_on_outside_bytes, "schemas/src/wire/a.rs", text), [2, 3]);
        assert_eq!(lines(panics_on_outside_bytes, "schemas/src/time.rs", text), NOWHERE);
        assert_eq!(lines(panics_on_outside_bytes, "schemas/src/wire/tests.rs", text), NOWHERE);
        let tested = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(lines(panics_on_outside_bytes, "schemas/src/wire/a.rs", &tested), NOWHERE);
        let excused = "    // Cannot fail: 4 of 4 bytes.\n    b().expect(\"c\");\n";
        assert_eq!(lines(panics_on_outside_bytes, "schemas/src/wire/a.rs", excused), NOWHERE);
    }
}
