//! Holds the whole tree against the house rules, so that reviews can be about ideas.
//!
//! Each rule is a pure function in `tidy/`, proved there on planted text; here it meets every
//! file that git tracks or would track, and lists all that is wrong. It judges form alone:
//! whether the code is right is the business of the other tests.

#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/manifests.rs"]
mod manifests;
#[path = "tidy/shape.rs"]
mod shape;
#[path = "tidy/size.rs"]
mod size;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;
#[path = "tidy/words.rs"]
mod words;

use tree::{none, obeys, paths, root, stdout};

fn cargo(arguments: &[&str]) -> String {
    stdout(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), arguments)
}

#[test]
fn rust_files_are_short_and_main_files_shorter() {
    obeys(size::file_length);
}

#[test]
fn functions_are_short() {
    obeys(size::function_length);
}

#[test]
fn lines_are_narrow() {
    obeys(size::line_width);
}

#[test]
fn nothing_is_left_unfinished() {
    obeys(words::unfinished);
}

#[test]
fn no_lint_is_silenced_and_no_test_skipped_without_a_reason() {
    obeys(words::silenced);
}

#[test]
fn production_code_does_not_unwrap() {
    obeys(words::unwrapped);
}

#[test]
fn tests_do_not_sleep() {
    obeys(words::slept);
}

#[test]
fn tests_assert_no_time_from_above() {
    obeys(words::timed);
}

#[test]
fn files_and_modules_are_named_after_ideas() {
    obeys(words::idle_name);
}

#[test]
fn every_rust_file_begins_with_what_it_is_for() {
    obeys(words::undocumented);
}

#[test]
fn select_stands_in_drivers_once() {
    obeys(shape::stray_select);
}

#[test]
fn node_and_aggregator_have_one_driver_each() {
    none(&shape::second_driver(&paths()));
}

#[test]
fn cores_are_pure() {
    obeys(shape::impure_core);
}

#[test]
fn only_the_bus_crate_names_the_nats_client() {
    obeys(shape::stray_bus_client);
}

#[test]
fn versions_are_stated_at_the_root_alone() {
    obeys(manifests::stray_version);
}

#[test]
fn members_have_the_lints_of_the_workspace() {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("this is its root");
    obeys(|path, text| manifests::own_lints(&workspace, path, text));
}

#[test]
fn dependencies_point_one_way() {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let told = cargo(&arguments).replace(&format!("{}/", root().display()), "");
    let workspace = serde_json::from_str(&told).expect("cargo writes JSON");
    none(&manifests::wrong_direction(&workspace));
}

#[test]
fn a_node_stays_small() {
    let arguments = ["tree", "-p", "plimsoll-node", "-e", "normal", "--prefix", "none"];
    let told = cargo(&[&arguments[..], &["--offline", "--locked"]].concat());
    none(&manifests::heavy_node("cargo tree -p plimsoll-node", &told));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    obeys(documents::machine_path);
}

#[test]
fn no_file_names_a_package_registry() {
    obeys(documents::registry_host);
}

#[test]
fn headings_are_sentences() {
    obeys(documents::heading_case);
}

#[test]
fn every_test_that_the_invariants_name_exists() {
    let architecture =
        std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let rust = paths().into_iter().filter(|path| path.ends_with(".rs"));
    let sources = rust.map(|path| std::fs::read_to_string(root().join(path)).expect("listed"));
    none(&documents::unknown_tests(&architecture, &sources.collect::<String>()));
}
