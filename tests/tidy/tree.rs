//! The files of the repository, and the one way in which a rule is held against them.
//!
//! Knows git and the disk, and no rule.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// One place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The file, from the repository's root.
    pub(crate) path: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// What is wrong and what to do instead.
    pub(crate) fix: String,
}

impl Violation {
    /// A violation in `path` at `line`.
    pub(crate) fn new(path: &str, line: usize, fix: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, fix: fix.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.fix)
    }
}

/// A rule over one file: its path from the root and its text.
pub(crate) type Rule = fn(path: &str, text: &str) -> Vec<Violation>;

/// The repository's root. Read when the test runs, so that an archived test binary can be told
/// where the checkout lies.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package to tests");
    PathBuf::from(package).parent().expect("the package lies below the root").to_owned()
}

/// What others have written, and an update replaces.
const OF_OTHERS: &str = "deploy/advisories/crates/";

/// Paths of all files that git tracks or would track, and that exist, without those of others.
pub(crate) fn paths() -> Vec<String> {
    let listed = stdout("git", &["ls-files", "-co", "--exclude-standard", "-z"]);
    let root = root();
    let present = listed.split_terminator('\0').filter(|path| root.join(path).is_file());
    let own = present.filter(|path| !path.starts_with(OF_OTHERS));
    own.map(str::to_owned).collect()
}

/// The text of a file that is there.
pub(crate) fn read(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Path and text of every text file.
pub(crate) fn texts() -> Vec<(String, String)> {
    let texts = paths().into_iter().filter_map(|path| {
        let bytes = std::fs::read(root().join(&path)).expect("git has just listed this file");
        Some((path, String::from_utf8(bytes).ok()?))
    });
    texts.collect()
}

/// Standard output of a command that must succeed, run at the root.
pub(crate) fn stdout(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} failed: {complaint}");
    String::from_utf8(output.stdout).expect("paths and metadata here are UTF-8")
}

/// Fails with every place where a text file of the tree breaks `rule`.
pub(crate) fn obeys(rule: impl Fn(&str, &str) -> Vec<Violation>) {
    let root = root();
    let broken = paths().into_iter().flat_map(|path| {
        let bytes = std::fs::read(root.join(&path)).expect("git has just listed this file");
        String::from_utf8(bytes).map_or_else(|_| Vec::new(), |text| rule(&path, &text))
    });
    none(&broken.collect::<Vec<_>>());
}

/// Fails with the whole list unless it is empty.
pub(crate) fn none(broken: &[Violation]) {
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{} to put right:\n{}\n", broken.len(), lines.join("\n"));
}

/// What [`lines`] answers for text that keeps the rule.
pub(crate) const NOWHERE: [usize; 0] = [];

/// The lines at which `rule` finds `text` at fault, as a rule's own tests want them.
pub(crate) fn lines(rule: Rule, path: &str, text: &str) -> Vec<usize> {
    rule(path, text).into_iter().map(|violation| violation.line).collect()
}
