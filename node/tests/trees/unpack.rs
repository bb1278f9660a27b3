//! Lays a recorded tree's files out under a folder, for tests; their content does not matter here.
//!
//! The first lines of the text state what it records, and which readings are expected.
//! `= path text` is a file of one line. `== path` starts a file of several lines, and
//! `== path later` holds what that file has at the second sample.

use std::fs;
use std::path::Path;

/// Writes the files of the first sample, or those that the second one changes.
pub(crate) fn unpack(text: &str, root: &Path, later: bool) {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (path, content) = if let Some(path) = line.strip_prefix("== ") {
            let mut content = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with('=')) {
                content.extend([line, "\n"]);
            }
            (path, content)
        } else if let Some(line) = line.strip_prefix("= ") {
            let (path, value) = line.split_once(' ').unwrap_or((line, ""));
            (path, format!("{value}\n"))
        } else {
            continue;
        };
        let is_later = path.ends_with(" later");
        if is_later == later {
            write(&root.join(path.trim_end_matches(" later")), content.trim_start_matches('\n'));
        }
    }
}

/// Replaces the file in one step, so that no reader sees half of it.
pub(crate) fn write(path: &Path, content: &str) {
    let written = path.with_extension("new");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&written, content).unwrap();
    fs::rename(written, path).unwrap();
}
