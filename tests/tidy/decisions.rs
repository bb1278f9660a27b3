//! Links between code and the numbered decisions of the `DESIGN.md` files, in both directions.
//!
//! A decision is a heading such as `## N12: a message keeps its sequence number`; code refers to
//! it in a comment as `DESIGN N12`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Violation;

/// First letter of a decision's number, by the file that states it.
const FILES: [(&str, char); 4] = [
    ("schemas/DESIGN.md", 'S'),
    ("node/DESIGN.md", 'N'),
    ("aggregator/DESIGN.md", 'A'),
    ("drills/DESIGN.md", 'D'),
];
/// What stands before a number in a comment.
const MARK: &str = concat!("DESIGN", " ");

/// Numbers that are stated twice, stated under the wrong letter, referred to and not stated, or
/// stated and never referred to.
pub(crate) fn broken_links(files: &[(String, String)]) -> Vec<Violation> {
    let mut stated: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    let mut broken = Vec::new();
    for (path, text) in files {
        let Some((_, letter)) = FILES.iter().find(|(file, _)| file == path) else { continue };
        for (line, heading) in (1..).zip(text.lines()) {
            let Some(number) = heading.strip_prefix("## ").and_then(stated_number) else {
                continue;
            };
            if !number.starts_with(*letter) {
                let fix = format!("{number}: numbers of this file begin with {letter}");
                broken.push(Violation::new(path, line, fix));
            }
            if stated.insert(number.to_owned(), (path, line)).is_some() {
                broken.push(Violation::new(path, line, format!("{number} is stated twice")));
            }
        }
    }
    let mut referred = BTreeSet::new();
    for (path, text) in files.iter().filter(|(path, _)| is_source(path)) {
        for (line, number) in references(text) {
            if !stated.contains_key(&number) {
                broken.push(Violation::new(path, line, format!("no DESIGN.md states {number}")));
            }
            referred.insert(number);
        }
    }
    let orphans = stated.iter().filter(|(number, _)| !referred.contains(*number));
    broken.extend(orphans.map(|(number, (path, line))| {
        let fix = format!("no source refers to {number}: add `{MARK}{number}` where it is upheld");
        Violation::new(path, *line, fix)
    }));
    broken
}

fn is_source(path: &str) -> bool {
    let extensions = [".rs", ".py", ".toml", ".conf", ".yml"];
    extensions.iter().any(|extension| path.ends_with(extension)) && !path.starts_with("tests/tidy")
}

/// `N12` of `N12: a message keeps its sequence number`.
fn stated_number(heading: &str) -> Option<&str> {
    let (number, _) = heading.split_once(": ")?;
    is_number(number).then_some(number)
}

fn is_number(text: &str) -> bool {
    let mut chars = text.chars();
    let letter = chars.next().is_some_and(|c| FILES.iter().any(|(_, letter)| *letter == c));
    letter && text.len() > 1 && chars.all(|c| c.is_ascii_digit())
}

/// Line and number of every reference, also of further ones after a comma.
fn references(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        for (at, _) in content.match_indices(MARK) {
            let after = &content[at + MARK.len()..];
            let numbers = after
                .split(", ")
                .map(|part| part.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
            let numbers = numbers.take_while(|number| is_number(number));
            found.extend(numbers.map(|number| (line, number.to_owned())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        broken_links(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_in_both_directions_hold() {
        let design = "# Design\n\n## N1: a\n\n## N2: b\n\n## Other: c\n";
        let code = concat!("// DESIGN", " N1, N2: why.\n");
        assert_eq!(broken(&[("node/DESIGN.md", design), ("node/src/a.rs", code)]), [""; 0]);
    }

    #[test]
    fn a_reference_without_a_decision_and_a_decision_without_a_reference_are_found() {
        let code = concat!("\n// DESIGN", " N3\n");
        let found = broken(&[("node/DESIGN.md", "## N1: a\n"), ("node/src/a.rs", code)]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], "node/src/a.rs:2: no DESIGN.md states N3");
        assert!(found[1].starts_with("node/DESIGN.md:1: no source refers to N1"), "{found:?}");
    }

    #[test]
    fn a_duplicate_or_misplaced_number_is_found() {
        let code = concat!("// DESIGN", " N1, A1\n");
        let design = "## N1: a\n## N1: b\n## A1: c\n";
        let found = broken(&[("node/DESIGN.md", design), ("node/src/a.rs", code)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("N1 is stated twice"));
        assert!(found[1].contains("numbers of this file begin with N"));
    }
}
