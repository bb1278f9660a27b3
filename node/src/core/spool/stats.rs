//! Statistics of the spool for the node's own metrics and logs.

/// What became of the spool and its contents so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStats {
    /// Bytes of its file, or 0 while that is not known.
    pub bytes: usize,
    /// Whether everything held would survive the end of the process.
    pub durable: bool,
    /// Whether messages wait for a disk that does not answer, or that holds an outdated file.
    pub stuck: bool,
    pub failures: u64,
    /// Samples recovered from former incarnations.
    pub recovered: u64,
    /// Samples in sealed messages of former incarnations that were too old to be sent again.
    pub expired: u64,
    /// Samples lost with the interval that was open when the last process ended.
    pub crashed: u64,
    /// Samples of which a damaged file does not show whether they were sent.
    pub uncertain: u64,
    /// Why a file was quarantined at the start, if one was.
    pub quarantined: Option<&'static str>,
}
