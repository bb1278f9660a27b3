//! Which build of a program this is: for `--version`, metrics and reports of defects.
//!
//! The version is that of the workspace. The commit is known of archives and packages, whose build
//! sets `PLIMSOLL_COMMIT`; other builds would be compiled again after each commit if they had it.

use std::sync::LazyLock;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit's hash, or `unknown`.
pub const COMMIT: &str = match option_env!("PLIMSOLL_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
/// Text of every metric with both.
pub const HELP: &str = "Version and commit of this program, always 1";
/// Names of its labels.
pub const LABELS: [&str; 2] = ["version", "commit"];

/// What `--version` prints after the program's name.
pub fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{VERSION} (commit {COMMIT})"));
    &TEXT
}
