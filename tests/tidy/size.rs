//! How much a reader has to take in at once: files, functions, lines, and `main.rs`.

use crate::source::Source;
use crate::tree::Violation;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;
const MAIN_LINES_MAX: usize = 60;

/// Rust files stay short enough to be read in one sitting.
pub(crate) fn file_length(path: &str, text: &str) -> Vec<Violation> {
    let is_main = path == "main.rs" || path.ends_with("/main.rs");
    let max = if is_main { MAIN_LINES_MAX } else { FILE_LINES_MAX };
    let len = text.lines().count();
    if !path.ends_with(".rs") || len <= max {
        return Vec::new();
    }
    vec![Violation::new(path, max + 1, format!("{len} lines, more than {max}: split by idea"))]
}

/// Functions stay short enough to be seen at once.
pub(crate) fn function_length(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let mut broken = Vec::new();
    for function in Source::new(text).functions() {
        let (name, len) = (function.name, function.lines.clone().count());
        if len > FUNCTION_LINES_MAX {
            let fix = format!("`{name}` has {len} lines, more than {FUNCTION_LINES_MAX}: split it");
            broken.push(Violation::new(path, *function.lines.start(), fix));
        }
    }
    broken
}

/// Rust lines fit a narrow window. Data inside a literal of several lines cannot be broken and
/// is let through, and so is what is too wide for a URL's sake alone.
pub(crate) fn line_width(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let source = Source::new(text);
    let wide = source.raw().filter(|(_, line)| width_beside_urls(line) > COLUMNS_MAX);
    let fix = format!("wider than {COLUMNS_MAX} columns: break the line");
    wide.map(|(line, _)| Violation::new(path, line, fix.as_str())).collect()
}

fn width_beside_urls(line: &str) -> usize {
    let urls = line.split(' ').filter(|word| word.contains("://"));
    line.chars().count() - urls.map(|url| url.chars().count()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{NOWHERE, lines};

    #[test]
    fn a_file_of_400_lines_passes_and_of_401_fails() {
        let doc = "//! Doc.\n";
        assert_eq!(lines(file_length, "a/src/b.rs", &doc.repeat(400)), NOWHERE);
        assert_eq!(lines(file_length, "a/src/b.rs", &doc.repeat(401)), [401]);
        assert_eq!(lines(file_length, "a/b.css", &doc.repeat(401)), NOWHERE);
    }

    #[test]
    fn a_main_of_60_lines_passes_and_of_61_fails() {
        assert_eq!(lines(file_length, "a/src/main.rs", &"\n".repeat(60)), NOWHERE);
        assert_eq!(lines(file_length, "a/src/main.rs", &"\n".repeat(61)), [61]);
        assert_eq!(lines(file_length, "a/src/domain.rs", &"\n".repeat(61)), NOWHERE);
    }

    #[test]
    fn a_function_of_70_lines_passes_and_of_71_fails() {
        let function = |body| format!("\nfn a() {{\n{}}}\n", "    b();\n".repeat(body));
        assert_eq!(lines(function_length, "a.rs", &function(68)), NOWHERE);
        assert_eq!(lines(function_length, "a.rs", &function(69)), [2]);
    }

    #[test]
    fn only_urls_and_literal_data_may_be_wider_than_100_columns() {
        let wide = "x".repeat(101);
        let table = [
            ("x".repeat(100), vec![]),
            (wide.clone(), vec![1]),
            ("é".repeat(100), vec![]),
            (format!("/// <https://example.org/{wide}>"), vec![]),
            (format!("/// {wide} <https://example.org>"), vec![1]),
            (format!("a(r\"\n{wide}\n\");"), vec![]),
            (format!("a(r\"\nb\");{wide}"), vec![2]),
        ];
        for (text, expected) in table {
            assert_eq!(lines(line_width, "a.rs", &text), expected, "{text}");
        }
    }
}
