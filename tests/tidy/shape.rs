//! Where side effects may live: pure cores, and one `select!` in a driver.

use crate::source::{Source, holds, opens_import, words};
use crate::tree::Violation;

const COLUMNS_MAX: usize = 100;

const IMPURE: [&str; 14] = [
    "tokio",
    "async",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "RandomState",
    "getrandom",
    "println",
    "eprintln",
    "tracing",
    "reqwest",
    "axum",
    "plimsoll_clock",
];
/// Crates that are a core as a whole.
const CORE_CRATES: [&str; 1] = ["aggregator/blame/src/"];
/// Modules that are impure, by the path that leads to them.
const IMPURE_MODULES: [(&str, &[&str]); 1] =
    [("std::", &["fs", "net", "env", "process", "thread"])];

/// Packages in which one driver joins a core and its io, with that driver.
const DRIVEN: [(&str, &str); 2] =
    [("node/src/", "node/src/driver/mod.rs"), ("aggregator/src/", "aggregator/src/driver/mod.rs")];

/// Cores take `now` and an event and return effects; nothing else gets in.
pub(crate) fn impure_core(path: &str, text: &str) -> Vec<Violation> {
    let is_core_crate = CORE_CRATES.iter().any(|source| path.starts_with(source));
    let is_core = path.contains("/src/core/") || path.ends_with("/src/core.rs") || is_core_crate;
    if !is_core || !path.ends_with(".rs") {
        return Vec::new();
    }
    let source = Source::new(text);
    let lines = source.code().map(|(line, code)| (line, code.to_owned()));
    let single = lines.filter(|(_, code)| !opens_import(code));
    let mut broken = Vec::new();
    for (line, code) in single.chain(source.imports()) {
        for word in impurities(&code) {
            let fix = format!("`{word}` in a core: pass it in, return an effect, or keep order");
            broken.push(Violation::new(path, line, fix));
        }
    }
    broken
}

fn impurities(code: &str) -> Vec<&str> {
    let mut found: Vec<&str> = words(code).filter(|word| IMPURE.contains(word)).collect();
    for (path, modules) in IMPURE_MODULES {
        let below = code.split_once(path).map_or("", |(_, below)| below);
        found.extend(words(below).filter(|word| modules.contains(word)));
    }
    found
}

/// In node and aggregator `select!` stands in the driver, at most once. Elsewhere there is no
/// core to protect.
pub(crate) fn stray_select(path: &str, text: &str) -> Vec<Violation> {
    let driven = DRIVEN.iter().find(|(package, _)| path.starts_with(package));
    let Some((_, driver)) = driven.filter(|_| path.ends_with(".rs")) else { return Vec::new() };
    let source = Source::new(text);
    let selects = source.code().filter(|(_, code)| holds(code, "select!"));
    let in_driver = path == *driver;
    let fix = "one task selects: send an event to the driver's only `select!`";
    selects.skip(usize::from(in_driver)).map(|(line, _)| Violation::new(path, line, fix)).collect()
}

/// Comments fit a narrow window; rustfmt breaks code. A URL cannot be broken.
pub(crate) fn comment_width(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_comment(line));
    let wide = lines.filter(|(_, line)| width_beside_urls(line) > COLUMNS_MAX);
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
    fn impurity_is_found_in_cores_alone() {
        let table = [
            ("use tokio::sync::mpsc;", vec![1]),
            ("\nasync fn a() {}", vec![2]),
            ("use std::fs::File;", vec![1]),
            ("use std::{env, fmt};", vec![1]),
            ("\nuse std::{\n    fmt,\n    net,\n};", vec![2]),
            ("let at = Instant::now();", vec![1]),
            ("use std::collections::{BTreeMap, HashMap};", vec![1]),
            ("println!(\"\");", vec![1]),
            ("use plimsoll_clock::Clock;", vec![1]),
            ("use std::collections::BTreeMap; // not a HashMap", vec![]),
            ("fn instant(now: Now) -> Mono { network.fs }", vec![]),
        ];
        for (text, expected) in table {
            assert_eq!(lines(impure_core, "node/src/core/outbox/mod.rs", text), expected, "{text}");
            assert_eq!(lines(impure_core, "aggregator/blame/src/a.rs", text), expected, "{text}");
            assert_eq!(lines(impure_core, "node/src/io/disk.rs", text), NOWHERE, "{text}");
        }
    }

    #[test]
    fn a_select_is_found_outside_drivers_and_a_second_one_within() {
        let text = "fn a() {\n    tokio::select! {}\n    select! {}\n}\n";
        assert_eq!(lines(stray_select, "node/src/io/listen/mod.rs", text), [2, 3]);
        assert_eq!(lines(stray_select, "node/src/driver/mod.rs", text), [3]);
        assert_eq!(lines(stray_select, "schemas/bus/src/link.rs", text), NOWHERE);
        assert_eq!(lines(stray_select, "node/src/io/a.rs", "// select!\npreselect!();\n"), NOWHERE);
    }

    #[test]
    fn only_urls_may_make_a_comment_wider_than_100_columns() {
        let wide = "x".repeat(101);
        let table = [
            (format!("// {}", "é".repeat(97)), vec![]),
            (format!("\n    // {wide}"), vec![2]),
            (format!("/// <https://example.org/{wide}>"), vec![]),
            (format!("/// {wide} <https://example.org>"), vec![1]),
            (format!("a(\"{wide}\");"), vec![]),
        ];
        for (text, expected) in table {
            assert_eq!(lines(comment_width, "a.rs", &text), expected, "{text}");
        }
    }
}
