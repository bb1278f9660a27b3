//! Builds the NVML stub and steers it, for every test that needs a GPU: included with `#[path =
//! "..."] mod library;`. Needs `rustc`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the stub into `dir`, where [`steer`] steers it; `flags` go to rustc.
pub(crate) fn build(dir: &Path, flags: &[&str]) -> PathBuf {
    let library = dir.join("libnvidia-ml.so.1");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib"])
        // Threads that called it run its code when they end, so it must not be unloaded before.
        .args(["-C", "link-arg=-Wl,-z,nodelete", "-o"])
        .arg(&library)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/nvml_stub/nvml_stub.rs"))
        .args(flags)
        .env("PLIMSOLL_STUB_CONTROL", dir.join("control"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// Replaces the control file in one step: the stub must never read half of it.
pub(crate) fn steer(dir: &Path, control: &str) {
    let next = dir.join("next");
    fs::write(&next, control).unwrap();
    fs::rename(next, dir.join("control")).unwrap();
}
