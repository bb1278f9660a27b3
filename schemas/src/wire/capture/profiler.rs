//! What a node sends `plimsoll-profiler` over its Unix socket, and what comes back: one line of
//! JSON each, and after the second the bytes of the profile.

use serde::{Deserialize, Serialize};

use crate::time::BootMillis;

use super::kind::CaptureKind;
use super::reason::CaptureState;
use super::response::CaptureFacts;

/// An order of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfilerOrder {
    /// The process, as the node sees it.
    pub pid: u32,
    /// What is measured.
    #[serde(default, skip_serializing_if = "CaptureKind::is_cpu")]
    pub kind: CaptureKind,
    /// Whether stacks have native frames too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub native: bool,
    /// Length of the capture.
    pub seconds: u32,
    /// Samples a second.
    pub hz: u32,
    /// Whether the profile has whole paths of files.
    #[serde(default)]
    pub full_paths: bool,
    /// An instant at which the process that sends was there, as the kernel stated to the node;
    /// `None` when an operator named the process. One that started later has taken over its number.
    #[serde(default)]
    pub alive_at: Option<BootMillis>,
}

/// The line before the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfilerResponse {
    /// A state that a capture ends with.
    pub state: CaptureState,
    /// How the capture went.
    #[serde(default)]
    pub facts: CaptureFacts,
    /// Bytes of the profile behind the line.
    #[serde(default)]
    pub bytes: u64,
}
