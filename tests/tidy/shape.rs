//! Where side effects may live: pure cores, one `select!` in a driver, one crate on the bus.

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
/// Modules that are impure, by the path that leads to them.
const IMPURE_MODULES: [(&str, &[&str]); 1] =
    [("std::", &["fs", "net", "env", "process", "thread"])];

/// Packages in which one driver joins a core and its io.
const DRIVEN: [&str; 2] = ["node/src/", "aggregator/src/"];

/// Cores take `now` and an event and return effects; nothing else gets in.
pub(crate) fn impure_core(path: &str, text: &str) -> Vec<Violation> {
    let is_core = path.contains("/src/core/") || path.ends_with("/src/core.rs");
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
    let driven = DRIVEN.iter().any(|package| path.starts_with(package));
    if !driven || !path.ends_with(".rs") {
        return Vec::new();
    }
    let source = Source::new(text);
    let selects = source.code().filter(|(_, code)| holds(code, "select!"));
    let in_driver = is_driver(path);
    let fix = "one task selects: send an event to the driver's only `select!`";
    selects.skip(usize::from(in_driver)).map(|(line, _)| Violation::new(path, line, fix)).collect()
}

fn is_driver(path: &str) -> bool {
    path.ends_with("/driver.rs") || path.ends_with("/driver/mod.rs")
}

/// Node and aggregator have one driver each.
pub(crate) fn second_driver(paths: &[String]) -> Vec<Violation> {
    let mut broken = Vec::new();
    for package in DRIVEN {
        let inside = paths.iter().filter(|path| path.starts_with(package));
        let drivers = inside.filter(|path| is_driver(path));
        let fix = "one driver joins core and io: let it own this task's state too";
        broken.extend(drivers.skip(1).map(|path| Violation::new(path, 1, fix)));
    }
    broken
}

/// One crate knows the NATS client; the root states its version.
pub(crate) fn stray_bus_client(path: &str, text: &str) -> Vec<Violation> {
    if path.starts_with("schemas/bus/") {
        return Vec::new();
    }
    let fix = "only schemas/bus talks to the NATS client: go through plimsoll-bus";
    let found: Vec<usize> = if path.ends_with("/Cargo.toml") {
        let lines = (1..).zip(text.lines());
        lines.filter(|(_, code)| code.contains("async-nats")).map(|(line, _)| line).collect()
    } else if path.ends_with(".rs") {
        let source = Source::new(text);
        let named = source.code().filter(|(_, code)| words(code).any(|word| word == "async_nats"));
        named.map(|(line, _)| line).collect()
    } else {
        Vec::new()
    };
    found.into_iter().map(|line| Violation::new(path, line, fix)).collect()
}

/// Rust lines fit a narrow window. A literal or a URL cannot be broken by the formatter, so a line
/// that is too wide because of one alone passes.
pub(crate) fn line_width(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let source = Source::new(text);
    let code: Vec<&str> = source.code().map(|(_, code)| code).collect();
    let by_text = |line: usize, raw: &str| {
        !raw.contains("//") && code[line - 1].chars().count() <= COLUMNS_MAX
    };
    let wide = source.raw().filter(|(_, line)| width_beside_urls(line) > COLUMNS_MAX);
    let wide = wide.filter(|(line, raw)| !by_text(*line, raw));
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
            assert_eq!(lines(impure_core, "node/src/io/disk.rs", text), NOWHERE, "{text}");
        }
    }

    #[test]
    fn a_select_is_found_outside_drivers_and_a_second_one_within() {
        let text = "fn a() {\n    tokio::select! {}\n    select! {}\n}\n";
        assert_eq!(lines(stray_select, "node/src/io/listen/mod.rs", text), [2, 3]);
        assert_eq!(lines(stray_select, "node/src/driver.rs", text), [3]);
        assert_eq!(lines(stray_select, "schemas/bus/src/link.rs", text), NOWHERE);
        assert_eq!(lines(stray_select, "node/src/io/a.rs", "// select!\npreselect!();\n"), NOWHERE);
    }

    #[test]
    fn a_second_driver_is_found_in_its_own_crate_alone() {
        let paths = ["node/src/driver.rs", "aggregator/src/driver/mod.rs", "node/src/io/driver.rs"];
        let broken = second_driver(&paths.map(str::to_owned));
        let found: Vec<&str> = broken.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(found, ["node/src/io/driver.rs"]);
        assert_eq!(second_driver(&["node/src/driver.rs".to_owned()]), []);
    }

    #[test]
    fn the_nats_client_is_found_outside_its_crate() {
        let (code, manifest) =
            ("\nuse async_nats::Client;\n", "[dependencies]\nasync-nats = \"1\"\n");
        assert_eq!(lines(stray_bus_client, "node/src/io/publish.rs", code), [2]);
        assert_eq!(lines(stray_bus_client, "node/Cargo.toml", manifest), [2]);
        assert_eq!(lines(stray_bus_client, "schemas/bus/src/connect.rs", code), NOWHERE);
        assert_eq!(lines(stray_bus_client, "Cargo.toml", manifest), NOWHERE);
        assert_eq!(lines(stray_bus_client, "node/src/main.rs", "f(\"async_nats=warn\");"), NOWHERE);
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
            (format!("a(\"{wide}\");"), vec![]),
            (format!("a(\"{wide}\"); // b"), vec![1]),
        ];
        for (text, expected) in table {
            assert_eq!(lines(line_width, "a.rs", &text), expected, "{text}");
        }
    }
}
