//! Which file of a crate uses which other one, read from imports and paths in production code.
//!
//! An import is followed through re-exports to the file that defines the name, so a `mod.rs` that
//! only passes a child's type on is not the owner of that type. Code under `#[cfg(test)]` and
//! names that other crates own are left out. Macros are not expanded.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, words};

/// A module's path inside its crate: `["core", "outbox"]`.
type Path = Vec<String>;

/// Files of one crate and what each uses, all by path from the root.
pub(crate) struct Graph {
    /// From a file to the files whose names it uses.
    pub(crate) uses: BTreeMap<String, BTreeSet<String>>,
}

struct Module {
    file: String,
    /// Name that an import brings into this module, and the path it stands for.
    imports: BTreeMap<String, Path>,
    /// Imports of everything in a module.
    globs: Vec<Path>,
    /// All paths that start with `crate`, `super` or `self`, resolved against the crate's root.
    paths: Vec<Path>,
}

impl Graph {
    /// Reads the files below `src` (such as `node/src/`); `text` gives a file's text.
    pub(crate) fn new(src: &str, files: &[String], text: impl Fn(&str) -> String) -> Self {
        let mut modules = BTreeMap::new();
        for file in files {
            let Some(path) = module_path(src, file) else { continue };
            modules.insert(path, Module::read(file, &text(file)));
        }
        let children: BTreeSet<Path> = modules.keys().cloned().collect();
        for (at, module) in &mut modules {
            module.anchor(at, &children);
        }
        let mut uses = BTreeMap::new();
        for (at, module) in &modules {
            let targets = module.paths.iter().filter_map(|path| owner(&modules, path, 0));
            let files = targets.filter(|owner| *owner != at);
            let files = files.filter_map(|owner| modules.get(owner)).map(|m| m.file.clone());
            uses.insert(module.file.clone(), files.collect());
        }
        Self { uses }
    }

    /// The groups of files that import each other, each sorted; empty when there is none.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        circles(&self.uses)
    }

    /// The same graph between the folders and files directly below `folder`, without its own
    /// `mod.rs`, which composes them.
    pub(crate) fn rooms(&self, folder: &str) -> BTreeMap<String, BTreeSet<String>> {
        let room = |file: &str| {
            let below = file.strip_prefix(folder)?;
            let name = below.split('/').next()?.trim_end_matches(".rs");
            (name != "mod" && name != "tests").then(|| name.to_owned())
        };
        let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, used) in &self.uses {
            let Some(from) = room(file) else { continue };
            let into = used.iter().filter_map(|file| room(file)).filter(|to| *to != from);
            rooms.entry(from.clone()).or_default().extend(into.collect::<Vec<_>>());
        }
        rooms
    }
}

/// Groups of nodes that reach each other.
pub(crate) fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let ahead: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|start| (start, reached(edges, start))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (start, reached) in &ahead {
        let back = |other: &&String| ahead.get(*other).is_some_and(|from| from.contains(*start));
        let circle: Vec<String> = reached.iter().filter(back).cloned().collect();
        if !circle.is_empty() {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reached(edges: &BTreeMap<String, BTreeSet<String>>, start: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start.to_owned()];
    while let Some(next) = open.pop() {
        let new = edges.get(&next).into_iter().flatten().filter(|to| reached.insert((*to).clone()));
        open.extend(new.cloned());
    }
    reached
}

/// The module that `file` holds, unless it is a program, a test or outside `src`.
fn module_path(src: &str, file: &str) -> Option<Path> {
    let below = file.strip_prefix(src)?.strip_suffix(".rs")?;
    let mut path: Path = below.split('/').map(str::to_owned).collect();
    if path.iter().any(|part| part == "tests" || part == "bin") || below == "main" {
        return None;
    }
    if matches!(path.last().map(String::as_str), Some("mod" | "lib")) {
        path.pop();
    }
    Some(path)
}

/// The module that defines the name at the end of `path`, through at most eight re-exports.
fn owner<'a>(
    modules: &'a BTreeMap<Path, Module>,
    path: &[String],
    depth: usize,
) -> Option<&'a Path> {
    let known = (0..=path.len()).rev().find(|len| modules.contains_key(&path[..*len]))?;
    let (at, module) = modules.get_key_value(&path[..known])?;
    let Some(name) = path.get(known) else { return Some(at) };
    let named = module.imports.get(name).cloned();
    let through_glob = || {
        let mut globs = module.globs.iter().map(|glob| [glob.clone(), vec![name.clone()]].concat());
        globs.find(|path| owner(modules, path, depth + 1).is_some_and(|found| found != at))
    };
    match named.or_else(through_glob) {
        Some(target) if depth < 8 && target != path => {
            owner(modules, &target, depth + 1).or(Some(at))
        }
        _ => Some(at),
    }
}

impl Module {
    fn read(file: &str, text: &str) -> Self {
        let source = Source::new(text);
        let tests = source.test_regions();
        let tested = |line: &usize| tests.iter().any(|region| region.contains(line));
        let mut module = Self {
            file: file.to_owned(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            paths: Vec::new(),
        };
        for (line, import) in source.imports() {
            if tested(&line) {
                continue;
            }
            let body = import.split_once("use ").map_or("", |(_, body)| body);
            for (path, name) in leaves(body.split(';').next().unwrap_or_default()) {
                match name.as_str() {
                    "*" => module.globs.push(path),
                    "_" => module.paths.push(path),
                    _ => {
                        module.paths.push(path.clone());
                        module.imports.insert(name, path);
                    }
                }
            }
        }
        for (line, code) in source.code() {
            if !tested(&line) && !crate::source::opens_import(code) {
                module.paths.extend(inline(code));
            }
        }
        module
    }

    /// Makes every path start at the crate's root; what another crate owns is dropped.
    fn anchor(&mut self, at: &Path, modules: &BTreeSet<Path>) {
        let resolve = |path: &Path| absolute(path, at, modules);
        self.paths = self.paths.iter().filter_map(resolve).collect();
        self.globs = self.globs.iter().filter_map(resolve).collect();
        let kept =
            self.imports.iter().filter_map(|(name, path)| Some((name.clone(), resolve(path)?)));
        self.imports = kept.collect();
        self.paths.extend(self.globs.iter().cloned());
    }
}

/// `path` as seen from the crate's root, if it leads into this crate.
fn absolute(path: &Path, at: &Path, modules: &BTreeSet<Path>) -> Option<Path> {
    let mut base = at.clone();
    let mut rest = &path[..];
    match rest.first().map(String::as_str) {
        Some("crate") => {
            base.clear();
            rest = &rest[1..];
        }
        Some("self") => rest = &rest[1..],
        Some("super") => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        Some(first) => {
            let child = [base.clone(), vec![first.to_owned()]].concat();
            if !modules.contains(&child) {
                return None;
            }
        }
        None => return None,
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// Each name that the body of an import brings, with its path: `a::{b, c as d}` brings `b`, `d`.
fn leaves(body: &str) -> Vec<(Path, String)> {
    let body: String = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    branch(&body, &[], &mut found);
    found
}

fn branch(body: &str, prefix: &[String], found: &mut Vec<(Path, String)>) {
    let body = body.trim().trim_start_matches("::");
    if let Some((head, rest)) = body.split_once('{') {
        let head = head.split("::").map(str::trim).filter(|part| !part.is_empty());
        let prefix: Path = prefix.iter().cloned().chain(head.map(str::to_owned)).collect();
        let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
        for part in top_level(inside) {
            branch(part, &prefix, found);
        }
        return;
    }
    let (path, alias) = body.split_once(" as ").unwrap_or((body, ""));
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty());
    let mut path: Path = prefix.iter().cloned().chain(parts.map(str::to_owned)).collect();
    let Some(last) = path.last().cloned() else { return };
    if last == "self" || last == "*" {
        path.pop();
    }
    let own = if last == "self" { path.last().cloned().unwrap_or_default() } else { last };
    let name = if alias.is_empty() { own } else { alias.trim().to_owned() };
    found.push((path, name));
}

/// Splits at commas outside braces.
fn top_level(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Paths in a line of code that start with `crate::` or `super::`.
fn inline(code: &str) -> Vec<Path> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // `pub(in crate::core)` states who may see an item; it uses nothing.
            let is_visibility = code[..at].ends_with("pub(in ");
            if is_visibility || before.is_some_and(|c| c.is_alphanumeric() || "_:".contains(c)) {
                continue;
            }
            let end = code[at..].find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let path = &code[at..at + end.unwrap_or(code.len() - at)];
            found.push(words(path).map(str::to_owned).collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let names: Vec<String> = files.iter().map(|(name, _)| format!("a/src/{name}")).collect();
        Graph::new("a/src/", &names, |path| {
            let found = files.iter().find(|(name, _)| path == format!("a/src/{name}"));
            found.expect("only these are used").1.to_owned()
        })
    }

    fn used<'a>(graph: &'a Graph, file: &str) -> Vec<&'a str> {
        graph.uses[&format!("a/src/{file}")].iter().map(String::as_str).collect()
    }

    #[test]
    fn imports_lead_to_the_file_that_defines_the_name() {
        let graph = graph(&[
            ("lib.rs", "pub mod core;\npub mod io;\n"),
            ("core/mod.rs", "mod queue;\nmod shape;\npub use queue::Queue;\npub struct Core;\n"),
            ("core/queue.rs", "use super::shape::{Round, Square as S};\npub struct Queue;\n"),
            ("core/shape.rs", "use std::fmt;\npub struct Round;\n"),
            (
                "io/mod.rs",
                "use crate::core::{Core, Queue};\npub(in crate::io) fn f() { crate::core::shape::g() }\n",
            ),
        ]);
        assert_eq!(used(&graph, "core/queue.rs"), ["a/src/core/shape.rs"]);
        assert_eq!(used(&graph, "core/shape.rs"), [""; 0]);
        assert_eq!(
            used(&graph, "io/mod.rs"),
            ["a/src/core/mod.rs", "a/src/core/queue.rs", "a/src/core/shape.rs"]
        );
        assert!(graph.circles().is_empty());
    }

    #[test]
    fn a_child_that_uses_its_parents_type_makes_a_circle() {
        let graph = graph(&[
            ("core/mod.rs", "mod queue;\nuse queue::Queue;\npub struct Limit;\n"),
            ("core/queue.rs", "use super::Limit;\npub struct Queue;\n"),
        ]);
        assert_eq!(graph.circles(), [["a/src/core/mod.rs", "a/src/core/queue.rs"]]);
    }

    #[test]
    fn a_circle_of_three_is_found_and_tests_make_none() {
        let three = |third: &str| {
            graph(&[
                ("a.rs", "use crate::b::B;\n"),
                ("b.rs", "use crate::c::C;\n"),
                ("c.rs", third),
            ])
            .circles()
            .len()
        };
        assert_eq!(three("use crate::a::A;\n"), 1);
        assert_eq!(three("#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"), 0);
    }

    #[test]
    fn rooms_are_the_folders_below_one_folder() {
        let graph = graph(&[
            ("core/mod.rs", "mod fleet;\nmod rules;\nuse fleet::Fleet;\nuse rules::Rules;\n"),
            ("core/fleet/mod.rs", "mod node;\n"),
            ("core/fleet/node.rs", "use crate::core::rules::Limit;\n"),
            ("core/rules/mod.rs", "pub struct Limit;\n"),
        ]);
        let rooms = graph.rooms("a/src/core/");
        assert_eq!(rooms["fleet"].iter().collect::<Vec<_>>(), ["rules"]);
        assert!(rooms["rules"].is_empty());
    }
}
