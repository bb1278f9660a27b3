//! Who may depend on whom, and where versions are stated.
//!
//! Works on what cargo says (`cargo metadata`, `cargo tree`) and on the manifests' own lines.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::{Table, Value};

use crate::tree::Violation;

/// The vocabulary, and that of profiles, which adds to it.
const SCHEMAS: &str = "plimsoll-schemas";
const PROFILE: &str = "plimsoll-profile";
const CLOCK: &str = "plimsoll-clock";
/// What they must not drag into everything.
const RUNTIMES: [&str; 10] = [
    "tokio",
    "async-nats",
    "axum",
    "reqwest",
    "hyper",
    "tower-http",
    "futures-util",
    "nix",
    "socket2",
    "tracing",
];
/// What would make an agent beside every job heavy.
const TOO_HEAVY_FOR_A_NODE: [&str; 4] = ["reqwest", "redb", "rusqlite", "plimsoll-aggregator"];

/// The NATS client, and the one crate that uses it.
const BUS_CLIENT: (&str, &str) = ("async-nats", "plimsoll-bus");

/// The crate that starts a mesh of real processes, and the crates whose code may use it. Tests of
/// any crate may; it uses the vocabulary and the HTTP client alone.
const MESH: &str = "plimsoll-mesh";
const MESH_USERS: [&str; 3] = ["plimsoll-cli", "plimsoll-drills", "plimsoll-tests"];
const MESH_USES: [&str; 4] =
    ["plimsoll-bus", "plimsoll-clock", "plimsoll-runtime", "plimsoll-schemas"];

/// The workspace as `cargo metadata --no-deps` tells it.
#[derive(Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` for the code itself.
    kind: Option<String>,
}

impl Workspace {
    fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// All workspace packages that `name` needs, however far away, tests' needs included.
    fn reach<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![name];
        while let Some(package) = open.pop().and_then(|name| self.package(name)) {
            let members = package.dependencies.iter().filter_map(|d| self.package(&d.name));
            open.extend(members.map(|p| p.name.as_str()).filter(|name| reached.insert(*name)));
        }
        reached
    }
}

/// Dependencies that point the wrong way.
pub(crate) fn wrong_direction(workspace: &Workspace) -> Vec<Violation> {
    let mut broken = Vec::new();
    for package in &workspace.packages {
        let reached = workspace.reach(&package.name);
        let forbidden: Vec<&str> = match package.name.as_str() {
            SCHEMAS | PROFILE => {
                let direct = package.dependencies.iter().map(|d| d.name.as_str());
                let runtimes = direct.filter(|name| RUNTIMES.contains(name));
                let members = reached.iter().copied();
                let members = members.filter(|name| package.name != PROFILE || *name != SCHEMAS);
                // A benchmark measures.
                let clock = package.dependencies.iter().find(|d| d.name == CLOCK);
                let has_bench = clock.is_some_and(|d| d.kind.is_some());
                let members = members.filter(|name| !has_bench || *name != CLOCK);
                members.chain(runtimes).collect()
            }
            "plimsoll-node" => only(&reached, "plimsoll-aggregator"),
            "plimsoll-aggregator" => only(&reached, "plimsoll-node"),
            MESH => reached.iter().copied().filter(|name| !MESH_USES.contains(name)).collect(),
            _ => Vec::new(),
        };
        let uses_mesh = package.dependencies.iter().any(|d| d.kind.is_none() && d.name == MESH);
        let starts_processes = uses_mesh && !MESH_USERS.contains(&&*package.name);
        let (client, bus) = BUS_CLIENT;
        let uses_client = package.dependencies.iter().any(|d| d.name == client);
        let bypasses_bus = uses_client && package.name != bus;

        let top = ["plimsoll-drills", "plimsoll-tests"];
        let on_top = top.into_iter().filter(|name| reached.contains(name));
        let single = [(starts_processes, MESH), (bypasses_bus, client)];
        let single = single.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, name)| name);
        for name in forbidden.into_iter().chain(on_top).chain(single) {
            let fix = format!("must not depend on {name}, not even through another crate");
            broken.push(Violation::new(&package.manifest_path, 1, fix));
        }
    }
    broken
}

fn only<'a>(reached: &BTreeSet<&'a str>, name: &str) -> Vec<&'a str> {
    reached.iter().copied().filter(|reached| *reached == name).collect()
}

/// What is too heavy in a node's normal tree: one package name per line, perhaps with a version.
pub(crate) fn heavy_node(path: &str, tree: &str) -> Vec<Violation> {
    let names = (1..).zip(tree.lines()).filter_map(|(line, text)| Some((line, first(text)?)));
    let heavy = names.filter(|(_, name)| TOO_HEAVY_FOR_A_NODE.contains(name));
    heavy
        .map(|(line, name)| Violation::new(path, line, format!("an agent stays small: no {name}")))
        .collect()
}

fn first(text: &str) -> Option<&str> {
    text.split_whitespace().next()
}

/// The manifest of a member; `None` of any other file.
fn member(path: &str, text: &str) -> Option<Table> {
    path.ends_with("/Cargo.toml").then(|| text.parse().expect("cargo reads it too"))
}

/// Versions stand at the root alone; members say `workspace = true`.
pub(crate) fn stray_version(path: &str, text: &str) -> Vec<Violation> {
    let Some(manifest) = member(path, text) else { return Vec::new() };
    let of_targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let of_targets = of_targets.filter_map(|(_, target)| target.as_table());
    let tables = of_targets.chain([&manifest]).flat_map(|table| {
        let kinds = ["dependencies", "dev-dependencies", "build-dependencies"].into_iter();
        kinds.filter_map(|kind| table.get(kind)?.as_table()).flatten()
    });

    let is_shared = |value: &Value| value.get("workspace") == Some(&Value::Boolean(true));
    let own_version = manifest.get("package").and_then(|package| package.get("version"));
    let versions = own_version.filter(|version| !is_shared(version)).map(|_| "version");
    let stray = tables.filter(|(_, value)| !is_shared(value)).map(|(name, _)| name.as_str());
    stray
        .chain(versions)
        .map(|name| {
            let fix = format!("{name}: state it in the root's table, `workspace = true` here");
            Violation::new(path, 1, fix)
        })
        .collect()
}

/// Crates that may have unsafe code where they say why, and only for that have their own lints.
const DENY_UNSAFE: [&str; 2] = ["node/Cargo.toml", "node/client/Cargo.toml"];

/// Members take the workspace's lints; those that cannot repeat them, but for unsafe code.
pub(crate) fn own_lints(root: &Table, path: &str, text: &str) -> Vec<Violation> {
    let Some(manifest) = member(path, text) else { return Vec::new() };
    let agrees = if DENY_UNSAFE.contains(&path) {
        let mut shared = root["workspace"]["lints"].clone();
        shared["rust"]["unsafe_code"] = "deny".into();
        manifest.get("lints") == Some(&shared)
    } else {
        manifest.get("lints")
            == Some(&Table::from_iter([("workspace".to_owned(), true.into())]).into())
    };
    let fix = "write `[lints] workspace = true`; two crates repeat the root's tables";
    if agrees { Vec::new() } else { vec![Violation::new(path, 1, fix)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::lines;

    const NONE: [&str; 0] = [];

    #[test]
    fn lints_of_ones_own_are_found_and_those_for_unsafe_code_held_equal() {
        let root = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n";
        let root: Table = root.parse().unwrap();
        let faults = |path: &str, text: &str| own_lints(&root, path, text).len();
        let shared = "[lints]\nworkspace = true\n";
        let repeated = "[lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"deny\"\n";
        assert_eq!(faults("schemas/Cargo.toml", shared), 0);
        assert_eq!(faults(DENY_UNSAFE[0], repeated), 0);
        for (path, text) in [
            ("schemas/Cargo.toml", repeated),
            ("schemas/Cargo.toml", "[package]\n"),
            (DENY_UNSAFE[0], "[lints.rust]\nunsafe_code = \"deny\"\n"),
            (DENY_UNSAFE[1], shared),
        ] {
            assert_eq!(faults(path, text), 1, "{path}: {text}");
        }
    }

    fn workspace(edges: &[(&str, &[&str])]) -> Workspace {
        let package = |(name, needs): &(&str, &[&str])| Package {
            name: (*name).to_owned(),
            manifest_path: (*name).to_owned(),
            dependencies: needs.iter().map(|n| dependency(n)).collect(),
        };
        Workspace { packages: edges.iter().map(package).collect() }
    }

    /// `dev:` before a name marks what only tests need.
    fn dependency(text: &str) -> Dependency {
        match text.strip_prefix("dev:") {
            Some(name) => Dependency { name: name.to_owned(), kind: Some("dev".to_owned()) },
            None => Dependency { name: text.to_owned(), kind: None },
        }
    }

    fn accused(edges: &[(&str, &[&str])]) -> Vec<String> {
        wrong_direction(&workspace(edges)).into_iter().map(|violation| violation.path).collect()
    }

    #[test]
    fn the_vocabulary_may_need_neither_a_member_nor_a_runtime() {
        let bus: (&str, &[&str]) = ("plimsoll-bus", &["plimsoll-schemas", "tokio"]);
        assert_eq!(accused(&[("plimsoll-schemas", &["serde"]), bus]), NONE);
        assert_eq!(accused(&[("plimsoll-schemas", &["tokio"]), bus]), ["plimsoll-schemas"]);
        let member: &[&str] = &["plimsoll-workload"];
        let circle = [("plimsoll-schemas", member), ("plimsoll-workload", &[])];
        assert_eq!(accused(&circle), ["plimsoll-schemas"]);
        let schemas: (&str, &[&str]) = ("plimsoll-schemas", &["serde"]);
        let profile = |needs| accused(&[bus, schemas, ("plimsoll-profile", needs)]);
        assert_eq!(profile(&["plimsoll-schemas", "prost"]), NONE);
        assert_eq!(profile(&["plimsoll-schemas", "tracing"]), ["plimsoll-profile"]);
        assert_eq!(profile(&["plimsoll-bus"]), ["plimsoll-profile"]);
        assert_eq!(profile(&["dev:plimsoll-clock"]), NONE);
    }

    #[test]
    fn node_and_aggregator_may_not_meet_even_through_a_third() {
        let aggregator: (&str, &[&str]) = ("plimsoll-aggregator", &["plimsoll-schemas"]);
        let through = [("plimsoll-node", &["plimsoll-cli"][..]), aggregator];
        let cli: (&str, &[&str]) = ("plimsoll-cli", &["plimsoll-aggregator"]);
        assert_eq!(accused(&[through[0], through[1], cli]), ["plimsoll-node"]);
        assert_eq!(accused(&[("plimsoll-node", &["plimsoll-schemas"]), aggregator]), NONE);
    }

    #[test]
    fn code_of_the_command_alone_may_need_the_local_mesh() {
        let mesh: (&str, &[&str]) = ("plimsoll-mesh", &["plimsoll-schemas", "tokio"]);
        let schemas: (&str, &[&str]) = ("plimsoll-schemas", &["serde"]);
        let user = |name, needs| accused(&[mesh, schemas, (name, needs)]);
        assert_eq!(user("plimsoll-cli", &["plimsoll-mesh"]), NONE);
        assert_eq!(user("plimsoll-aggregator", &["dev:plimsoll-mesh"]), NONE);
        assert_eq!(user("plimsoll-aggregator", &["plimsoll-mesh"]), ["plimsoll-aggregator"]);
        assert_eq!(user("plimsoll-node", &["plimsoll-mesh"]), ["plimsoll-node"]);
        let heavy: (&str, &[&str]) = ("plimsoll-mesh", &["plimsoll-node"]);
        assert_eq!(accused(&[heavy, ("plimsoll-node", &[])]), ["plimsoll-mesh"]);
    }

    #[test]
    fn one_crate_alone_may_need_the_nats_client() {
        assert_eq!(accused(&[("plimsoll-bus", &["async-nats"])]), NONE);
        assert_eq!(accused(&[("plimsoll-cli", &["async-nats"])]), ["plimsoll-cli"]);
        assert_eq!(accused(&[("plimsoll-schemas", &["async-nats"])]).len(), 2);
    }

    #[test]
    fn nothing_may_need_drills_or_tests() {
        let drills: (&str, &[&str]) = ("plimsoll-drills", &["plimsoll-node"]);
        let tests: (&str, &[&str]) = ("plimsoll-tests", &["plimsoll-drills"]);
        assert_eq!(accused(&[drills, ("plimsoll-node", &[]), tests]), ["plimsoll-tests"]);
        assert_eq!(accused(&[drills, ("plimsoll-node", &[])]), NONE);
    }

    #[test]
    fn weight_in_a_node_is_found() {
        let tree = "plimsoll-node v0.1.0\ntokio v1.54.1\nreqwest v0.13.5\nredb-like v1.0.0\n";
        assert_eq!(lines(heavy_node, "node", tree), [3]);
    }

    #[test]
    fn versions_are_found_in_members_alone() {
        let bad = "[package]\nversion = \"1\"\n\
                   [dependencies]\na = \"1\"\nb = { path = \"b\" }\n\
                   [target.'cfg(unix)'.dev-dependencies]\nc = \"2\"\n\
                   [dependencies.d]\nversion = \"1\"\n";
        let found = stray_version("node/Cargo.toml", bad).into_iter();
        let names = found.map(|of| of.fix.split(':').next().unwrap_or_default().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), ["c", "a", "b", "d", "version"]);
        assert_eq!(stray_version("Cargo.toml", bad), []);
        let good = "[package]\nversion.workspace = true\n\
                    [dependencies]\na.workspace = true\n\
                    b = { workspace = true, features = [\n  \"c=d\",\n] }\n[lints]\nx = 1\n";
        assert_eq!(stray_version("node/Cargo.toml", good), []);
    }
}
