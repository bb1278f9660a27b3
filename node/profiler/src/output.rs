//! What a capture returns: a profile, and how it came about.

use plimsoll_profile::Profile;

use crate::layout::Version;
use crate::native::NativeFacts;

/// Stacks of one process over one time.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The wall time of each thread.
    pub profile: Profile,
    /// Of the interpreter, if one was read.
    pub python: Option<Version>,
    /// If native stacks were ordered.
    pub native: Option<NativeFacts>,
    pub ended: End,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time was over.
    Complete,
    Cancelled,
    /// The process ended.
    Exited,
    /// The process executes another program.
    Replaced,
    /// The memory could no longer be read.
    Denied,
}

/// How the capture went. Each reading of a thread that counts, and each native sample, is in
/// exactly one of `whole`, `torn` and `empty`; with native stacks a tick reads no thread that runs.
/// Each tick is in exactly one of `ticks` and `missed`, but for the last of a process that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples taken.
    pub ticks: u64,
    /// Over before a sample could be taken, or native samples that the kernel could not keep.
    pub missed: u64,
    /// Stacks in the profile.
    pub whole: u64,
    /// Stacks, and lists of threads, that changed while they were read.
    pub torn: u64,
    /// Of threads that ran no Python function.
    pub empty: u64,
}
