//! What must not leak into any file, and what documents name that must be there.

use std::collections::BTreeSet;

use crate::source::{Source, words};
use crate::tree::Violation;

const REGISTRY_MARKS: [&str; 4] = ["registry", "mirror", "artifactory", "nexus"];
const PUBLIC_REGISTRIES: [&str; 3] = ["registry.npmjs.org", "registry.k8s.io", "docs.rs"];
const REGISTRY_KEYS: [&str; 3] =
    [concat!("replace", "-with"), concat!("index", "-url ="), concat!("--index", "-url")];

/// No file knows on which machine it was written.
pub(crate) fn machine_path(path: &str, text: &str) -> Vec<Violation> {
    let roots = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let starts_path = |line: &str, root: &str| {
        let mut before = line.match_indices(root).map(|(at, _)| &line[..at]);
        before.any(|before| !before.ends_with(|c: char| c.is_alphanumeric() || "_.-~}".contains(c)))
    };
    numbered(path, text)
        .filter(|(_, line)| roots.iter().any(|root| starts_path(line, root)))
        .map(|(line, _)| {
            Violation::new(path, line, "a path of one machine: derive it or ask for it")
        })
        .collect()
}

/// No file knows from which registry its author's packages came.
pub(crate) fn registry_host(path: &str, text: &str) -> Vec<Violation> {
    let by_key = |line: &str| REGISTRY_KEYS.iter().any(|key| line.contains(key));
    numbered(path, text)
        .filter(|(_, line)| by_key(line) || hosts(line).any(is_private_registry))
        .map(|(line, _)| Violation::new(path, line, "a registry's address: leave it to the user"))
        .collect()
}

/// Tests that the sections of `path` under these headings name and no source has; without headings
/// it is all of the file. A name of one or two words is that of a file or a program.
pub(crate) fn unknown_tests(
    (path, text): (&str, &str),
    headings: &[&str],
    sources: &str,
) -> Vec<Violation> {
    let mut is_within = headings.is_empty();
    let within = (1..).zip(text.lines()).filter(|(_, line)| {
        if line.starts_with("## ") && !headings.is_empty() {
            is_within = headings.contains(line);
        }
        is_within
    });
    let named = quoted(within).filter(|(_, name)| name.matches('_').count() >= 2);
    let unknown = named.filter(|(_, name)| !sources.contains(&format!("fn {name}(")));
    let fix = |name| format!("no test is called {name}");
    unknown.map(|(line, name)| Violation::new(path, line, fix(name))).collect()
}

/// Functions and paths that a document names between backticks and that are not there. A function
/// is `Type::name` or `module::name`; a path may begin at any folder.
pub(crate) fn unknown_names(
    (path, text): (&str, &str),
    files: &[(String, String)],
) -> Vec<Violation> {
    let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let known: BTreeSet<String> = rust.flat_map(|(path, text)| functions(path, text)).collect();
    let paths: Vec<String> = files.iter().map(|(path, _)| format!("/{path}")).collect();

    let is_there = |name: &str| {
        if name.contains("::") {
            return known.contains(name);
        }
        let (start, end) = name.split_once('*').unwrap_or((name, ""));
        let (start, is_whole) = (format!("/{start}"), !name.contains('*') && !name.ends_with('/'));
        paths.iter().any(|path| match is_whole {
            true => path.ends_with(&start),
            false => path.contains(&start) && path.ends_with(end),
        })
    };
    let is_judged = |name: &str| name.contains("::") || is_path(name);
    let named = quoted((1..).zip(text.lines())).filter(|(_, name)| is_judged(name));
    let unknown = named.filter(|(_, name)| !is_there(name));
    let fix = |name| format!("{name} is not there");
    unknown.map(|(line, name)| Violation::new(path, line, fix(name))).collect()
}

/// Each text between backticks, with its line.
fn quoted<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> impl Iterator<Item = (usize, &'a str)> {
    lines.flat_map(|(n, line)| line.split('`').skip(1).step_by(2).map(move |name| (n, name)))
}

/// A file of source by its extension, or whatever has a folder. A route of HTTP begins with `/`.
fn is_path(name: &str) -> bool {
    let is_source = [".rs", ".py", ".tsx"].iter().any(|extension| name.ends_with(extension));
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-*".contains(c);
    (is_source || name.contains('/')) && !name.starts_with('/') && name.chars().all(plain)
}

/// `Type::function` of each method, and `module::function` of each other function, where the file
/// and each folder above it is a module: what a part defines, its root may pass on.
fn functions(path: &str, text: &str) -> Vec<String> {
    let modules: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let source = Source::new(text);
    let mut types = Vec::new();
    let mut found = Vec::new();
    for (_, code) in source.code() {
        if code.starts_with("impl") {
            types = words(code).collect();
        } else if code.starts_with("mod ") {
            types.clear();
        }
        let Some((_, after)) = code.split_once("fn ") else { continue };
        let Some(name) = words(after).next() else { continue };
        let owners = if code.starts_with(' ') { &types } else { &modules };
        found.extend(owners.iter().map(|owner| format!("{owner}::{name}")));
    }
    found
}

/// Folders and files that the code map of `ARCHITECTURE.md` names and that are not there, and
/// packages and rooms of a core that it leaves out. The map is the fenced block after the heading
/// `## Code map`: a path from the root begins each line, and that of a folder ends with `/`.
pub(crate) fn wrong_tree(architecture: &str, paths: &[String]) -> Vec<Violation> {
    let begun = (1..).zip(architecture.lines()).skip_while(|(_, line)| *line != "## Code map");
    let fenced = begun.skip_while(|(_, line)| !line.starts_with("```")).skip(1);
    let fenced = fenced.take_while(|(_, line)| !line.starts_with("```"));
    let mut named = BTreeSet::new();
    let mut broken = Vec::new();
    for (line, content) in fenced {
        let Some(path) = content.split_whitespace().next().map(str::to_owned) else { continue };
        let is_there = |p: &String| *p == path || (path.ends_with('/') && p.starts_with(&path));
        if !paths.iter().any(is_there) {
            broken.push(Violation::new("ARCHITECTURE.md", line, format!("{path} is not there")));
        }
        named.insert(path);
    }
    let packages = paths.iter().filter_map(|path| path.strip_suffix("Cargo.toml"));
    let packages = packages.filter(|package| !package.is_empty()).map(str::to_owned);
    let rooms = paths.iter().filter_map(|path| {
        let core = ["aggregator/src/core/", "node/src/core/"].into_iter();
        let (core, below) = core.filter_map(|c| Some((c, path.strip_prefix(c)?))).next()?;
        let (room, _) = below.split_once('/')?;
        (room != "tests").then(|| format!("{core}{room}/"))
    });
    let wanted: BTreeSet<String> = packages.chain(rooms).collect();
    let left_out = wanted.difference(&named).map(|folder| format!("the code map lacks {folder}"));
    broken.extend(left_out.map(|fix| Violation::new("ARCHITECTURE.md", 1, fix)));
    broken
}

/// Numbered lines; none for the lock file, which cargo writes.
fn numbered<'a>(path: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let text = if path.ends_with("Cargo.lock") { "" } else { text };
    (1..).zip(text.lines())
}

fn hosts(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("://").skip(1);
    after.filter_map(|rest| rest.split(['/', ':', '"', ' ', '>', ')', '`']).next())
}

fn is_private_registry(host: &str) -> bool {
    let marked = REGISTRY_MARKS.iter().any(|mark| host.contains(mark));
    host.contains('.') && marked && !PUBLIC_REGISTRIES.contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{NOWHERE, lines};

    #[test]
    fn paths_of_one_machine_are_found_and_parts_of_urls_are_not() {
        let bad = concat!("a\nrun /ho", "me/me/x\n--data=/wo", "rk/main\n");
        assert_eq!(lines(machine_path, "README.md", bad), [2, 3]);
        assert_eq!(lines(machine_path, "Cargo.lock", bad), NOWHERE);
        let good = concat!("https://example.org/wo", "rk/a\n${PWD}/wo", "rk/a\nhome/a\n");
        assert_eq!(lines(machine_path, "README.md", good), NOWHERE);
    }

    #[test]
    fn private_registries_are_found_and_public_ones_are_not() {
        let bad =
            concat!("\"https://reg", "istry.corp.example/simple\"\nreplace", "-with = \"x\"\n");
        assert_eq!(lines(registry_host, "pip.conf", bad), [1, 2]);
        let good = "https://registry.npmjs.org/x https://example.org/registry\nour registry\n";
        assert_eq!(lines(registry_host, "README.md", good), NOWHERE);
    }

    #[test]
    fn invariants_that_name_no_test_are_found() {
        let text = "`not_a_test_yet`\n## Invariants\n`a_is_b`, `a_is_c` in `mesh_exact`\n## End";
        let headings = ["## Invariants"];
        let unknown = |sources| lines_of(&unknown_tests(("a.md", text), &headings, sources));
        assert_eq!(unknown("fn a_is_b() {}"), [3]);
        assert_eq!(unknown("fn a_is_b() {}\nfn a_is_c(x: u8) {}"), NOWHERE);
        let all = unknown_tests(("a.md", text), &[], "fn a_is_b() {}\nfn a_is_c() {}");
        assert_eq!(lines_of(&all), [1]);
    }

    #[test]
    fn functions_and_paths_that_are_not_there_are_found() {
        let code = "impl Core {\n    fn on(&self) {}\n}\nfn free() {\n}\n";
        let files = [("node/src/core/mod.rs", code), ("trees/a/ok.txt", "")];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let good = "`Core::on`, `core::free`, `core/mod.rs`, `node/`, `trees/*/ok.txt`, `/metrics`";
        assert_eq!(unknown_names(("a.md", good), &files), []);
        let bad = "`Core::off`\n`Core::free`\n`core/main.rs`\n`lib.rs`\n`nod/`\n`trees/*/no.txt`";
        assert_eq!(lines_of(&unknown_names(("a.md", bad), &files)), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_tree_that_names_too_much_or_too_little_is_found() {
        let paths = ["Cargo.toml", "node/Cargo.toml", "node/src/core/intake/mod.rs", "README.md"];
        let paths = paths.map(str::to_owned);
        let map = |lines: &str| format!("# A\n## Code map\n\n```text\n{lines}```\n");
        let right = "README.md\nnode/   the agent\nnode/src/core/intake/  reads\n";
        assert_eq!(wrong_tree(&map(right), &paths), []);
        let more = format!("{right}gone.md\n");
        assert_eq!(lines_of(&wrong_tree(&map(&more), &paths)), [8]);
        let less = wrong_tree(&map("README.md\nnode/\n"), &paths);
        assert_eq!(less.len(), 1, "{less:?}");
        assert!(less[0].fix.ends_with("node/src/core/intake/"));
        assert_eq!(wrong_tree("# A\n", &paths).len(), 2);
    }

    fn lines_of(violations: &[Violation]) -> Vec<usize> {
        violations.iter().map(|violation| violation.line).collect()
    }
}
