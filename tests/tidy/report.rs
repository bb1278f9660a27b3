//! What is taste: a report for reviewers with the outliers and the change since the last tag.
//!
//! Nothing here fails a test. A file that stands in the report should have a reason to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::source::{Source, words};

const FILE_LINES: usize = 300;
const FUNCTION_LINES: usize = 60;
const SIBLINGS: usize = 15;
const IMPL_FILES: usize = 2;
const ROWS_MAX: usize = 12;
/// Private words that a standard word replaces, and verbs that people do and programs do not.
const WORDS: [&str; 24] = [
    "told",
    "tell",
    "tells",
    "said",
    "say",
    "says",
    "heard",
    "hear",
    "hears",
    "nobody",
    "whoever",
    "somebody",
    "his",
    "testament",
    "heir",
    "farewell",
    "entrusted",
    "blur",
    "hearing",
    "unseen",
    "keeping",
    "moment",
    "standing",
    "itself",
];

/// A source file by its path from the root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The sums that one commit is compared with another by.
#[derive(Default)]
pub(crate) struct Sums {
    production: usize,
    tests: usize,
    files: usize,
    words: BTreeMap<&'static str, usize>,
}

/// Lines of production and test code and private words in `files`.
pub(crate) fn sums(files: &[File]) -> Sums {
    let mut sums = Sums::default();
    for file in files {
        for word in words(&file.text) {
            let known = WORDS.iter().find(|known| word.eq_ignore_ascii_case(known));
            if let Some(known) = known.filter(|_| !file.path.starts_with("tests/tidy")) {
                *sums.words.entry(known).or_default() += 1;
            }
        }
        if file.path.ends_with(".rs") {
            let (production, tests) = lines(file);
            sums.files += 1;
            sums.production += production;
            sums.tests += tests;
        }
    }
    sums
}

/// The whole report; `before` are the sums at the last tag and its name.
pub(crate) fn report(files: &[File], before: Option<(&str, &Sums)>) -> String {
    let mut text = String::new();
    let rust: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    let long = rust.iter().map(|file| (lines(file).0, file.path.clone()));
    table(&mut text, "files by production lines", FILE_LINES, long);
    let functions = rust.iter().filter(|file| !is_test(&file.path)).flat_map(|file| {
        let source = Source::new(&file.text);
        let named = source.functions().into_iter();
        named
            .map(|f| (f.lines.clone().count(), format!("{} in {}", f.name, file.path)))
            .collect::<Vec<_>>()
    });
    table(&mut text, "functions by lines", FUNCTION_LINES, functions);
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &rust {
        let (folder, _) = file.path.rsplit_once('/').unwrap_or_default();
        *folders.entry(folder).or_default() += 1;
    }
    let siblings = folders.into_iter().map(|(folder, count)| (count, folder.to_owned()));
    table(&mut text, "files in one folder", SIBLINGS, siblings);
    let production: Vec<&File> = rust.iter().copied().filter(|file| !is_test(&file.path)).collect();
    table(&mut text, "files with an `impl` of one type", IMPL_FILES, impls(&production));
    table(&mut text, "public types of one crate with one name", 1, repeated(&production));
    compare(&mut text, &sums(files), before);
    text
}

fn table(
    text: &mut String,
    title: &str,
    above: usize,
    rows: impl Iterator<Item = (usize, String)>,
) {
    let mut rows: Vec<_> = rows.filter(|(count, _)| *count > above).collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let _ = writeln!(text, "{title}, more than {above}: {}", rows.len());
    for (count, name) in rows.iter().take(ROWS_MAX) {
        let _ = writeln!(text, "  {count:>5}  {name}");
    }
}

fn compare(text: &mut String, now: &Sums, before: Option<(&str, &Sums)>) {
    let (since, before) = before.map_or((String::from("no tag yet"), None), |(tag, sums)| {
        (format!("change since {tag}"), Some(sums))
    });
    let _ = writeln!(text, "sums ({since})");
    let mut row = |name: &str, now: usize, before: Option<usize>| {
        let change = before.map_or_else(String::new, |before| {
            format!(
                "  {:+}",
                i128::try_from(now).unwrap_or(0) - i128::try_from(before).unwrap_or(0)
            )
        });
        let _ = writeln!(text, "  {name:<28} {now:>7}{change}");
    };
    row("Rust files", now.files, before.map(|b| b.files));
    row("lines of production code", now.production, before.map(|b| b.production));
    row("lines of test code", now.tests, before.map(|b| b.tests));
    let ratio = |sums: &Sums| sums.tests * 100 / sums.production.max(1);
    row("test to production, percent", ratio(now), before.map(ratio));
    for word in WORDS {
        let count = |sums: &Sums| sums.words.get(word).copied().unwrap_or(0);
        if count(now) > 0 {
            row(&format!("word `{word}`"), count(now), before.map(count));
        }
    }
}

fn is_test(path: &str) -> bool {
    let by_folder = path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"));
    by_folder || path.ends_with("tests.rs")
}

/// Lines of production code and of test code.
fn lines(file: &File) -> (usize, usize) {
    let all = file.text.lines().count();
    if is_test(&file.path) {
        return (0, all);
    }
    let tested = Source::new(&file.text).test_regions();
    let tested = tested.into_iter().map(Iterator::count).sum::<usize>().min(all);
    (all - tested, tested)
}

fn package(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(package, _)| package)
}

/// How many files hold an `impl` of each type, traits' implementations included.
fn impls(files: &[&File]) -> impl Iterator<Item = (usize, String)> {
    let mut found: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        for (_, code) in Source::new(&file.text).code() {
            let Some(rest) = code.strip_prefix("impl") else { continue };
            let rest = rest.split_once(" for ").map_or(rest, |(_, rest)| rest);
            let rest =
                rest.strip_prefix('<').and_then(|r| r.split_once("> ")).map_or(rest, |r| r.1);
            let name = words(rest).next().unwrap_or_default();
            if name.starts_with(char::is_uppercase) {
                let key = (package(&file.path).to_owned(), name.to_owned());
                found.entry(key).or_default().insert(&file.path);
            }
        }
    }
    let rows = found.into_iter();
    rows.map(|((package, name), files)| (files.len(), format!("{name} in {package}")))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Public types that share their name with another one of the same crate.
fn repeated(files: &[&File]) -> impl Iterator<Item = (usize, String)> {
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for file in files {
        for (_, code) in Source::new(&file.text).code() {
            let mut parts = words(code);
            let opens = code.starts_with("pub struct ")
                || code.starts_with("pub enum ")
                || code.starts_with("pub type ")
                || code.starts_with("pub trait ");
            if let Some(name) = parts.nth(2).filter(|_| opens) {
                *found.entry((package(&file.path).to_owned(), name.to_owned())).or_default() += 1;
            }
        }
    }
    let rows = found.into_iter();
    rows.map(|((package, name), count)| (count, format!("{name} in {package}")))
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn outliers_are_listed_and_others_are_not() {
        let long = format!("fn a() {{\n{}}}\n", "    b();\n".repeat(FILE_LINES));
        let files = [
            file("a/src/long.rs", &long),
            file("a/src/short.rs", "pub struct Same;\nimpl Same {}\n"),
            file("a/src/other.rs", "pub struct Same;\nimpl Same {}\n"),
            file("a/src/third.rs", "impl Clone for Same {}\n"),
            file("a/tests/long.rs", &long),
        ];
        let text = report(&files, None);
        let has = |line: &str| text.lines().any(|found| found.trim_start() == line);
        assert!(has("302  a/src/long.rs"), "{text}");
        assert!(has("302  a in a/src/long.rs"), "{text}");
        assert!(has("3  Same in a"), "{text}");
        assert!(has("2  Same in a"), "{text}");
        assert!(!text.contains("tests/long.rs") && !text.contains("short.rs"), "{text}");
    }

    #[test]
    fn sums_count_tests_apart_and_show_the_change() {
        let text = "fn told() {}\n#[cfg(test)]\nmod tests {\n    fn a() {}\n}\n";
        let now = sums(&[file("a/src/b.rs", text), file("a/tests/c.rs", "fn told() {}\n")]);
        assert_eq!((now.files, now.production, now.tests), (2, 1, 5));
        assert_eq!(now.words["told"], 2);
        let report = report(&[file("a/src/b.rs", text)], Some(("v1", &now)));
        assert!(report.contains("change since v1"), "{report}");
        assert!(report.lines().any(|line| line.ends_with("4  -1")), "{report}");
    }
}
