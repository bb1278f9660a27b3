//! A view of Rust source in which only code is left: comments are gone, literals are empty.
//!
//! Good enough for files that rustfmt has laid out; it does not parse, expand macros or resolve
//! names. Line numbers are those of the original text.

use std::ops::RangeInclusive;

/// Rust source, ready to be searched for words and brackets. Lines count from 1.
pub(crate) struct Source {
    code: Vec<String>,
}

/// One `fn` with a body or without.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// From the line with `fn` to the line that ends it.
    pub(crate) lines: RangeInclusive<usize>,
}

impl Source {
    /// Reads `text`; unbalanced source is read to its end without complaint.
    pub(crate) fn new(text: &str) -> Self {
        let mut code = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if !matches!(next, '/' | '"' | 'r' | '\'') {
                code.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            }
            let skipped = comment(rest).or_else(|| literal(rest, code.chars().last()));
            let (taken, rest_of_text) = rest.split_at(skipped.unwrap_or(next.len_utf8()));
            match skipped {
                None => code.push(next),
                Some(_) if comment(rest).is_some() => code.extend(newlines(taken)),
                Some(_) => {
                    code.push_str("\"\"");
                    code.extend(newlines(taken));
                }
            }
            rest = rest_of_text;
        }
        Self { code: code.split('\n').map(str::to_owned).collect() }
    }

    /// Line number and code of every line.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
    }

    /// Every function, nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function<'_>> {
        let named = self.code().filter_map(|(line, code)| Some((line, function_name(code)?)));
        named.map(|(line, name)| Function { name, lines: line..=self.item_end(line) }).collect()
    }

    /// Line ranges of items that exist only under test.
    pub(crate) fn test_regions(&self) -> Vec<RangeInclusive<usize>> {
        let marks = ["#[cfg(test)]", "#[cfg(all(test"];
        let starts = self
            .code()
            .filter(|(_, code)| marks.iter().any(|mark| code.trim_start().starts_with(mark)));
        starts.map(|(line, _)| line..=self.item_end(line)).collect()
    }

    /// First line and code of every import, however many lines it takes.
    pub(crate) fn imports(&self) -> Vec<(usize, String)> {
        let starts = self.code().filter(|(_, code)| opens_import(code));
        starts.map(|(line, _)| (line, self.statement(line))).collect()
    }

    /// From the start of a line to the end of the line with a semicolon.
    fn statement(&self, first: usize) -> String {
        let lines = &self.code[first - 1..];
        let ends = lines.iter().position(|code| code.contains(';'));
        lines[..ends.map_or(lines.len(), |at| at + 1)].concat()
    }

    /// The line on which the item that starts on line `first` ends: at its closing brace, or at
    /// a semicolon outside all brackets.
    fn item_end(&self, first: usize) -> usize {
        let (mut braces, mut brackets) = (0_i32, 0_i32);
        for (line, code) in self.code().skip(first - 1) {
            for c in code.chars() {
                match c {
                    '{' => braces += 1,
                    '}' => braces -= 1,
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets -= 1,
                    _ => {}
                }
                let closed = c == '}' || c == ';';
                if closed && braces <= 0 && brackets <= 0 {
                    return line;
                }
            }
        }
        self.code.len()
    }
}

/// True for the first line of an import, whatever its visibility.
pub(crate) fn opens_import(code: &str) -> bool {
    words(code).take(3).any(|word| word == "use")
}

/// The identifiers and keywords of a line of code.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// True when `code` holds `token` (`sleep(`, `select!`) as a word of its own, other than in a
/// definition of that name.
pub(crate) fn holds(code: &str, token: &str) -> bool {
    let mut before = code.match_indices(token).map(|(at, _)| &code[..at]);
    before.any(|before| !before.ends_with(is_word) && !before.ends_with("fn "))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn newlines(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| *c == '\n')
}

fn function_name(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("fn ")?;
    let name = words(after).next()?;
    (!before.ends_with(is_word)).then_some(name)
}

/// Length of the comment that `text` starts with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let mut at = text.strip_prefix("/*").map(|_| 2)?;
    let mut depth = 1;
    while depth > 0 && at < text.len() {
        let rest = &text[at..];
        let step = if rest.starts_with("/*") || rest.starts_with("*/") { 2 } else { 1 };
        depth += i32::from(rest.starts_with("/*")) - i32::from(rest.starts_with("*/"));
        at += if step == 2 { 2 } else { rest.chars().next().map_or(1, char::len_utf8) };
    }
    Some(at)
}

/// Length of the string or character literal that `text` starts with.
fn literal(text: &str, before: Option<char>) -> Option<usize> {
    let after_word = before.is_some_and(|c| is_word(c) && c != 'b' && c != 'c');
    if text.starts_with('r') && !after_word {
        return raw_string(text);
    }
    if text.starts_with('"') {
        return Some(escaped(text, '"'));
    }
    let inner = text.strip_prefix('\'')?;
    let mut chars = inner.chars();
    let (first, second) = (chars.next()?, chars.next()?);
    (first == '\\' || second == '\'').then(|| escaped(text, '\''))
}

fn raw_string(text: &str) -> Option<usize> {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    let open = 1 + hashes;
    let body = text[open..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&close).map_or(text.len(), |at| open + 1 + at + close.len()))
}

/// Length up to and with the first unescaped `quote` after the opening one.
fn escaped(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stripped(text: &str) -> String {
        Source::new(text).code.join("\n")
    }

    #[test]
    fn only_code_survives() {
        let table = [
            ("a // b\nc", "a \nc"),
            ("a /* b /* c */ d */ e", "a  e"),
            ("f(\"x // y\", 1)", "f(\"\", 1)"),
            ("f(\"a\\\"b\", 'c', '\\'', '\\\\')", "f(\"\", \"\", \"\", \"\")"),
            ("r#\"a \" b\"# + br\"c\"", "\"\" + b\"\""),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("let r#type = for_r;", "let r#type = for_r;"),
            ("\"é\" 'é' // é", "\"\" \"\" "),
        ];
        for (text, code) in table {
            assert_eq!(stripped(text), code, "{text}");
        }
    }

    #[test]
    fn functions_end_at_their_own_brace_or_semicolon() {
        let text =
            "trait T {\n    fn a(x: [u8; 2]);\n}\nfn b() {\n    if x {\n    }\n    \"}\";\n}\n";
        let source = Source::new(text);
        let found: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("a", 2..=2), ("b", 4..=8)]);
    }

    #[test]
    fn test_regions_cover_the_module_and_nothing_after_it() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(Source::new(text).test_regions(), [2..=5]);
    }

    #[test]
    fn imports_are_joined_over_lines() {
        let text = "pub(crate) use a::b;\nuse c::{\n    d,\n    e,\n};\nuse_it();\n";
        let found = Source::new(text).imports();
        let joined = ["pub(crate) use a::b;", "use c::{    d,    e,};"].map(str::to_owned);
        assert_eq!(found, [1, 2].into_iter().zip(joined).collect::<Vec<_>>());
    }

    #[test]
    fn a_token_differs_from_a_definition_and_a_longer_name() {
        for (code, expected) in
            [("a::sleep(x)", true), ("fn sleep(", false), ("no_sleep(x)", false), ("sleep", false)]
        {
            assert_eq!(holds(code, "sleep("), expected, "{code}");
        }
    }

    proptest! {
        #[test]
        fn no_text_loses_or_gains_a_line(text in "[a-z'\"#/*\\\\r\n{}é ]{0,60}") {
            let source = Source::new(&text);
            prop_assert_eq!(source.code.len(), text.split('\n').count());
        }
    }
}
