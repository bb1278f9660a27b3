//! Holds the whole tree against the house rules, so that reviews can be about ideas.
//!
//! Each rule is a pure function in `tidy/`, proved there on planted text; here it meets every
//! file that git tracks or would track, and lists all that is wrong. It judges form alone:
//! whether the code is right is the business of the other tests.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/decisions.rs"]
mod decisions;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/manifests.rs"]
mod manifests;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/outside.rs"]
mod outside;
#[path = "tidy/shape.rs"]
mod shape;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;
#[path = "tidy/words.rs"]
mod words;

use tree::{none, obeys, paths, read, root, stdout, texts};

/// The imports of every crate, by its source folder.
fn graphs() -> Vec<(String, modules::Graph)> {
    let paths = paths();
    let sources = circles::sources(&paths).into_iter();
    sources.map(|src| (src.clone(), modules::Graph::new(&src, &paths, read))).collect()
}

fn cargo(arguments: &[&str]) -> String {
    stdout(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), arguments)
}

#[test]
fn comments_are_narrow() {
    obeys(shape::comment_width);
}

#[test]
fn no_file_allows_lints_and_no_test_is_skipped() {
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
fn cores_are_pure() {
    obeys(shape::impure_core);
}

#[test]
fn files_of_a_crate_do_not_import_in_circles() {
    let graphs = graphs();
    let broken = graphs.iter().flat_map(|(_, graph)| circles::circles_of_files(graph));
    none(&broken.collect::<Vec<_>>());
}

#[test]
fn rooms_of_a_core_do_not_import_in_circles() {
    let graphs = graphs();
    let rooms = circles::CORES.iter().flat_map(|(source, core)| {
        let found = graphs.iter().find(|(name, _)| name == source);
        let (_, graph) = found.expect("both cores lie in a library");
        circles::circles_of_rooms(graph, core)
    });
    none(&rooms.collect::<Vec<_>>());
}

#[test]
fn outside_bytes_meet_no_panicking_call() {
    obeys(outside::panics_on_outside_bytes);
}

#[test]
fn code_and_decisions_refer_to_each_other() {
    none(&decisions::broken_links(&texts()));
}

#[test]
fn the_tree_in_architecture_is_the_tree() {
    none(&documents::wrong_tree(&read("ARCHITECTURE.md"), &paths()));
}

#[test]
fn versions_are_stated_at_the_root_alone() {
    obeys(manifests::stray_version);
}

#[test]
fn members_have_the_lints_of_the_workspace() {
    let workspace = read("Cargo.toml").parse().expect("cargo reads it too");
    obeys(|path, text| manifests::own_lints(&workspace, path, text));
}

#[test]
fn dependencies_point_one_way() {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let got = cargo(&arguments).replace(&format!("{}/", root().display()), "");
    let workspace = serde_json::from_str(&got).expect("cargo writes JSON");
    none(&manifests::wrong_direction(&workspace));
}

#[test]
fn a_node_stays_small() {
    let arguments = ["tree", "-p", "plimsoll-node", "-e", "normal", "--prefix", "none"];
    let got = cargo(&[&arguments[..], &["--offline", "--locked"]].concat());
    none(&manifests::heavy_node("cargo tree -p plimsoll-node", &got));
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
fn every_test_that_a_document_names_exists() {
    let rust = paths().into_iter().filter(|path| path.ends_with(".rs"));
    let sources: String = rust.map(|path| read(&path)).collect();
    let sections = [
        ("ARCHITECTURE.md", &["## Invariants"][..]),
        ("CONTRIBUTING.md", &["## First change in ten minutes"][..]),
        ("RECIPES.md", &[][..]),
    ];
    let unknown = sections.into_iter().flat_map(|(path, headings)| {
        documents::unknown_tests((path, &read(path)), headings, &sources)
    });
    none(&unknown.collect::<Vec<_>>());
}

#[test]
fn functions_and_paths_that_architecture_and_recipes_name_exist() {
    for path in ["ARCHITECTURE.md", "RECIPES.md"] {
        none(&documents::unknown_names((path, &read(path)), &texts()));
    }
}
