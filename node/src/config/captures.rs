//! The `[captures]` section: whether ordered captures are carried out, and by which profiler.

use std::path::PathBuf;

use super::section::section;

section! {
    pub struct CaptureSettings {
        pub enabled: bool = false,
        pub socket: PathBuf = PathBuf::from("/run/plimsoll-profiler/profiler.sock"),
        pub full_paths: bool = false,
    }
}
