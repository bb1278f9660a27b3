//! Builds the NVML stub and steers it, for every test that needs a GPU: included with `#[path =
//! "..."] mod library;`. Needs `rustc`.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/nvml_stub");

/// Puts the stub into `dir`, where [`steer`] steers it; `flags` go to rustc. One build serves every
/// test with the same sources and flags.
pub(crate) fn build(dir: &Path, flags: &[&str]) -> PathBuf {
    let name = format!("nvml-stub-{:016x}.so", key(flags));
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !built.exists() {
        compile(&built, flags);
    }

    let library = dir.join("libnvidia-ml.so.1");
    fs::copy(built, &library).unwrap();
    library
}

/// Differs if a source or a flag does.
fn key(flags: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    flags.hash(&mut hasher);
    let mut sources: Vec<PathBuf> =
        fs::read_dir(SOURCES).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.sort();
    sources.iter().for_each(|path| fs::read(path).unwrap().hash(&mut hasher));
    hasher.finish()
}

/// In a folder of its own, and renamed once it is whole: another test may build it meanwhile.
fn compile(built: &Path, flags: &[&str]) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let part = folder.path().join("stub.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib"])
        // Threads that called it run its code when they end, so it must not be unloaded before.
        .args(["-C", "link-arg=-Wl,-z,nodelete", "-o"])
        .arg(&part)
        .arg(format!("{SOURCES}/nvml_stub.rs"))
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(part, built).unwrap();
}

/// Replaces the control file in one step: the stub must never read half of it.
pub(crate) fn steer(dir: &Path, control: &str) {
    let next = dir.join("next");
    fs::write(&next, control).unwrap();
    fs::rename(next, dir.join("control")).unwrap();
}
