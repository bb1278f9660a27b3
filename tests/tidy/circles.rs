//! No circle of files inside a crate, and none of rooms inside a core.

use crate::modules::{Graph, circles};
use crate::tree::Violation;

/// Source folders of all crates, and the cores whose rooms import in one direction.
pub(crate) const CORES: [(&str, &str); 2] =
    [("aggregator/src/", "aggregator/src/core/"), ("node/src/", "node/src/core/")];
/// Rooms that a core may have: those of the aggregator, which a reader meets one after the other in
/// the head of its root file.
const ROOMS_MAX: usize = 11;

/// The source folders of the crates that `paths` name: those that hold a `lib.rs`.
pub(crate) fn sources(paths: &[String]) -> Vec<String> {
    let libraries = paths.iter().filter_map(|path| path.strip_suffix("lib.rs"));
    libraries.filter(|folder| folder.ends_with("src/")).map(str::to_owned).collect()
}

/// Files that import each other.
pub(crate) fn circles_of_files(graph: &Graph) -> Vec<Violation> {
    let found = graph.circles().into_iter();
    found
        .map(|files| {
            let fix = format!(
                "these files import each other, so none can be read alone: {}",
                files.join(" ")
            );
            Violation::new(&files[0], 1, fix)
        })
        .collect()
}

/// Rooms of `core` that import each other, or more folders of them than a reader can keep in mind.
pub(crate) fn circles_of_rooms(graph: &Graph, core: &str) -> Vec<Violation> {
    let rooms = graph.rooms(core);
    let place = format!("{core}mod.rs");
    let mut broken: Vec<Violation> = circles(&rooms)
        .into_iter()
        .map(|rooms| Violation::new(&place, 1, format!("rooms in a circle: {}", rooms.join(" "))))
        .collect();
    let folders: Vec<&str> = rooms
        .keys()
        .filter(|room| graph.uses.keys().any(|file| file.starts_with(&format!("{core}{room}/"))))
        .map(String::as_str)
        .collect();
    if folders.len() > ROOMS_MAX {
        let names = folders.join(" ");
        let fix = format!("{} rooms, more than {ROOMS_MAX}: {names}", folders.len());
        broken.push(Violation::new(&place, 1, fix));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        Graph::new("node/src/", &names, |path| {
            files.iter().find(|(name, _)| *name == path).map_or("", |(_, text)| text).to_owned()
        })
    }

    #[test]
    fn a_circle_of_files_is_reported_once_with_all_its_files() {
        let planted = graph(&[
            ("node/src/a.rs", "use crate::b::B;\npub struct A;\n"),
            ("node/src/b.rs", "use crate::a::A;\npub struct B;\n"),
            ("node/src/c.rs", "use crate::a::A;\n"),
        ]);
        let broken = circles_of_files(&planted);
        assert_eq!(broken.len(), 1);
        assert!(broken[0].fix.ends_with("node/src/a.rs node/src/b.rs"), "{}", broken[0]);
    }

    #[test]
    fn rooms_in_a_circle_and_too_many_rooms_are_reported() {
        let core = "node/src/core/";
        let circle = graph(&[
            ("node/src/core/intake/mod.rs", "use crate::core::outbox::queue::Queue;\n"),
            ("node/src/core/intake/line.rs", "pub struct Line;\n"),
            ("node/src/core/outbox/queue.rs", "pub struct Queue;\n"),
            ("node/src/core/outbox/mod.rs", "use crate::core::intake::line::Line;\n"),
        ]);
        assert_eq!(circles_of_files(&circle), []);
        assert_eq!(circles_of_rooms(&circle, core).len(), 1);
        let names: Vec<String> =
            (0..=ROOMS_MAX).map(|n| format!("node/src/core/room{n}/mod.rs")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(circles_of_rooms(&graph(&many), core).len(), 1);
        assert_eq!(circles_of_rooms(&graph(&many[1..]), core), []);
    }

    #[test]
    fn crates_are_found_by_their_library() {
        let paths = ["node/src/lib.rs", "node/src/io/lib.rs", "drills/src/bin/a.rs"];
        assert_eq!(sources(&paths.map(str::to_owned)), ["node/src/"]);
    }
}
