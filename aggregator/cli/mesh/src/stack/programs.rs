//! Where the programs of a mesh are.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// Environment variable with the directory of the mesh's programs, if they are not beside this one.
pub const BIN_VARIABLE: &str = "PLIMSOLL_BIN_DIR";

/// The directory of the mesh's programs: that of this program, or its parent if this is a test.
///
/// # Errors
/// When neither contains them; the text has the command that builds them.
pub fn bin_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(BIN_VARIABLE) {
        return Ok(dir.into());
    }
    let own = std::env::current_exe().context("the path of this program is unknown")?;
    let mut dirs = own.ancestors().skip(1).take(2);
    let has_all = |dir: &&std::path::Path| {
        dir.join("plimsoll-node").is_file() && dir.join("plimsoll-aggregator").is_file()
    };

    match dirs.find(has_all) {
        Some(dir) => Ok(dir.to_owned()),
        None => bail!(
            "plimsoll-node and plimsoll-aggregator are not beside {}; build them with \
             `cargo build --workspace --bins` or set {BIN_VARIABLE} to their directory",
            own.display()
        ),
    }
}
