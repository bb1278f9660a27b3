//! The NVML stub of the tests, built from sources that this program embeds. It is not a GPU: it
//! returns what its control file defines, by the table in its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

macro_rules! sources {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../tests/nvml_stub/", $name))),)*]
    };
}

/// The first one is the root of the crate.
const SOURCES: [(&str, &str); 7] = sources! {
    "nvml_stub.rs" "aside.rs" "control.rs" "faults.rs" "instances.rs" "links.rs" "polled.rs"
};

/// Builds the library into `dir`, where its control file will be; both are made there.
///
/// # Errors
/// When there is no `rustc`, or it is too old.
pub(super) fn build(dir: &Path) -> Result<PathBuf> {
    let sources = dir.join("nvml_stub");
    fs::create_dir_all(&sources)?;
    for (name, text) in SOURCES {
        fs::write(sources.join(name), text)?;
    }
    let library = dir.join("libnvidia-ml.so.1");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());

    let built = Command::new(&rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib"])
        // Threads that were in it once end by its code, so that it must not be unloaded before.
        .args(["-C", "link-arg=-Wl,-z,nodelete", "-o"])
        .args([&library, &sources.join(SOURCES[0].0)])
        .output()
        .with_context(|| format!("cannot run {}, which builds it", rustc.display()))?;

    if !built.status.success() {
        let stderr = String::from_utf8_lossy(&built.stderr);
        bail!("{}: {}", rustc.display(), stderr.lines().next().unwrap_or_default());
    }

    Ok(library)
}
